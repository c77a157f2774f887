"""``python -m signwise`` is the command ``signwise``."""

from __future__ import annotations

import sys

from signwise.cli import main

if __name__ == "__main__":
    sys.exit(main())
