"""Files with a known hash, and the SHA256SUMS of a folder of the user's own."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

ABC = KnownFile("a.bin", "md5:900150983cd24fb0d6963f7d28e17f72", 3)


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_the_published_bytes_are_read(tmp_path: Path, algorithm: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    known = KnownFile("a.bin", f"{algorithm}:{hashlib.new(algorithm, b'abc').hexdigest()}")
    assert known.read(tmp_path / "a.bin") == b"abc"


@pytest.mark.parametrize(("content", "found"), [(b"ab", "2 bytes"), (b"abd", "3 bytes, md5:"), (b"", "0 bytes")])
def test_other_bytes_are_refused_with_the_file_the_found_the_expected_and_the_way_out(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        ABC.read(path)
    message = str(caught.value)
    assert str(path) in message and found in message and "SHA256SUMS" in message
    assert "expected 3 bytes, md5:900150983cd24fb0d6963f7d28e17f72" in message


def test_a_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.bin cannot be read: No such file"):
        ABC.read(tmp_path / "a.bin")


def test_a_listed_file_is_checked_against_the_list_instead(tmp_path: Path, write_sums: Callable[[Path], None]) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"mine")
    write_sums(tmp_path)
    assert ABC.read(path) == b"mine"
    path.write_bytes(b"min")
    with pytest.raises(DataError, match="SHA256SUMS beside it"):
        ABC.read(path)


def test_a_file_beside_the_list_but_not_on_it_must_be_the_published_one(
    tmp_path: Path, write_sums: Callable[[Path], None]
) -> None:
    (tmp_path / "other.bin").write_bytes(b"mine")
    write_sums(tmp_path)
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match="expected 3 bytes"):
        ABC.read(tmp_path / "a.bin")


def test_the_list_may_mark_binary_files_and_use_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"mine")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'mine').hexdigest().upper()} *a.bin\n")
    assert ABC.read(tmp_path / "a.bin") == b"mine"


@pytest.mark.parametrize("line", ["a.bin", "abc  a.bin", "0" * 64])
def test_a_list_in_another_form_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    (tmp_path / "SHA256SUMS").write_text(line + "\n")
    with pytest.raises(DataError, match="SHA256SUMS must have lines of a sha256 and a name"):
        ABC.read(tmp_path / "a.bin")


def test_a_file_that_never_ends_is_read_to_one_byte_after_its_size() -> None:
    with pytest.raises(DataError, match="found more than 3 bytes; expected 3 bytes"):
        ABC.read(Path("/dev/zero"))


def test_a_python_without_bz2_refuses_only_files_that_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bz2.compress(b"abc"))
    assert ABC.read(path, compressed=True) == b"abc"
    monkeypatch.setitem(sys.modules, "bz2", None)
    with pytest.raises(DataError, match=r"a\.bin cannot be decompressed \(.*bz2.*\)"):
        ABC.read(path, compressed=True)
    path.write_bytes(gzip.compress(b"abc"))
    assert ABC.read(path, compressed=True) == b"abc"
