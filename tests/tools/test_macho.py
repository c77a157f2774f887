"""The reader of libraries for macOS, on a library of two pages that this file writes."""

from __future__ import annotations

import hashlib
import struct

import pytest

from tools import macho

PAGE = 4096
LINKED = 2 * PAGE  # the bytes before the signature


def dylib(*, processor: int = 0x0100000C, kind: int = 6) -> bytes:
    """A signed library ``a`` for macOS 11.2 that needs libSystem, exports ``open`` and keeps ``own`` and ``used``."""
    needed, own = b"/usr/lib/libSystem.B.dylib".ljust(32, b"\0"), b"@rpath/a.dylib".ljust(16, b"\0")
    strings = b"\0_open\0_own\0_used\0"
    symbols = [(1, 0b01111, 1), (7, 0b11111, 1), (12, 0b00001, 0)]  # exported, private, undefined
    commands = [
        struct.pack("<6I", 0x32, 24, 1, 11 << 16 | 2 << 8, 13 << 16, 0),
        struct.pack("<6I", 0xD, 24 + len(own), 24, 0, 0, 0) + own,
        struct.pack("<6I", 0xC, 24 + len(needed), 24, 0, 0, 0) + needed,
        struct.pack("<6I", 0x2, 24, 1024, len(symbols), 2048, len(strings)),
        struct.pack("<4I", 0x1D, 16, LINKED, 512),
    ]
    text = struct.pack("<8I", 0xFEEDFACF, processor, 0, kind, len(commands), sum(map(len, commands)), 0, 0)
    table = b"".join(struct.pack("<IBBHQ", *symbol, 0, 0) for symbol in symbols)
    signed = ((text + b"".join(commands)).ljust(1024, b"\0") + table).ljust(2048, b"\0") + strings
    signed = signed.ljust(LINKED, b"\0")
    hashes = b"".join(hashlib.sha256(signed[start : start + PAGE]).digest() for start in (0, PAGE))
    directory = struct.pack(">9I4BI", 0xFADE0C02, 44 + len(hashes), 0x20400, 2, 44, 0, 0, 2, LINKED, 32, 2, 0, 12, 0)
    return signed + struct.pack(">5I", 0xFADE0CC0, 20 + 44 + len(hashes), 1, 0, 20) + directory + hashes


def test_a_library_says_what_it_is_for_needs_and_exports() -> None:
    assert macho.read(dylib()) == macho.Library(
        name="@rpath/a.dylib",
        processor="arm64",
        oldest_system="11.2",
        needs=("/usr/lib/libSystem.B.dylib",),
        exports=("open",),
        signed_pages=2,
    )


@pytest.mark.parametrize("position", [600, PAGE + 1])
def test_a_byte_changed_after_signing_is_found(position: int) -> None:
    data = bytearray(dylib())
    data[position] ^= 1
    with pytest.raises(ValueError, match=f"page {position // PAGE} of 2 is not what was signed"):
        macho.read(bytes(data))


@pytest.mark.parametrize("library", [dylib(kind=2), dylib(processor=7), b"\x7fELF".ljust(64, b"\0")])
def test_another_kind_of_file_is_refused(library: bytes) -> None:
    with pytest.raises(ValueError, match="no dynamic library for macOS"):
        macho.read(library)
