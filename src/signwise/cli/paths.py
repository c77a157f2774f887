"""What a command reads and writes: mistakes in paths are found before any work is done."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from signwise.errors import FormatError, SignwiseError
from signwise.invocation import command

if TYPE_CHECKING:
    from signwise.program import IntegerProgram
    from signwise.program.program import Program

T = TypeVar("T")


def load_program(target: str | Path) -> Program:
    """The program in a packed file, or a shipped one by name; for a run, the error says to compile it first.

    Raises:
        SignwiseError: there is no such file, or it holds something else.
    """
    from signwise.program.program import Program

    return _load(target, Program.load)


def load_any_program(target: str | Path) -> Program | IntegerProgram:
    """As :func:`load_program`, for commands that take programs in integers alone, too."""
    from signwise.program.program import load_any

    return _load(target, load_any)


def _load(target: str | Path, load: Callable[[str | Path], T]) -> T:
    path = Path(target)
    run = path if path.is_dir() else path.parent
    is_part_of_run = path.suffix == ".safetensors" and (run / "config.json").exists()
    if path.is_dir() or is_part_of_run:
        what = "a folder" if path.is_dir() else "weights of a run"
        raise SignwiseError(
            f"{path} is {what}, and this command takes a packed file: {command()} compile {run} writes one"
        )
    try:
        return load(target)
    except FormatError as error:
        if path.suffix in (".pt", ".pth", ".safetensors", ".onnx"):
            raise FormatError(f"{error}; packed files are written by signwise compile and signwise.compile") from None
        raise


def check_run(folder: Path) -> None:
    """Refuse a path that cannot be a run, before PyTorch is loaded."""
    if folder.exists() and not folder.is_dir():
        raise SignwiseError(
            f"{folder} is a file, and this command takes the folder of a run; "
            "signwise.compile(model, example) compiles your own model in Python"
        )


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written: its folder is missing or read-only, or the path is a folder itself."""
    if path.is_dir():
        raise SignwiseError(f"cannot write {path}: it is a folder")
    folder = path.parent
    if not folder.is_dir():
        raise SignwiseError(f"cannot write {path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise SignwiseError(f"cannot write {path}: {folder} does not let you write")
