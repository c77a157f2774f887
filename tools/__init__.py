"""What renders this repository's own pages from its records, and makes the network that the package ships.

Not part of the package: run from the root of the repository, for example ``python -m tools.render_docs``.
"""

from __future__ import annotations
