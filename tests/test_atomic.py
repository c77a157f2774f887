"""Files appear completely or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from signwise.atomic import atomic_write, remove_unfinished


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    with atomic_write(target) as file:
        file.write(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole" and names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")

    def interrupted() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert target.read_bytes() == b"old" and names(tmp_path) == ["a.bin"]


def test_an_open_reader_keeps_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        with atomic_write(target) as file:
            file.write(b"new")
        assert reader.read() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_the_file_has_the_permissions_of_an_ordinary_new_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_bytes(b"")
    with atomic_write(tmp_path / "atomic"):
        pass
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_the_umask_of_the_process_never_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mask: int) -> int:
        raise AssertionError("another thread may create a file at this moment")

    monkeypatch.setattr("os.umask", refuse)
    with atomic_write(tmp_path / "a.bin") as file:
        file.write(b"whole")


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    program = f"""
import os, signal
from signwise.atomic import atomic_write, remove_unfinished
with atomic_write({str(target)!r}) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    (tmp_path / ".backup.part").touch()
    (tmp_path / ".b.bin.0f3c9a12.part").touch()
    remove_unfinished(target)
    assert names(tmp_path) == [".b.bin.0f3c9a12.part", ".backup.part", "a.bin"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "none" / "a.bin"):
        pass
