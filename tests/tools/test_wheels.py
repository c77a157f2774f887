"""Wheels written from a pure one, what is read from them, and how the install page tells it."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tools.build_wheels import PLATFORMS, write_wheel
from tools.check_wheels import find, fitting, needed_versions

from tools import platforms


@pytest.fixture
def pure(tmp_path: Path) -> Path:
    """A wheel of two files without a library."""
    path = tmp_path / "signwise-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("signwise/__init__.py", "answer = 42\n")
        wheel.writestr("signwise-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("signwise-1.2.dist-info/RECORD", "signwise/__init__.py,,\n")
    return path


@pytest.mark.parametrize("name", PLATFORMS)
def test_a_wheel_lists_its_library_its_tags_and_the_digest_of_every_file(name: str, pure: Path, tmp_path: Path) -> None:
    made = PLATFORMS[name]
    library = tmp_path / made.library
    library.write_bytes(b"machine code")
    path = write_wheel(pure, made, library, tmp_path)
    assert find(made, tmp_path) == path
    with zipfile.ZipFile(path) as wheel:
        contents = {entry: wheel.read(entry) for entry in wheel.namelist()}
    assert contents[f"signwise/runtime/{made.library}"] == b"machine code"
    lines = contents["signwise-1.2.dist-info/WHEEL"].decode().splitlines()
    tags = [line.removeprefix("Tag: py3-none-") for line in lines if line.startswith("Tag: ")]
    assert ".".join(tags) == made.tag and "Root-Is-Purelib: false" in lines
    rows = dict(row.split(",", 1) for row in contents.pop("signwise-1.2.dist-info/RECORD").decode().splitlines())
    assert rows.pop("signwise-1.2.dist-info/RECORD") == ","
    expected = {
        entry: f"sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for entry, data in contents.items()
    }
    assert rows == expected


def test_the_same_files_give_the_same_bytes(pure: Path, tmp_path: Path) -> None:
    made = PLATFORMS["manylinux-x86_64"]
    (tmp_path / "library").write_bytes(b"machine code")
    first = write_wheel(pure, made, tmp_path / "library", tmp_path).read_bytes()
    assert write_wheel(pure, made, tmp_path / "library", tmp_path).read_bytes() == first


def test_the_newest_version_of_each_library_counts() -> None:
    assert needed_versions(b"\0GLIBC_2.4\0GLIBC_2.14\0GLIBC_2.2.5\0GCC_3.0\0GLIBC_PRIVATE\0") == [
        "GCC_3.0",
        "GLIBC_2.14",
    ]


def test_pip_gets_the_tags_that_fit_a_system() -> None:
    glibc = fitting({"libc": "glibc 2.31", "processor": "aarch64"})
    assert "--platform=manylinux_2_31_aarch64" in glibc and "--platform=manylinux2014_aarch64" in glibc
    assert "--platform=manylinux_2_32_aarch64" not in glibc
    assert fitting({"libc": "musl 1.2.3", "processor": "x86_64"})[:2] == [
        "--platform=musllinux_1_2_x86_64",
        "--platform=musllinux_1_1_x86_64",
    ]


def test_the_page_says_what_never_ran(tmp_path: Path) -> None:
    row: dict[str, Any] = {"tags": ["macosx_11_0_arm64"], "bytes": 10_400_000, "kernel_test": None, "installed": []}
    used = {"libc": "musl 1.2.3", "python": "3.11.2", "processor": "aarch64", "emulated": True, "isa": "neon"}
    file = {"oldest_system": "11.0", "processor": "arm64", "exports": 14, "signed_pages": 0}
    in_musl = used | {"right_of_1000": 990, "tests": "7 passed, 2 deselected in 3.10s"}
    tested = {"isas": ["avx2", "portable"], "emulator": "wine64"}
    rows = [
        row | {"platform": "macos-arm64", "macho": file},
        row | {"platform": "musllinux-aarch64", "installed": [in_musl]},
        row | {"platform": "windows-amd64", "kernel_test": tested, "loaded": {"emulator": "wine64"}},
    ]
    (tmp_path / "wheels.json").write_text(json.dumps({"date": "2026-11-18", "versions": {}, "wheels": rows}))
    macos, musl, windows, *rest = platforms.wheels(tmp_path).splitlines()[2:]
    assert "**untested** | no | no |" in macos
    assert "musl 1.2.3, Python 3.11.2 in qemu: neon, 990 of 1,000 digits right | 7 passed |" in musl
    assert "avx2, portable, in wine64 | no; the library loads in wine64" in windows
    assert "never ran" in rest[-1] and "signature" not in rest[-1]
