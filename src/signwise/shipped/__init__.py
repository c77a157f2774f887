"""The trained programs that come with the package, by name: packed files, ready to run without PyTorch.

Each was trained by the recipe of its name; ``signwise inspect NAME`` shows what a file says about itself.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path

from signwise.errors import SignwiseError
from signwise.text import unknown_name

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The names of the shipped programs, such as ``lenet5-mnist-1bit``."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.sw")))


def resolve(target: str | PathLike[str]) -> Path:
    """The file that ``target`` means: an existing path, else the shipped program of that name.

    Raises:
        SignwiseError: it is neither; the message suggests the nearest name.

    Example:
        >>> resolve("lenet5-bit")
        Traceback (most recent call last):
            ...
        signwise.errors.SignwiseError: there is no file or shipped program 'lenet5-bit': did you mean lenet5-mnist-1bit?
    """
    path = Path(target)
    if path.exists():
        return path
    shipped = _FOLDER / f"{fspath(target)}.sw"
    if path.name == fspath(target) and shipped.exists():
        return shipped
    raise SignwiseError(unknown_name("file or shipped program", fspath(target), names()))
