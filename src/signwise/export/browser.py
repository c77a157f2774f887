"""A folder for the browser: the WebAssembly runtime, a page, and programs, ready to be served.

They are the files of ``web/`` in the repository, which a wheel has under ``signwise/web``.
``signwise.wasm`` is compiled by ``make wasm``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import signwise
from signwise.errors import SignwiseError
from signwise.program.file import write_file
from signwise.program.integers.program import IntegerProgram
from signwise.program.program import Program

RUNTIME = ("signwise.wasm", "signwise.js", "file.js", "operations.js", "signwise.d.ts")
PAGE = ("index.html", "page.css", "page.js", "sketch.js")


def wasm(programs: Mapping[str, Program], folder: str | PathLike[str]) -> list[Path]:
    """Write a folder that any web server can serve: a page with one tab per program, and the runtime.

    Args:
        programs: by name; ``lenet5`` becomes ``lenet5.sw``.
        folder: is made if it does not exist. Files of the same names are replaced, others are left alone.

    Returns:
        The files, the programs' last.

    Raises:
        SignwiseError: the runtime was not built, or a name is no file name.
    """
    for name, program in programs.items():
        if isinstance(program, IntegerProgram):
            raise SignwiseError(f"{name} is an integer program, which browsers do not run: take what it was made from")
        if Path(name).name != name or name in ("", ".", ".."):
            raise SignwiseError(f"a program's name becomes the name of its file, got {name!r}")
    source, target = web_folder(), Path(folder)
    contents = {name: (source / name).read_bytes() for name in (*RUNTIME, *PAGE)}
    contents["models.json"] = (json.dumps([_listed(*item) for item in programs.items()], indent=2) + "\n").encode()
    contents |= {f"{name}.sw": program.encode() for name, program in programs.items()}
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SignwiseError(f"cannot make the folder {str(target)!r}: {error.strerror}") from None
    for name, data in contents.items():
        write_file(target / name, data)
    return [target / name for name in contents]


def web_folder() -> Path:
    """The folder with the runtime and the page, in a wheel or in the repository."""
    package = Path(signwise.__file__).parent
    for folder in (package / "web", package.parent.parent / "web"):
        if (folder / "signwise.js").exists():
            if not (folder / "signwise.wasm").exists():
                raise SignwiseError(f"{folder} has no signwise.wasm: build it with `make wasm`")
            return folder
    raise SignwiseError("this installation has no browser runtime: install a wheel, or export from a clone")


def _listed(name: str, program: Program) -> dict[str, object]:
    """What the page needs to know about a program beside its file."""
    from signwise.datasets import DATASETS  # not at the top: engines of the benchmark import this package too

    listed: dict[str, object] = {"file": f"{name}.sw", "title": name}
    dataset = DATASETS.get(program.about.get("dataset", ""))
    if dataset is not None:
        listed["classes"] = list(dataset.classes)
    return listed
