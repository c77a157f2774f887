"""How to call the commands of this environment, so that a command that signwise prints works as printed.

A virtual environment that is not activated has its commands in a folder that the shell does not search:
``.venv/bin/signwise`` works there, and ``signwise`` does not.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def command(name: str = "signwise") -> str:
    """The shortest form of a command of this environment that the user's shell finds.

    Args:
        name: a command that comes with a package, such as ``signwise`` or ``pip``.

    Returns:
        ``name`` where the search path leads to this environment, else the path of its script, else
        ``python -m name``.
    """
    # Not resolved: a virtual environment's Python is a link to the system's, whose folder has other scripts.
    folder = Path(sys.executable).parent
    script = next((path for path in (folder / name, folder / f"{name}.exe") if path.exists()), None)
    found = shutil.which(name)
    if script is None:
        return f"{shlex.quote(_short(Path(sys.executable)))} -m {name}"
    return name if found is not None and Path(found) == script else shlex.quote(_short(script))


def install(*packages: str) -> str:
    """The command that installs packages here; it names them alone, so that it works however signwise was installed.

    Example:
        >>> install("torch").endswith(" install torch")
        True
    """
    return f"{command('pip')} install {' '.join(packages)}"


def _short(path: Path) -> str:
    """The path from the current folder, if it is below it."""
    try:
        below = os.fspath(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current folder is gone
        return os.fspath(path)
    # A bare name would be looked up in the search path.
    return below if os.sep in below else os.path.join(os.curdir, below)  # noqa: PTH118 - Path drops the dot
