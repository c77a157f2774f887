"""A run's folder belongs to one process, its records hold each epoch once, and old folders still load."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from signwise import models
from signwise.errors import FormatError, SignwiseError
from signwise.training import Options, Recipe, checkpoint
from signwise.training.run import train
from signwise.training.run_folder import RunFolder, load_run, read_config, read_records

# A run of `tiny` below, written by version 0.1.0: stopped after step 12 of 20. `finished` holds its last weights and
# metrics from the same version, trained to the end.
OLD_RUN = Path(__file__).parent / "old_run"


def tiny(num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.AvgPool2d(7),
        nn.Flatten(),
        nn.Linear(16, 12),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, 12),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Linear(12, num_classes),
    )


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
    with pytest.raises(SignwiseError, match="already holds a run: continue it with `resume`, or choose another `out`"):
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


@pytest.mark.parametrize("line", [b"\0" * 40, b"[1]", b'{"epocg": 2}', b'{"epoch": "2"}', b"[" * 100_000])
def test_a_damaged_line_is_dropped_with_a_note_and_the_others_stay(tmp_path: Path, line: bytes) -> None:
    folder = RunFolder(tmp_path, resume=False)
    good = [b'{"epoch": 1, "error": 2.5}', b'{"epoch": 2, "error": 1.5}']
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join([good[0], line, good[1], b""]))
    (note,) = folder.keep_epochs("metrics.jsonl", 2)
    assert note == f"{tmp_path / 'metrics.jsonl'} was damaged; dropped line 2"
    assert (tmp_path / "metrics.jsonl").read_bytes() == b"\n".join([*good, b""])
    assert folder.keep_epochs("metrics.jsonl", 2) == []
    folder.close()


def test_epochs_that_the_metrics_have_lost_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, resume=False)
    metrics = tmp_path / "metrics.jsonl"
    assert folder.keep_epochs("metrics.jsonl", 1) == [f"{metrics} lacks epoch 1, which the checkpoint counts"]
    metrics.write_bytes(b'{"epoch": 2}\n{"epoch": 3, "los')  # the last line is cut short
    assert folder.keep_epochs("metrics.jsonl", 3) == [f"{metrics} lacks epoch 1, 3, which the checkpoint counts"]
    assert folder.keep_epochs("state.jsonl", 3) == []  # has lines about watched epochs alone
    folder.close()


def test_records_that_cannot_be_written_back_are_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path, resume=False)
    folder.append("metrics.jsonl", [{"epoch": 1}])

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(SignwiseError, match=r"cannot write .*metrics.jsonl: No space left on device; .* is intact"):
        folder.keep_epochs("metrics.jsonl", 1)
    assert read_records(tmp_path / "metrics.jsonl") == [{"epoch": 1}]
    folder.close()


def test_a_start_removes_unfinished_files_of_its_own_and_no_others(tmp_path: Path) -> None:
    mine = [".checkpoint.safetensors.0f3c9a12.part", ".config.json.a_b2c3d4.part", ".best.safetensors.00000000.part"]
    foreign = [".backup.part", ".checkpoint.safetensors.part", ".notes.txt.0f3c9a12.part"]
    for name in (*mine, *foreign):
        (tmp_path / name).touch()
    RunFolder(tmp_path, resume=True).close()
    assert sorted(path.name for path in tmp_path.glob("*.part")) == sorted(foreign)


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(SignwiseError, match="holds no run"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match=r"is damaged .*resumes by its checkpoint"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"recipd": {}}')
    with pytest.raises(FormatError, match="is damaged: it has no recipe"):
        read_config(tmp_path)
    assert read_records(tmp_path / "metrics.jsonl") == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SignwiseError, match="choose another `out`"):
        RunFolder(tmp_path / "file" / "run", resume=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(SignwiseError, match="cannot write to"):
        RunFolder(tmp_path, resume=False)


def test_a_run_without_weights_cannot_be_loaded(small: Recipe, tmp_path: Path) -> None:
    record = {"recipe": small.to_json(), "network": {"classes": list("0123456789")}}
    (tmp_path / "config.json").write_text(json.dumps(record))
    with pytest.raises(SignwiseError, match="has no weights yet"):
        load_run(tmp_path)
    with pytest.raises(SignwiseError, match="which must be best or last"):
        load_run(tmp_path, "first")


def test_a_run_of_an_older_version_loads_and_resumes_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MODELS", models.MODELS | {"tiny": tiny})
    folder = tmp_path / "run"
    shutil.copytree(OLD_RUN, folder, ignore=shutil.ignore_patterns("finished"))
    assert load_run(folder).step == 5 and load_run(folder, "last").step == 12
    recipe = Recipe.from_json(read_config(folder)["recipe"])
    train(recipe, folder, options=Options(device="cpu", resume=True, tensorboard=False))

    assert read_config(folder)["resumed"][0]["step"] == 12
    expected = checkpoint.read_tensors(OLD_RUN / "finished" / "last.safetensors").tensors
    found = checkpoint.read_tensors(folder / "last.safetensors").tensors
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)  # processors round differently
    old, new = (read_records(path / "metrics.jsonl") for path in (OLD_RUN / "finished", folder))
    assert [row.keys() - {"flipped_signs", "relative_step"} for row in new] == [row.keys() for row in old]
    for before, now in zip(old, new, strict=True):
        for name in before.keys() - {"seconds", "images_per_second"}:
            assert now[name] == pytest.approx(before[name], rel=1e-4)
