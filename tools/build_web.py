"""Compile ``web/signwise.wasm`` with zig, and make the folder of the demo page: ``make wasm``, ``make web``.

python -m tools.build_web                     web/signwise.wasm
python -m tools.build_web --site build/site   the page with the shipped networks that it can show
"""

from __future__ import annotations

import argparse
from pathlib import Path

from signwise import export, shipped
from signwise.atomic import atomic_write
from signwise.program.program import Program
from tools.build_wheels import ROOT, Platform, build_library

WASM = ROOT / "web" / "signwise.wasm"


def build() -> None:
    """Compile the runtime; zig recompiles what has changed."""
    made = build_library(Platform("wasm32-wasi", "", "signwise.wasm"), jobs=2, options=("-DSIGNWISE_THREADS=OFF",))
    with atomic_write(WASM) as file:
        file.write(made.read_bytes())
    print(f"{WASM.relative_to(ROOT)}: {WASM.stat().st_size:,} bytes")


def write_site(folder: Path) -> None:
    """The page with one tab for each shipped network that reads images."""
    programs = {name: Program.load(name) for name in shipped.names()}
    images = {name: program for name, program in programs.items() if len(program.input_shape) == 3}
    # Gray before colour: the digits come first.
    files = export.wasm(dict(sorted(images.items(), key=lambda item: item[1].input_shape[0])), folder)
    print(f"{folder}: {sum(path.stat().st_size for path in files):,} bytes in {len(files)} files")


def main() -> None:
    """Compile, or write the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--site", type=Path, metavar="FOLDER", help="write the demo page to this folder")
    arguments = parser.parse_args()
    if arguments.site is None:
        build()
    else:
        write_site(arguments.site)


if __name__ == "__main__":
    main()
