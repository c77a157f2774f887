"""The gallery: run its examples, keep their pictures and what they printed, and render its blocks.

    python -m tools.gallery                run all of them: make gallery
    python -m tools.gallery unet small_gpt

Each runs alone, on one thread, in a process of its own. The pictures go to ``docs/gallery``, the figures to
``results/gallery.json``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from signwise.provenance import write_record
from signwise.reproduce.tables import Table
from signwise.text import duration
from tools.inference_records import JsonObject

ROOT = Path(__file__).parents[1]
RECORD = "gallery.json"
EXAMPLES = {
    "image_classification": "image classification",
    "fine_tuning": "fine-tuning",
    "keyword_spotting": "keyword spotting",
    "unet": "U-Net",
    "small_gpt": "small GPT",
}
_SIZES = re.compile(r"^.+: ([\d,]+) bytes; with float32 weights ([\d,]+)$")


def run(name: str) -> JsonObject:
    """Run an example, keep its picture, and return its time and the figures that it printed."""
    folder = ROOT / "build" / "gallery" / name
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    start = time.monotonic()
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    seconds = time.monotonic() - start
    shutil.copy(folder / "picture.png", ROOT / "docs" / "gallery" / f"{name}.png")
    return {"seconds": seconds, **figures(printed)}


def figures(printed: str) -> JsonObject:
    """The bytes of the packed file, the same with float32 weights, and the result: the line before the sizes."""
    lines = printed.splitlines()
    for before, line in itertools.pairwise(lines):
        if sizes := _SIZES.match(line):
            packed, full = (int(size.replace(",", "")) for size in sizes.groups())
            return {"result": before, "bytes": packed, "float32_bytes": full}
    raise ValueError(f"no line with sizes in {printed!r}")


def blocks(recorded: Path, missing: str) -> dict[str, str]:
    """The block of ``docs/gallery.md``."""
    path = recorded / RECORD
    if not path.exists():
        return {"gallery": missing}
    record: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(
        (
            title,
            record["examples"][name]["result"],
            f"{record['examples'][name]['bytes']:,}",
            f"{record['examples'][name]['float32_bytes']:,}",
            duration(record["examples"][name]["seconds"]),
        )
        for name, title in EXAMPLES.items()
    )
    headings = ("example", "result with ±1 weights", "bytes of the file", "with float32 weights", "time")
    where = f"One thread, {record['hardware']['processor']}, {record['date'][:10]}"
    table = Table(headings=headings, rows=rows, words=2).markdown()
    return {"gallery": f"{table}\n\n{where}: [the record](../results/{RECORD})."}


def main() -> None:
    """Run the examples that the command line names, and update the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help=f"all by default, or some of {', '.join(EXAMPLES)}")
    path = ROOT / "results" / RECORD
    found = json.loads(path.read_text(encoding="utf-8"))["examples"] if path.exists() else {}
    for name in parser.parse_args().name or EXAMPLES:
        found[name] = run(name)
        print(f"{name}: {found[name]}", flush=True)
        write_record(path, {"examples": found})


if __name__ == "__main__":
    main()
