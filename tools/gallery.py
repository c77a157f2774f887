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
import resource
import shutil
import subprocess
import sys
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
    # Processor time, which other programs disturb little; with one thread it is the time on a core of one's own.
    before = _processor_seconds()
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    seconds = _processor_seconds() - before
    shutil.copy(folder / "picture.png", ROOT / "docs" / "gallery" / f"{name}.png")
    return {"seconds": seconds, **figures(printed)}


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    found = record["examples"]
    rows = tuple(_row(title, found[name]) for name, title in EXAMPLES.items() if name in found)
    headings = ("example", "result with ±1 weights", "bytes of the file", "with float32 weights", "processor time")
    where = f"One thread, {record['hardware']['processor']}, {record['date'][:10]}"
    table = Table(headings=headings, rows=rows, words=2).markdown()
    return {"gallery": f"{table}\n\n{where}: [the record](../results/{RECORD})."}


def _row(title: str, found: JsonObject) -> tuple[str, ...]:
    return title, found["result"], f"{found['bytes']:,}", f"{found['float32_bytes']:,}", duration(found["seconds"])


def main() -> None:
    """Run the examples that the command line names, and update the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help=f"all by default, or some of {', '.join(EXAMPLES)}")
    path = ROOT / "results" / RECORD
    for name in parser.parse_args().name or EXAMPLES:
        found = run(name)
        print(f"{name}: {found}", flush=True)
        others = json.loads(path.read_text(encoding="utf-8"))["examples"] if path.exists() else {}
        write_record(path, {"examples": others | {name: found}})


if __name__ == "__main__":
    main()
