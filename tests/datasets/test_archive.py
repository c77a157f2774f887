"""Archives yield no more than their expected members, whatever they declare."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from signwise.datasets.archive import unpack
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


WANTED = (
    KnownFile("a.bin", f"sha256:{hashlib.sha256(b'aaa').hexdigest()}", 3),
    KnownFile("b.bin", f"md5:{hashlib.md5(b'bbbb').hexdigest()}"),
)


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
def test_only_the_expected_members_are_extracted(tmp_path: Path, prefix: str) -> None:
    members = [("data/readme.html", b"hello"), ("a.bin", b"zzz"), ("../evil", b"x"), ("/etc/evil", b"x"), *GOOD]
    packed = archive(tmp_path / "x.tar.gz", [(prefix + name, content) for name, content in members])
    unpack(packed, tmp_path / "data", WANTED)
    assert names(tmp_path) == ["data", "x.tar.gz"]
    assert names(tmp_path / "data") == ["a.bin", "b.bin"]
    assert (tmp_path / "data/a.bin").read_bytes() == b"aaa" and (tmp_path / "data/b.bin").read_bytes() == b"bbbb"


@pytest.mark.parametrize("content", [b"aab", b"aaaa", b""])
def test_a_member_with_other_bytes_is_refused_and_not_written(tmp_path: Path, content: bytes) -> None:
    packed = archive(tmp_path / "x.tar.gz", [("data/a.bin", content), GOOD[1]])
    with pytest.raises(DataError, match=r"data/a\.bin is not the file that was expected, 3 bytes, sha256:"):
        unpack(packed, tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == []


def test_a_member_that_claims_to_be_huge_is_refused_before_it_is_read(tmp_path: Path) -> None:
    huge = tarfile.TarInfo("data/a.bin")
    huge.size = 1 << 40
    packed = tmp_path / "x.tar"
    packed.write_bytes(huge.tobuf() + bytes(1024))
    with pytest.raises(DataError, match="is not the file that was expected"):
        unpack(packed, tmp_path / "data", WANTED)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_is_not_a_regular_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"bbbb")
    packed = archive(tmp_path / "x.tar.gz", [GOOD[0]], [link("data/b.bin", str(secret), kind)])
    with pytest.raises(DataError, match="is not the file that was expected"):
        unpack(packed, tmp_path / "data", WANTED)


def test_a_linked_folder_in_the_archive_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    packed = archive(tmp_path / "x.tar.gz", GOOD, [link("data", str(elsewhere))])
    unpack(packed, tmp_path / "data", WANTED)
    assert names(elsewhere) == [] and not (tmp_path / "data").is_symlink()


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.tar\.gz has no data/b\.bin"):
        unpack(archive(tmp_path / "x.tar.gz", GOOD[:1]), tmp_path / "data", WANTED)


@pytest.mark.parametrize("damage", [lambda packed: packed[:40], lambda packed: b"<html>", lambda packed: b""])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    packed = archive(tmp_path / "x.tar.gz", GOOD)
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(DataError, match=r"x\.tar\.gz (is a damaged archive|cannot be unpacked)"):
        unpack(packed, tmp_path / "data", WANTED)


FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
PACKERS: list[Callable[[bytes], bytes]] = [bytes, gzip.compress, lzma.compress, bz2.compress]


def plain(members: list[tuple[str, bytes]], form: int = tarfile.USTAR_FORMAT, **more: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 0.5 if form == tarfile.PAX_FORMAT else 0
            info.pax_headers = {str(key): str(value) for key, value in more.items()}
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize("form", FORMATS, ids=["ustar", "gnu", "pax"])
@pytest.mark.parametrize("pack", PACKERS, ids=["plain", "gzip", "xz", "bzip2"])
def test_every_format_and_compression_is_read(tmp_path: Path, form: int, pack: Callable[[bytes], bytes]) -> None:
    long = "data/" + "n" * 80 + "/" + "m" * 90
    (tmp_path / "x").write_bytes(pack(plain([(long, b"other"), *GOOD], form)))
    unpack(tmp_path / "x", tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == ["a.bin", "b.bin"]


def with_size(field: bytes) -> bytes:
    """A header whose size is declared as these 12 bytes, before the good members."""
    header = bytearray(tarfile.TarInfo("data/x").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + plain(GOOD)


def spoilt(pack: Callable[[bytes], bytes]) -> bytes:
    noise = np.random.default_rng(0).integers(0, 16, 50_000, np.uint8).tobytes()  # compressible, unlike random bytes
    packed = pack(plain([("data/noise", noise), *GOOD]))
    return packed[:9000] + bytes(200) + packed[9200:]


SPARSE = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": "5", "GNU.sparse.map": "a,b"}
HOSTILE = {
    "a negative size": (with_size(b"\xff" * 10 + b"\xfe\0"), "not octal"),
    "a negative octal size": (with_size(b"-00000001000"), "not octal"),
    "a huge size": (with_size(b"\x80" + b"\xff" * 11), "far more than the expected files"),
    "a wrong checksum": (b"e" + plain(GOOD)[1:], "checksum"),
    "a damaged gzip body": (spoilt(gzip.compress), "damaged archive"),
    "a damaged xz body": (spoilt(lzma.compress), "damaged archive"),
    "a damaged bzip2 body": (spoilt(bz2.compress), "damaged archive"),
    "a bomb": (gzip.compress(plain([("data/other", bytes(100 << 20)), *GOOD])), "far more than the expected files"),
    "extended headers without end": (tarfile.TarInfo("p").tobuf(tarfile.USTAR_FORMAT)[:512] * 100, "has no data/a.bin"),
    "a size that is no number": (plain([("data/a.bin", b"aaaa")], tarfile.PAX_FORMAT, size="abc"), "not the file"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_or_damaged_archive_is_one_clear_error(tmp_path: Path, name: str) -> None:
    content, reason = HOSTILE[name]
    (tmp_path / "x.tar.gz").write_bytes(content)
    with pytest.raises(DataError, match=rf"x\.tar\.gz.*{reason}"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == []


def test_extended_headers_have_no_say(tmp_path: Path) -> None:
    headers = SPARSE | {"path": "../evil", "size": "-512", "mtime": "nan"}
    (tmp_path / "x.tar").write_bytes(plain(GOOD, tarfile.PAX_FORMAT, **headers))
    unpack(tmp_path / "x.tar", tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == ["a.bin", "b.bin"] and names(tmp_path) == ["data", "x.tar"]


def test_nothing_is_read_after_the_last_expected_member(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(plain(GOOD)[:2048] + b"anything")
    unpack(tmp_path / "x.tar", tmp_path / "data", WANTED)
    assert names(tmp_path / "data") == ["a.bin", "b.bin"]
