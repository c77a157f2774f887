"""Downloads: resumed where they stopped, never taken with wrong bytes, and never half under their name."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import numpy as np
import pytest

from signwise.datasets.download import Download
from signwise.errors import DataError

CONTENT = np.random.default_rng(0).bytes(1_000_000)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def download(publisher) -> Download:
    publisher.files["data.bin"] = CONTENT
    return Download(f"{publisher.address}/data.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def silent(name: str, done: int, total: int) -> None:
    pass


def test_the_file_arrives_whole_and_the_progress_is_told(download: Download, tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    download.to(tmp_path / "data.bin", lambda *values: told.append(values))
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.bin"]
    assert told[0] == ("data.bin", 0, 1_000_000) and told[-1] == ("data.bin", 1_000_000, 1_000_000)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_cut_connection_is_resumed_where_it_stopped(publisher, download: Download, tmp_path: Path):
    publisher.cuts = [300_000, 1, 200_000]
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == [None, "bytes=300000-", "bytes=300001-", "bytes=500001-"]


def test_a_later_run_goes_on_with_what_an_earlier_one_has_left(publisher, download: Download, tmp_path: Path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT[:400_000])
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == ["bytes=400000-"]


def test_a_part_that_is_complete_is_not_asked_for_again(publisher, download: Download, tmp_path: Path):
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked == []


@pytest.mark.parametrize(
    "left", [b"?" * 400_000, CONTENT[:-1] + b"?", CONTENT + b"?"], ids=["foreign", "spoilt", "long"]
)
def test_a_part_of_something_else_costs_a_full_restart_and_not_the_download(
    publisher, download: Download, tmp_path: Path, left: bytes
):
    (tmp_path / "data.bin.part").write_bytes(left)
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked[-1] is None


def test_a_server_without_ranges_is_read_from_the_start(publisher, download: Download, tmp_path: Path):
    publisher.knows_ranges = False
    publisher.cuts = [300_000]
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert publisher.asked == [None, "bytes=300000-"]


def test_other_bytes_are_refused_with_both_hashes_and_leave_nothing(publisher, download: Download, tmp_path: Path):
    wrong = b"!" + CONTENT[1:]
    publisher.files["data.bin"] = wrong
    with pytest.raises(DataError, match=f"{hashlib.sha256(wrong).hexdigest()}, expected {download.sha256}"):
        download.to(tmp_path / "data.bin", silent)
    assert names(tmp_path) == []


def test_a_longer_file_is_stopped_at_the_expected_size(publisher, download: Download, tmp_path: Path):
    publisher.files["data.bin"] = CONTENT + bytes(10_000_000)
    with pytest.raises(DataError, match="larger than the 1,000,000 bytes"):
        download.to(tmp_path / "data.bin", silent)
    assert not (tmp_path / "data.bin").exists()


def test_a_shorter_file_ends_with_an_error_and_not_in_a_loop(publisher, download: Download, tmp_path: Path):
    publisher.files["data.bin"], publisher.knows_ranges = CONTENT[:-10], False
    with pytest.raises(
        DataError, match=r"could not be downloaded: the connection was cut\. 999,990 of 1,000,000 bytes"
    ):
        download.to(tmp_path / "data.bin", silent, pause=0)


def test_a_server_that_is_busy_is_asked_again(publisher, download: Download, tmp_path: Path):
    publisher.failures = [503, 500, 502]
    download.to(tmp_path / "data.bin", silent, pause=0)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_missing_page_is_an_error_at_once(publisher, download: Download, tmp_path: Path):
    publisher.files.clear()
    with pytest.raises(DataError, match=r"data\.bin answered 404 Not Found"):
        download.to(tmp_path / "data.bin", silent)
    assert len(publisher.asked) == 1


def test_connections_that_bring_nothing_end_with_what_is_there_and_how_to_go_on(
    publisher, download: Download, tmp_path: Path
):
    publisher.cuts = [300_000, *[0] * 20]
    with pytest.raises(DataError) as caught:
        download.to(tmp_path / "data.bin", silent, pause=0)
    assert "300,000 of 1,000,000 bytes are in" in str(caught.value) and "data.bin.part" in str(caught.value)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:300_000]
    publisher.cuts = []
    download.to(tmp_path / "data.bin", silent)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and publisher.asked[-1] == "bytes=300000-"


def test_no_network_is_an_error_of_the_data(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        download = Download(f"http://127.0.0.1:{unused.getsockname()[1]}/data.bin", 10, "0" * 64)
        with pytest.raises(DataError, match=r"could not be downloaded: .*refused"):
            download.to(tmp_path / "data.bin", silent, pause=0)


def test_an_interruption_keeps_what_has_arrived(publisher, download: Download, tmp_path: Path):
    def stop(name: str, done: int, total: int) -> None:
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.to(tmp_path / "data.bin", stop)
    kept = (tmp_path / "data.bin.part").read_bytes()
    assert 500_000 < len(kept) < 1_000_000 and CONTENT.startswith(kept)
    assert not (tmp_path / "data.bin").exists()


def test_a_folder_that_is_missing_is_an_error_of_the_data(download: Download, tmp_path: Path):
    with pytest.raises(DataError, match=r"data\.bin cannot be written: No such file or directory"):
        download.to(tmp_path / "none" / "data.bin", silent)
