"""A run's folder belongs to one process, and its records tell each epoch once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from signwise.errors import FormatError, SignwiseError
from signwise.training.run_folder import RunFolder, read_config, read_records


def test_a_second_run_in_the_same_folder_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "run", resume=False)
    with pytest.raises(SignwiseError, match="another process is training in"):
        RunFolder(tmp_path / "run", resume=True)
    first.close()
    RunFolder(tmp_path / "run", resume=False).close()


def test_a_folder_with_a_run_is_refused_without_resume(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, resume=False)
    folder.write_config({"recipe": {}})
    folder.close()
    with pytest.raises(SignwiseError, match="already holds a run: continue it with --resume, or choose another --out"):
        RunFolder(tmp_path, resume=False)
    RunFolder(tmp_path, resume=True).close()


def test_lines_of_later_epochs_and_a_line_cut_short_are_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, resume=False)
    folder.append("metrics.jsonl", [{"epoch": 1}, {"epoch": 2}])
    folder.append("metrics.jsonl", [{"epoch": 3}])
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"epo')
    assert [record["epoch"] for record in read_records(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    folder.keep_epochs("metrics.jsonl", 2)
    folder.append("metrics.jsonl", [{"epoch": 3}])
    assert (tmp_path / "metrics.jsonl").read_text() == '{"epoch": 1}\n{"epoch": 2}\n{"epoch": 3}\n'
    folder.close()


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match="holds no run"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match="cannot read"):
        read_config(tmp_path)
    assert read_records(tmp_path / "metrics.jsonl") == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SignwiseError, match="choose another folder with --out"):
        RunFolder(tmp_path / "file" / "run", resume=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(SignwiseError, match="cannot write to"):
        RunFolder(tmp_path, resume=False)
