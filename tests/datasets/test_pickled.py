"""The unpickler for the layout that torchvision leaves behind: what it reads, and that nothing else gets in."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signwise.datasets.pickled import load_arrays
from signwise.errors import DataError


def python2_pickle(data: np.ndarray, labels: list[int], *, labels_key: bytes = b"labels") -> bytes:
    """The bytes that Python 2 with numpy 1 wrote for the published batches, protocol 2."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(value)) + value  # BINSTRING

    def integer(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)  # BININT

    shape = b"".join(integer(size) for size in data.shape)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n"
        + (b"cnumpy\nndarray\n" + b"(" + integer(0) + b"t" + text(b"b") + b"\x87R")
        + (b"(" + integer(1) + b"(" + shape + b"t")
        + (b"cnumpy\ndtype\n" + text(b"u1") + integer(0) + integer(1) + b"\x87R")
        + (b"(" + integer(3) + text(b"|") + b"NNN" + integer(-1) + integer(-1) + integer(0) + b"tb")
        + b"\x89"  # not in the order of Fortran
        + (text(data.tobytes()) + b"tb")
    )
    pairs = text(b"data") + array + text(labels_key) + b"](" + b"".join(integer(label) for label in labels) + b"e"
    names = text(b"filenames") + b"](" + b"".join(text(b"image.png") for _ in labels) + b"e"
    return b"\x80\x02}(" + text(b"batch_label") + text(b"batch 1 of 1") + pairs + names + b"u."


def test_a_batch_of_python_2_is_read():
    data = np.arange(24, dtype=np.uint8).reshape(2, 12)
    loaded = load_arrays(python2_pickle(data, [3, 5]), source="batch")
    assert loaded["labels"] == [3, 5] and np.array_equal(loaded["data"], data)
    # The same bytes mean the same to Python's own unpickler, so the fixture is what it claims to be.
    reference = pickle.loads(python2_pickle(data, [3, 5]), encoding="latin1")
    assert np.array_equal(reference["data"], data) and reference["labels"] == [3, 5]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_of_python_3_is_read_under_either_name_of_the_numpy_core(protocol: int):
    data = np.random.default_rng(0).integers(0, 256, (3, 7), dtype=np.uint8)
    content = pickle.dumps({"data": data, "labels": [1, 2, 3], "names": ["a", b"b"]}, protocol)
    old, new = b"numpy.core.multiarray", b"numpy._core.multiarray"
    # Protocol 4 counts its bytes, so there the name cannot simply be exchanged.
    versions = (content.replace(new, old), content.replace(old, new)) if protocol < 4 else (content,)
    for version in versions:
        loaded = load_arrays(version, source="batch")
        assert np.array_equal(loaded["data"], data) and loaded["labels"] == [1, 2, 3]


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", ["root", "data", "labels", "key"])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, place: str):
    trace = tmp_path / "trace"
    hostile = Call(os.system, f"touch {trace}")
    whole: Any = {
        "root": hostile,
        "data": {"data": hostile},
        "labels": {"labels": [hostile]},
        "key": {"a": (1, hostile)},
    }
    with pytest.raises(DataError, match=r"batch .* asks for (posix|nt|os).system"):
        load_arrays(pickle.dumps(whole[place], protocol), source="batch")
    assert not trace.exists()


@pytest.mark.parametrize(
    "call",
    [
        Call(eval, "1"),
        Call(exec, "1"),
        Call(getattr, {}, "keys"),
        Call(__import__, "os"),
        Call(open, "/etc/hostname"),
        Call(subprocess.Popen, ["true"]),
        Call(np.load, "x.npy"),
        Call(np.frombuffer, b"abc"),
        Call(np.dtype, "O"),
        Call(np.dtype, "V8"),
        Call(np.dtype, "float32"),
        Call(pickle.loads, b"N."),
        Call(complex, 1, 2),
    ],
    ids=lambda call: call.call[0].__name__,
)
def test_functions_and_types_other_than_byte_arrays_are_refused(call: Call):
    with pytest.raises(DataError, match="batch is not a pickle that can be read here"):
        load_arrays(pickle.dumps({"data": call}, 2), source="batch")


@pytest.mark.parametrize("codec", ["zlib_codec", "rot13", "idna", "utf-7"])
def test_codecs_that_run_code_of_their_own_are_refused(codec: str):
    import _codecs

    with pytest.raises(DataError, match=r"encoding .* is not admitted"):
        load_arrays(pickle.dumps({"data": Call(_codecs.encode, "text", codec)}, 2), source="batch")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2), np.float32),
        np.zeros((2, 2), object),
        np.asfortranarray(np.zeros((2, 2), np.uint8)),
        np.zeros(2, [("a", "u1")]),
    ],
    ids=["float32", "object", "fortran", "record"],
)
def test_arrays_of_anything_but_bytes_in_rows_are_refused(array: np.ndarray):
    with pytest.raises(DataError, match="only arrays of bytes"):
        load_arrays(pickle.dumps({"data": array}, 2), source="batch")


def test_an_array_that_claims_a_size_that_it_does_not_have_is_refused():
    good = python2_pickle(np.zeros((2, 12), np.uint8), [3, 5])
    size = b"J" + struct.pack("<i", 12)
    for lie in (2**31 - 1, 13, 0, -12):
        with pytest.raises(DataError, match="cannot have 24 bytes"):
            load_arrays(good.replace(size, b"J" + struct.pack("<i", lie)), source="batch")


@pytest.mark.parametrize("content", [b"", b"\x80", b"<html>", b"N.", b"].", pickle.dumps([1, 2])])
def test_what_is_no_dictionary_is_refused_by_name(content: bytes):
    with pytest.raises(DataError, match=r"^batch "):
        load_arrays(content, source="batch")


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_no_damage_escapes_as_anything_but_a_data_error(data: st.DataObject):
    content = bytearray(python2_pickle(np.zeros((2, 12), np.uint8), [3, 5]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        loaded = load_arrays(damaged, source="batch")
    except DataError:
        return
    assert isinstance(loaded, dict)
