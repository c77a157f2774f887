"""The trained programs that come with the package, by name: packed files, ready to run without PyTorch.

They were trained by the paper's recipes; ``signwise inspect NAME`` shows what each file says about itself.
"""

from __future__ import annotations

import difflib
from os import PathLike, fspath
from pathlib import Path

from signwise.errors import SignwiseError

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The names of the shipped programs, such as ``lenet5-mnist-1bit``."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.sw")))


def resolve(target: str | PathLike[str]) -> Path:
    """The file that ``target`` means: an existing path, else the shipped program of that name.

    Raises:
        SignwiseError: it is neither; the message suggests the nearest name.

    Example:
        >>> resolve("no-such-network")
        Traceback (most recent call last):
            ...
        signwise.errors.SignwiseError: there is no file 'no-such-network' and no shipped program of that name
    """
    path = Path(target)
    if path.exists():
        return path
    shipped = _FOLDER / f"{fspath(target)}.sw"
    if path.name == fspath(target) and shipped.exists():
        return shipped
    nearest = difflib.get_close_matches(fspath(target), names(), n=1)
    hint = f": did you mean {nearest[0]}?" if nearest else ""
    raise SignwiseError(f"there is no file {fspath(target)!r} and no shipped program of that name{hint}")
