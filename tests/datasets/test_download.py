"""Downloads resume, never end with wrong bytes, and never leave half a file under its name."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from signwise.datasets.download import Download, ProgressBar
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


@contextlib.contextmanager
def raw_server(respond: Callable[[socket.socket, int], None]) -> Iterator[str]:
    """A server that does with each connection what ``respond(connection, first byte asked for)`` says."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096)
            asked = re.search(rb"bytes=(\d+)-", request)
            respond(connection, int(asked[1]) if asked else 0)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/data.bin"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def head(start: int) -> bytes:
    status = "206 Partial Content" if start else "200 OK"
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(CONTENT) - start}\r\n\r\n".encode()


def test_what_has_arrived_before_a_reset_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def respond(connection: socket.socket, start: int) -> None:
        connection.sendall(head(start) + CONTENT[start : start + 200_000])
        time.sleep(0.2)  # until the client has read them: a reset discards what it has not
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    done: list[int] = []
    with raw_server(respond) as address:
        download = Download(address, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
        download.to(tmp_path / "data.bin", lambda name, now, total: done.append(now), pause=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and 200_000 in done


def drip_body(connection: socket.socket, start: int) -> None:
    connection.sendall(head(start))
    for position in range(start, len(CONTENT)):
        connection.sendall(CONTENT[position : position + 1])
        time.sleep(0.05)


def drip_headers(connection: socket.socket, start: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(1000):
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_the_length_of_a_chunk(connection: socket.socket, start: int) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(1000):
        connection.sendall(b"0")
        time.sleep(0.05)


@pytest.mark.parametrize("respond", [drip_body, drip_headers, drip_the_length_of_a_chunk])
def test_a_server_that_drips_does_not_hold_a_download_for_ever(
    respond: Callable[[socket.socket, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("signwise.datasets.download._PATIENCE", 1.0)
    began, done = time.monotonic(), list[int]()
    with raw_server(respond) as address:
        download = Download(address, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
        with pytest.raises(DataError, match=r"less than 65,536 bytes arrived in 1 s\. .* try again to resume"):
            download.to(tmp_path / "data.bin", lambda name, now, total: done.append(now), pause=0)
    assert time.monotonic() - began < 10
    if respond is drip_body:
        assert len(set(done)) > 5, "progress is shown within a chunk"
        assert CONTENT.startswith((tmp_path / "data.bin.part").read_bytes())


@pytest.mark.parametrize("code", [404, 503])
def test_control_characters_from_a_server_do_not_reach_the_message(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def respond(connection: socket.socket, start: int) -> None:
        connection.sendall(f"HTTP/1.1 {code} \x1b]0;owned\x07\x1b[2J\r\nContent-Length: 0\r\n\r\n".encode())

    with raw_server(respond) as address, pytest.raises(DataError) as caught:
        Download(address, 10, "0" * 64).to(tmp_path / "data.bin", silent, pause=0)
    assert str(caught.value).isprintable() and f"{code} \\x1b]0;owned" in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize("kind", ["symbolic", "hard", "dangling", "fifo"])
def test_a_link_in_the_place_of_the_part_is_replaced_and_not_written_through(
    publisher: Publisher, download: Download, tmp_path: Path, kind: str
) -> None:
    precious, part = tmp_path / "precious", tmp_path / "data.bin.part"
    precious.write_bytes(b"precious")
    if kind == "hard":
        part.hardlink_to(precious)
    elif kind == "fifo":
        os.mkfifo(part)
    else:
        part.symlink_to(precious if kind == "symbolic" else tmp_path / "none")
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and precious.read_bytes() == b"precious"
    assert names(tmp_path) == ["data.bin", "precious"]


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
