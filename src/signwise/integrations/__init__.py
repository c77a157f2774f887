"""signwise inside other people's tools: ``lightning``, ``huggingface`` and ``hub``.

Each module imports the package that it is about, and says how to install it where it is missing:
``pip install 'signwise[integrations]'``. Nothing else in signwise imports them.
"""

from __future__ import annotations
