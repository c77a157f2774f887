"""Archives: only the expected members are taken out, and only with the expected bytes."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from signwise.datasets.known_file import KnownFile
from signwise.datasets.source import unpack
from signwise.errors import DataError

WANTED = (
    KnownFile("a.bin", f"sha256:{hashlib.sha256(b'aaa').hexdigest()}", 3),
    KnownFile("b.bin", f"md5:{hashlib.md5(b'bbbb').hexdigest()}"),
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def archive(path: Path, members: list[tuple[str, bytes]], extra: list[tarfile.TarInfo] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in extra or []:
            tar.addfile(member)
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


GOOD = [("data/a.bin", b"aaa"), ("data/b.bin", b"bbbb")]


@pytest.mark.parametrize("prefix", ["", "./"])
def test_the_wanted_members_are_written_and_nothing_else(tmp_path: Path, prefix: str):
    members = [("data/readme.html", b"hello"), ("a.bin", b"zzz"), ("../evil", b"x"), ("/etc/evil", b"x"), *GOOD]
    packed = archive(tmp_path / "x.tar.gz", [(prefix + name, content) for name, content in members])
    unpack(packed, tmp_path / "data", WANTED)
    assert names(tmp_path) == ["data", "x.tar.gz"]
    assert names(tmp_path / "data") == ["a.bin", "b.bin"]
    assert (tmp_path / "data/a.bin").read_bytes() == b"aaa" and (tmp_path / "data/b.bin").read_bytes() == b"bbbb"


@pytest.mark.parametrize("content", [b"aab", b"aaaa", b""])
def test_a_member_with_other_bytes_is_refused_and_not_written(tmp_path: Path, content: bytes):
    packed = archive(tmp_path / "x.tar.gz", [("data/a.bin", content), GOOD[1]])
    with pytest.raises(DataError, match=r"data/a\.bin is not the file that was expected, 3 bytes, sha256:"):
        unpack(packed, tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == []


def test_a_member_that_claims_to_be_huge_is_refused_before_it_is_read(tmp_path: Path):
    huge = tarfile.TarInfo("data/a.bin")
    huge.size = 1 << 40
    packed = tmp_path / "x.tar"
    packed.write_bytes(huge.tobuf() + bytes(1024))
    with pytest.raises(DataError, match="is not the file that was expected"):
        unpack(packed, tmp_path / "data", WANTED)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_link_or_anything_but_a_file_in_the_place_of_a_member_is_refused(tmp_path: Path, kind: bytes):
    secret = tmp_path / "secret"
    secret.write_bytes(b"bbbb")
    packed = archive(tmp_path / "x.tar.gz", [GOOD[0]], [link("data/b.bin", str(secret), kind)])
    with pytest.raises(DataError, match="is not the file that was expected"):
        unpack(packed, tmp_path / "data", WANTED)


def test_a_linked_folder_in_the_archive_leads_nowhere(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    packed = archive(tmp_path / "x.tar.gz", GOOD, [link("data", str(elsewhere))])
    unpack(packed, tmp_path / "data", WANTED)
    assert names(elsewhere) == [] and not (tmp_path / "data").is_symlink()


def test_a_missing_member_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"x\.tar\.gz has no data/b\.bin"):
        unpack(archive(tmp_path / "x.tar.gz", GOOD[:1]), tmp_path / "data", WANTED)


@pytest.mark.parametrize("damage", [lambda packed: packed[:40], lambda packed: b"<html>", lambda packed: b""])
def test_a_damaged_archive_is_named(tmp_path: Path, damage):
    packed = archive(tmp_path / "x.tar.gz", GOOD)
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(DataError, match=r"x\.tar\.gz (is a damaged archive|cannot be unpacked)"):
        unpack(packed, tmp_path / "data", WANTED)
