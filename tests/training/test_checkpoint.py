"""A checkpoint is there whole, or the one before it is."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from signwise.errors import FormatError, SignwiseError
from signwise.training import checkpoint
from signwise.training.checkpoint import Checkpoint


def make(step: int) -> Checkpoint:
    tensors = {"network/weight": torch.full((3, 4), float(step)), "count": torch.tensor(step), "none": torch.empty(0)}
    return Checkpoint(tensors, {"progress": {"step": step}})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, make(5))
    found, complaints = checkpoint.read(tmp_path)
    assert found is not None and not complaints
    assert found.record["progress"] == {"step": 5}
    assert all(torch.equal(found.tensors[name], value) for name, value in make(5).tensors.items())


def test_the_json_is_one_key_of_the_metadata_and_the_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, make(5))
    content = (tmp_path / checkpoint.CURRENT).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    assert list(metadata) == ["signwise"] and json.loads(metadata["signwise"])["version"] == 2
    checkpoint.write(tmp_path, make(5))
    assert (tmp_path / checkpoint.CURRENT).read_bytes() == content


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert checkpoint.read(tmp_path) == (None, [])


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_file_that_is_cut_short_gives_way_to_the_one_before(tmp_path: Path, keep: int) -> None:
    checkpoint.write(tmp_path, make(1))
    checkpoint.write(tmp_path, make(2))
    path = tmp_path / checkpoint.CURRENT
    path.write_bytes(path.read_bytes()[:keep])
    found, complaints = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1
    assert len(complaints) == 1 and str(path) in complaints[0]


def test_a_single_wrong_bit_gives_way_to_the_one_before(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, make(1))
    checkpoint.write(tmp_path, make(2))
    path = tmp_path / checkpoint.CURRENT
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    found, complaints = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1 and "damaged" in complaints[0]


def test_no_flipped_bit_anywhere_in_the_file_changes_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / checkpoint.CURRENT
    checkpoint.write(tmp_path, make(40))
    good = path.read_bytes()
    kept = 0
    for bit in range(8 * len(good)):
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            found, _ = checkpoint.read(tmp_path)
        except FormatError:
            continue
        # A flip may pass if it changes nothing, such as the blank that separates two values.
        kept += 1
        assert found is not None and found.record["progress"] == {"step": 40}
        assert found.tensors.keys() == make(40).tensors.keys()
        assert all(torch.equal(found.tensors[name], value) for name, value in make(40).tensors.items())
    assert kept < 8 * len(good) / 100


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"progress": 7},
        {"progress": {"step": 2, "best_errnr": 1.0}},
        {"progress": {"step": "2"}},
        {"progress": {"step": -2}},
        {"progress": {"step": 2, "seconds": None}},
    ],
)
def test_a_record_that_does_not_fit_gives_way_to_the_checkpoint_before(tmp_path: Path, record: Any) -> None:
    checkpoint.write(tmp_path, make(1))
    checkpoint.write(tmp_path, Checkpoint(make(2).tensors, record))
    found, complaints = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1
    assert len(complaints) == 1 and "is damaged: its record does not fit" in complaints[0]


def test_a_damaged_checkpoint_never_takes_the_place_of_the_good_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.write(tmp_path, make(1))
    checkpoint.write(tmp_path, make(2))
    path = tmp_path / checkpoint.CURRENT
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)

    replace = Path.replace

    def crash_at_the_last_rename(source: Path, target: Path) -> Path:
        if target == path:
            raise KeyboardInterrupt
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", crash_at_the_last_rename)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.write(tmp_path, make(3))
    monkeypatch.undo()
    found, _ = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1
    checkpoint.write(tmp_path, make(3))
    path.unlink()
    found, _ = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1


def test_a_checkpoint_of_version_1_whose_checksum_leaves_out_the_record_is_read() -> None:
    old = checkpoint.read_tensors(Path(__file__).parent / "old_run" / checkpoint.CURRENT)
    assert old.record["version"] == 1 and old.record["progress"]["step"] == 12


def test_a_crash_between_the_two_renames_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, make(1))
    (tmp_path / checkpoint.CURRENT).rename(tmp_path / checkpoint.PREVIOUS)
    found, _ = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1


def test_a_reader_beside_a_writer_always_finds_a_whole_checkpoint(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, make(0))

    def write_many() -> None:
        for step in range(1, 500):
            checkpoint.write(tmp_path, make(step))

    writer = threading.Thread(target=write_many)
    writer.start()
    steps = []
    while writer.is_alive():
        found, complaints = checkpoint.read(tmp_path)
        assert found is not None and not complaints
        steps.append(found.record["progress"]["step"])
        assert torch.equal(found.tensors["network/weight"], torch.full((3, 4), float(steps[-1])))
    writer.join()
    assert len(set(steps)) > 50, "the reader must meet the writer at many moments"


def test_without_a_good_checkpoint_the_error_says_so(tmp_path: Path) -> None:
    (tmp_path / checkpoint.CURRENT).write_bytes(b"")
    with pytest.raises(FormatError, match="no good checkpoint is left"):
        checkpoint.read(tmp_path)


def test_a_foreign_file_and_a_future_version_are_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(FormatError, match="not written by signwise"):
        checkpoint.read_tensors(tmp_path / "foreign.safetensors")
    record = {"signwise": json.dumps({"version": 3, "checksum": 0})}
    save_file({"weight": torch.ones(2)}, tmp_path / "future.safetensors", metadata=record)
    with pytest.raises(FormatError, match="version 3"):
        checkpoint.read_tensors(tmp_path / "future.safetensors")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, make(1))

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(
        SignwiseError, match=r"cannot write .*: No space left on device; the previous checkpoint is intact"
    ):
        checkpoint.write(tmp_path, make(2))
    monkeypatch.undo()
    found, complaints = checkpoint.read(tmp_path)
    assert found is not None and found.record["progress"]["step"] == 1 and not complaints
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint.CURRENT]
