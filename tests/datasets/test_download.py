"""Downloads resume, never end with wrong bytes, and never leave half a file under its name; archives yield no more than
their expected members."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from signwise.datasets.download import Download, ProgressBar, unpack
from signwise.datasets.known_file import KnownFile
from signwise.errors import DataError

if TYPE_CHECKING:
    from tests.datasets.conftest import Publisher

CONTENT = np.random.default_rng(0).bytes(1_000_000)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def download(publisher: Publisher) -> Download:
    publisher.files["data.bin"] = CONTENT
    return Download(f"{publisher.address}/data.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def silent(name: str, done: int, total: int) -> None:
    pass


def test_the_file_arrives_whole_and_progress_rises_to_its_size(download: Download, tmp_path: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    download.to(tmp_path / "data.bin", lambda *call: calls.append(call))
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.bin"]
    assert calls[0] == ("data.bin", 0, 1_000_000) and calls[-1] == ("data.bin", 1_000_000, 1_000_000)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def test_a_cut_connection_is_resumed_where_it_stopped(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    publisher.cuts = [300_000, 1, 200_000]
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == [None, "bytes=300000-", "bytes=300001-", "bytes=500001-"]


def test_a_later_run_resumes_an_earlier_one(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:400_000])
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == ["bytes=400000-"]


def test_a_complete_part_is_not_requested_again(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked == []


@pytest.mark.parametrize(
    "left", [b"?" * 400_000, CONTENT[:-1] + b"?", CONTENT + b"?"], ids=["foreign", "spoilt", "long"]
)
def test_a_part_of_something_else_costs_a_full_restart_and_not_the_download(
    publisher: Publisher, download: Download, tmp_path: Path, left: bytes
) -> None:
    (tmp_path / "data.bin.part").write_bytes(left)
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked[-1] is None


def test_a_server_without_ranges_is_read_from_the_start(
    publisher: Publisher, download: Download, tmp_path: Path
) -> None:
    publisher.knows_ranges = False
    publisher.cuts = [300_000]
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == [None, "bytes=300000-"]


def test_other_bytes_are_refused_with_both_hashes_and_leave_no_file(
    publisher: Publisher, download: Download, tmp_path: Path
) -> None:
    wrong = b"!" + CONTENT[1:]
    publisher.files["data.bin"] = wrong
    with pytest.raises(DataError, match=f"{hashlib.sha256(wrong).hexdigest()}, expected {download.sha256}"):
        download.to(tmp_path / "data.bin", silent)
    assert names(tmp_path) == []


def test_a_longer_file_is_stopped_at_the_expected_size(
    publisher: Publisher, download: Download, tmp_path: Path
) -> None:
    publisher.files["data.bin"] = CONTENT + bytes(10_000_000)
    with pytest.raises(DataError, match="larger than the expected 1,000,000 bytes"):
        download.to(tmp_path / "data.bin", silent)
    assert not (tmp_path / "data.bin").exists()


def test_a_shorter_file_ends_with_an_error_and_not_in_a_loop(
    publisher: Publisher, download: Download, tmp_path: Path
) -> None:
    publisher.files["data.bin"], publisher.knows_ranges = CONTENT[:-10], False
    with pytest.raises(
        DataError, match=r"could not be downloaded: the connection was closed\. 999,990 of 1,000,000 bytes"
    ):
        download.to(tmp_path / "data.bin", silent, pause=0)


def test_a_busy_server_is_retried(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    publisher.failures = [503, 500, 502]
    download.to(tmp_path / "data.bin", silent, pause=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_missing_page_is_an_error_at_once(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    publisher.files.clear()
    with pytest.raises(DataError, match=r"data\.bin could not be downloaded: 404 Not Found"):
        download.to(tmp_path / "data.bin", silent)
    assert len(publisher.asked) == 1


def test_connections_without_progress_end_with_an_error_that_says_how_to_resume(
    publisher: Publisher, download: Download, tmp_path: Path
) -> None:
    publisher.cuts = [300_000, *[0] * 20]
    with pytest.raises(DataError) as caught:
        download.to(tmp_path / "data.bin", silent, pause=0)
    assert "300,000 of 1,000,000 bytes are in" in str(caught.value) and "data.bin.part" in str(caught.value)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:300_000]
    publisher.cuts = []
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked[-1] == "bytes=300000-"


def test_a_refused_connection_is_a_data_error(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        download = Download(f"http://127.0.0.1:{unused.getsockname()[1]}/data.bin", 10, "0" * 64)
        with pytest.raises(DataError, match=r"could not be downloaded: .*refused"):
            download.to(tmp_path / "data.bin", silent, pause=0)


def test_an_interruption_keeps_what_has_arrived(publisher: Publisher, download: Download, tmp_path: Path) -> None:
    def stop(name: str, done: int, total: int) -> None:
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.to(tmp_path / "data.bin", stop)
    kept = (tmp_path / "data.bin.part").read_bytes()
    assert 500_000 < len(kept) < 1_000_000 and CONTENT.startswith(kept)
    assert not (tmp_path / "data.bin").exists()


def test_a_missing_folder_is_a_data_error(download: Download, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.bin cannot be written: No such file or directory"):
        download.to(tmp_path / "none" / "data.bin", silent)


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_one_line_for_each_tenth() -> None:
    log = io.StringIO()
    bar = ProgressBar(log)
    for done in range(1001):
        bar("a.bin", done * 10**5, 10**8)
    assert log.getvalue().splitlines() == [f"a.bin: {10 * tenth} of 100 MB" for tenth in range(11)]


def test_a_terminal_gets_one_line_that_is_rewritten_and_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    terminal = Terminal()
    bar = ProgressBar(terminal)
    for done in range(101):
        bar("a.bin", done * 10**6, 10**8)
    shown = terminal.getvalue()
    assert shown.count("\n") == 1 and shown.endswith(f"[{'=' * 30}] 100 of 100 MB\n")
    assert shown.startswith("\ra.bin [") and shown.count("\r") == 2, (
        "no update within a tenth of a second, but the last"
    )
