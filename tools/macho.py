"""What a library for macOS says about itself, read without a Mac.

A Mac refuses a library for another processor or a newer system, one that needs a library it does not have, and, on
Apple silicon, one whose signature does not fit its bytes. All of that is in the file (``mach-o/loader.h``,
``cs_blobs.h``).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

_PROCESSORS = {0x01000007: "x86_64", 0x0100000C: "arm64"}
# LC_SYMTAB, LC_LOAD_DYLIB, LC_ID_DYLIB, LC_CODE_SIGNATURE, LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION
_SYMBOLS, _NEEDED, _OWN_NAME, _SIGNATURE, _OLD_VERSION, _VERSION = 0x2, 0xC, 0xD, 0x1D, 0x24, 0x32


@dataclass(frozen=True, kw_only=True)
class Library:
    """A dynamic library of one processor.

    Args:
        name: its own name in it, under which programs linked with it look for it.
        processor: ``arm64`` or ``x86_64``.
        oldest_system: the version of macOS from which on it loads, such as ``11.0``.
        needs: the libraries of the system that it loads.
        exports: the names that others can use, as C spells them.
        signed_pages: how many pages the signature covers; 0 without one.
    """

    name: str
    processor: str
    oldest_system: str
    needs: tuple[str, ...]
    exports: tuple[str, ...]
    signed_pages: int


def read(data: bytes) -> Library:
    """Read a library, and compare its signature with its bytes.

    Raises:
        ValueError: if this is no dynamic library for macOS, or its signature does not fit.
    """
    magic, processor, _, kind, count = struct.unpack_from("<5I", data)
    if magic != 0xFEEDFACF or kind != 6 or processor not in _PROCESSORS:
        raise ValueError(f"no dynamic library for macOS: starts with {data[:16].hex()}")
    own_name, oldest, needs, exports, pages = "", "", [], [], 0
    position = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, position)
        if command in (_OLD_VERSION, _VERSION):
            (version,) = struct.unpack_from("<I", data, position + (12 if command == _VERSION else 8))
            oldest = f"{version >> 16}.{version >> 8 & 255}"
        elif command in (_NEEDED, _OWN_NAME):
            (start,) = struct.unpack_from("<I", data, position + 8)
            name = data[position + start : position + size].rstrip(b"\0").decode()
            if command == _NEEDED:
                needs.append(name)
            else:
                own_name = name
        elif command == _SYMBOLS:
            exports = _exports(data, *struct.unpack_from("<4I", data, position + 8))
        elif command == _SIGNATURE:
            pages = _signed_pages(data, *struct.unpack_from("<2I", data, position + 8))
        position += size
    return Library(
        name=own_name,
        processor=_PROCESSORS[processor],
        oldest_system=oldest,
        needs=tuple(needs),
        exports=tuple(exports),
        signed_pages=pages,
    )


def _exports(data: bytes, symbols: int, count: int, strings: int, _: int) -> list[str]:
    found = []
    for index in range(count):
        name, kind, section = struct.unpack_from("<IBB", data, symbols + 16 * index)
        # External (1), defined in a section (14), and not private to the library (16).
        if kind & 0b11111 == 0b01111 and section:
            start = strings + name
            found.append(data[start : data.index(b"\0", start)].decode().removeprefix("_"))
    return sorted(found)


def _signed_pages(data: bytes, start: int, _: int) -> int:
    magic, _, blobs = struct.unpack_from(">3I", data, start)
    slots = [struct.unpack_from(">2I", data, start + 12 + 8 * index) for index in range(blobs)]
    directory = next((start + offset for slot, offset in slots if slot == 0), None)
    if magic != 0xFADE0CC0 or directory is None:
        raise ValueError(f"the signature at byte {start} has no code directory")
    hashes, _, _, pages, limit, size, kind, _, bits = struct.unpack_from(">5I4B", data, directory + 16)
    if (size, kind) != (32, 2):
        raise ValueError(f"the signature has hashes of kind {kind} with {size} bytes, not SHA-256")
    if limit != start or pages != -(-limit >> bits):
        raise ValueError(f"the signature covers {limit} bytes in {pages} pages, of {start} bytes")
    for page in range(pages):
        expected = data[directory + hashes + 32 * page :][:32]
        if hashlib.sha256(data[page << bits : min(page + 1 << bits, limit)]).digest() != expected:
            raise ValueError(f"page {page} of {pages} is not what was signed")
    return int(pages)
