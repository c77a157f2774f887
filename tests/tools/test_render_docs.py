"""The repository's pages: rendering them again from the records changes nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.markers import names
from tools.render_docs import ROOT, kernel_tables, main, pages

from signwise.reproduce.records import read_training_records
from signwise.reproduce.render import FIGURES, drawn_from, render
from tools import results

RENDERED = ROOT / results.RENDERED


def test_rendering_the_pages_again_changes_nothing() -> None:
    for path, text in pages(ROOT).items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, (
            f"{path} does not show what results/ holds: make render"
        )


@pytest.mark.slow
def test_rendering_tables_and_figures_again_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(RENDERED, tmp_path / "rendered")
    files = render("all", read_training_records(ROOT / "results"), tmp_path / "rendered")
    for path in files:
        assert path.read_bytes() == (RENDERED / path.name).read_bytes(), f"{path.name} is out of date: make render"


def test_the_published_figures_are_drawn_from_the_published_records() -> None:
    digest = drawn_from(read_training_records(ROOT / "results")).encode()
    for name in FIGURES:
        assert digest in (RENDERED / f"{name}.png").read_bytes(), f"{name}.png is older than its records: make render"


def test_every_block_of_the_results_page_is_rendered_and_shown() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert sorted(names(page)) == sorted(results.blocks(ROOT / "results"))


def test_links_of_the_rendered_files_lead_somewhere() -> None:
    for path in RENDERED.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"


def test_the_command_renders_a_repository_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("README.md", "docs", "results"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs/speed.md").write_text("<!-- begin speed -->\nold\n<!-- end speed -->\n")
    main(["--root", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "docs/speed.md rendered" in printed and "README.md is up to date" in printed
    assert "comparisons, signwise is slower in" in (tmp_path / "docs/speed.md").read_text()


def test_the_kernels_page_shows_every_layer_of_the_record() -> None:
    layer = {"isa": "abacus", "channels": 64, "filters": 128, "size": 32, "stride": 2, "count": 3, "seconds": 1e-4}
    layer |= {"giga_additions_a_second": 90.4, "share_of_limit": 0.371, "clock_gigahertz": 2.5, "vectors_a_cycle": 1}
    layer |= {"shares": {"prepare": 0.1, "build": 0.2, "sums": 0.6, "finish": 0.1}}
    layers = [layer | {"activations": kind} for kind in ("float32", "int8")]
    record = {"date": "2030-01-02T03:04:05Z", "hardware": {"processor": "beads"}, "layers": layers}
    text = kernel_tables(record)
    assert "| 3 × 64 → 128, 32x32, stride 2 | 100 | 90 | 37 % | 10 / 20 / 60 / 10 | 90 | 37 % |" in text
    assert "**abacus**, at 2.5 to 2.5 GHz, at most one vector per cycle:" in text and "beads" in text
