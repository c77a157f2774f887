"""CIFAR-10 and CIFAR-100: both published forms, damaged and hostile files, and the real ones."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signwise import datasets
from signwise.datasets.cifar import unpickle_arrays
from signwise.errors import DataError

BINARY = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}
PICKLED = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
NAMES = sorted(BINARY)

SyntheticData = Callable[..., Path]
WriteSums = Callable[[Path], None]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def pickle_folder(name: str, binary: Path, folder: Path, write_sums: WriteSums) -> None:
    """Write the binary files of a folder as pickles, named as torchvision leaves them."""
    folder.mkdir(parents=True)
    for path in binary.glob("*.bin"):
        rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, LABEL_BYTES[name] + 3072)
        keys = ("labels",) if name == "cifar10" else ("coarse_labels", "fine_labels")
        content: dict[str, Any] = {key: rows[:, column].tolist() for column, key in enumerate(keys)}
        content["data"] = np.ascontiguousarray(rows[:, len(keys) :])
        (folder / path.stem).write_bytes(pickle.dumps(content, 2))
    write_sums(folder)


@pytest.mark.parametrize("given", ["parent", "itself"])
def test_the_binary_form_is_read_record_by_record(synthetic_data: SyntheticData, name: str, given: str) -> None:
    folder = synthetic_data(name, train=203, test=101)
    place = folder / BINARY[name]
    data = datasets.load(name, folder if given == "parent" else place, download=False)
    assert data.train_images.shape == (203, 3, 32, 32) and data.test_images.shape == (101, 3, 32, 32)
    record = LABEL_BYTES[name] + 3072
    first = next(place / file for file in ("data_batch_1.bin", "train.bin") if (place / file).exists()).read_bytes()
    for row in (0, 1, 7):
        content = first[row * record : (row + 1) * record]
        assert data.train_labels[row] == content[LABEL_BYTES[name] - 1]
        assert data.train_images[row].tobytes() == content[LABEL_BYTES[name] :]
    assert data.train_images.flags.writeable and data.test_images.flags.writeable


@pytest.mark.parametrize("given", ["parent", "itself"])
def test_the_pickled_form_gives_the_same_as_the_binary(
    synthetic_data: SyntheticData, write_sums: WriteSums, tmp_path: Path, name: str, given: str
) -> None:
    folder = synthetic_data(name, train=50, test=20)
    pickle_folder(name, folder / BINARY[name], tmp_path / PICKLED[name], write_sums)
    expected = datasets.load(name, folder, download=False)
    data = datasets.load(name, tmp_path if given == "parent" else tmp_path / PICKLED[name], download=False)
    assert np.array_equal(data.train_images, expected.train_images)
    assert np.array_equal(data.train_labels, expected.train_labels)
    assert np.array_equal(data.test_images, expected.test_images)
    assert np.array_equal(data.test_labels, expected.test_labels)


def test_a_folder_cut_at_a_whole_record_is_refused_unless_it_says_that_it_is_its_own(
    synthetic_data: SyntheticData, name: str
) -> None:
    place = synthetic_data(name) / BINARY[name]
    (place / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match=r"\.bin is not the file that was expected: found .* expected (30|153),7"):
        datasets.load(name, place, download=False)


def test_a_file_with_a_broken_record_is_refused(
    synthetic_data: SyntheticData, write_sums: WriteSums, name: str
) -> None:
    place = synthetic_data(name) / BINARY[name]
    last = max(place.glob("t*.bin"))
    last.write_bytes(last.read_bytes()[:-1])
    write_sums(place)
    with pytest.raises(DataError, match=rf"{last.name} should have whole records of 307\d bytes, found"):
        datasets.load(name, place, download=False)


def test_an_empty_file_is_refused(synthetic_data: SyntheticData, write_sums: WriteSums, name: str) -> None:
    place = synthetic_data(name) / BINARY[name]
    max(place.glob("t*.bin")).write_bytes(b"")
    write_sums(place)
    with pytest.raises(DataError, match="should have whole records"):
        datasets.load(name, place, download=False)


def test_labels_beyond_the_classes_are_refused(synthetic_data: SyntheticData, write_sums: WriteSums, name: str) -> None:
    place = synthetic_data(name) / BINARY[name]
    test = next(place / file for file in ("test_batch.bin", "test.bin") if (place / file).exists())
    test.write_bytes(b"\xff" * (LABEL_BYTES[name] + 3072))
    write_sums(place)
    with pytest.raises(DataError, match=r"test labels must be in 0.*got 255"):
        datasets.load(name, place, download=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [1]}, "should have an array 'data' of N x 3072 bytes"),
        ({"data": np.zeros((1, 3071), np.uint8), "labels": [1]}, "should have an array 'data' of N x 3072 bytes"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "should have a list 'labels' of integers from 0 to 255"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, "should have a list 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [2**70]}, "should have a list 'labels'"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": []}, "need one label each"),
    ],
    ids=["no pixels", "too few pixels", "no labels", "text labels", "huge labels", "fewer labels"],
)
def test_pickles_of_another_content_are_refused(
    write_sums: WriteSums, tmp_path: Path, content: dict[str, object], message: str
) -> None:
    for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / file).write_bytes(pickle.dumps(content, 2))
    write_sums(tmp_path)
    with pytest.raises(DataError, match=message):
        datasets.load("cifar10", tmp_path, download=False)


def test_a_hostile_pickle_is_stopped_by_its_hash_and_where_listed_by_the_unpickler(
    write_sums: WriteSums, tmp_path: Path
) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {tmp_path / 'trace'}",)

    for file in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / file).write_bytes(pickle.dumps({"data": Hostile()}, 2))
    with pytest.raises(DataError, match="expected md5:c99cafc152244af753f735de768cd75f"):
        datasets.load("cifar10", tmp_path, download=False)
    write_sums(tmp_path)
    with pytest.raises(DataError, match=r"data_batch_1 .* asks for posix.system"):
        datasets.load("cifar10", tmp_path, download=False)
    assert not (tmp_path / "trace").exists()


def python2_pickle(data: npt.NDArray[np.uint8], labels: list[int], *, labels_key: bytes = b"labels") -> bytes:
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


def test_a_batch_of_python_2_is_read() -> None:
    data = np.arange(24, dtype=np.uint8).reshape(2, 12)
    loaded = unpickle_arrays(python2_pickle(data, [3, 5]), source="batch")
    assert loaded["labels"] == [3, 5] and np.array_equal(loaded["data"], data)
    # The same bytes mean the same to Python's own unpickler, so the fixture is what it claims to be.
    reference = pickle.loads(python2_pickle(data, [3, 5]), encoding="latin1")
    assert np.array_equal(reference["data"], data) and reference["labels"] == [3, 5]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_batch_of_python_3_is_read_under_either_name_of_the_numpy_core(protocol: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, (3, 7), dtype=np.uint8)
    content = pickle.dumps({"data": data, "labels": [1, 2, 3], "names": ["a", b"b"]}, protocol)
    old, new = b"numpy.core.multiarray", b"numpy._core.multiarray"
    # Protocol 4 counts its bytes, so there the name cannot simply be exchanged.
    versions = (content.replace(new, old), content.replace(old, new)) if protocol < 4 else (content,)
    for version in versions:
        loaded = unpickle_arrays(version, source="batch")
        assert np.array_equal(loaded["data"], data) and loaded["labels"] == [1, 2, 3]


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("place", ["root", "data", "labels", "key"])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, place: str) -> None:
    trace = tmp_path / "trace"
    hostile = Call(os.system, f"touch {trace}")
    whole: Any = {
        "root": hostile,
        "data": {"data": hostile},
        "labels": {"labels": [hostile]},
        "key": {"a": (1, hostile)},
    }
    # Protocol 0 builds dictionaries with an opcode that no published file has, before it names the function.
    reason = r"asks for (posix|nt|os).system" if protocol or place == "root" else "opcode b'd' is not admitted"
    with pytest.raises(DataError, match=rf"batch .* {reason}"):
        unpickle_arrays(pickle.dumps(whole[place], protocol), source="batch")
    assert not trace.exists()


def unicode_(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


ENCODE = b"c_codecs\nencode\n"
HOSTILE = {
    "a tuple as a key, 1e6 deep": b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.",
    "a tuple as a key that doubles 40 times": b"\x80\x02})" + b"2\x86" * 40 + b"K\x01s.",
    "a remembered tuple that doubles": b"\x80\x02})" + b"q\x00h\x00\x86" * 40 + b"K\x01s.",
    "a tuple as a key": b"\x80\x02})K\x01s.",
    "a number as a key": b"\x80\x02}K\x01K\x01s.",
    "lists, 1e6 deep": b"\x80\x02}" + unicode_("a") + b"]" * 1_000_000 + b"a" * 999_999 + b"s.",
    "a list in itself": b"\x80\x02}" + unicode_("a") + b"]q\x00h\x00as.",
    "a dictionary in itself": b"\x80\x02}q\x00" + unicode_("a") + b"h\x00s.",
    "the state of a function": b"\x80\x02" + ENCODE + b"(N}" + unicode_("__defaults__") + unicode_("latin1") + b"stb}.",
    "the code of a function": b"\x80\x02" + ENCODE + b"N\x85b}.",
    "the state of a class": b"\x80\x02cnumpy\nndarray\n(N}" + unicode_("array") + b"K\x01stb}.",
    "the state of a number": b"\x80\x02K\x01)b}.",
    "a function as a value": b"\x80\x02}" + unicode_("a") + ENCODE + b"s.",
    "a remembered mark": b"\x80\x02(q\x00h\x00t.",
    "a text encoded again and again": b"\x80\x02}"
    + unicode_("a")
    + b"]("
    + ENCODE
    + b"q\x00"
    + unicode_("x" * 10_000)
    + unicode_("latin1")
    + b"\x86q\x01R"
    + b"h\x00h\x01R" * 100
    + b"es.",
    "an integer of a million digits": b"I" + b"9" * 1_000_000 + b"\n.",
    "an object of a class": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "a persistent name": b"Pabc\n.",
    "an extension": b"\x82\x01.",
    "more bytes than there are": b"\x80\x04\x8e" + (2**40).to_bytes(8, "little"),
    "a tuple of a thousand": b"\x80\x02}" + unicode_("a") + b"(" + b"N" * 1000 + b"ts.",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_pickle_that_no_batch_needs_is_refused_at_once(name: str) -> None:
    # In a process of its own, with little memory: what is refused too late would crash or hang it.
    program = """
import resource, sys
from signwise.datasets.cifar import unpickle_arrays
from signwise.errors import DataError
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
try:
    unpickle_arrays(sys.stdin.buffer.read(), source="batch")
except DataError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=HOSTILE[name], capture_output=True, check=True, timeout=60
    )
    assert done.stdout.startswith(b"batch is not a pickle that can be read here: ")


def test_no_function_of_this_module_changes_by_what_a_pickle_says() -> None:
    with pytest.raises(DataError, match="no new array"):
        unpickle_arrays(HOSTILE["the code of a function"], source="batch")
    assert unpickle_arrays(pickle.dumps({"data": b"\xff"}, 2), source="batch") == {"data": b"\xff"}


def test_control_characters_of_a_pickle_do_not_reach_the_message() -> None:
    with pytest.raises(DataError) as caught:
        unpickle_arrays(b"\x80\x02cos\x1b]0;owned\x07\nsystem\n.", source="batch")
    assert str(caught.value).isprintable() and "os\\x1b]0;owned" in str(caught.value)


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
def test_functions_and_types_other_than_byte_arrays_are_refused(call: Call) -> None:
    with pytest.raises(DataError, match="batch is not a pickle that can be read here"):
        unpickle_arrays(pickle.dumps({"data": call}, 2), source="batch")


@pytest.mark.parametrize("codec", ["zlib_codec", "rot13", "idna", "utf-7"])
def test_codecs_that_run_code_of_their_own_are_refused(codec: str) -> None:
    import _codecs

    with pytest.raises(DataError, match=r"encoding .* is not admitted"):
        unpickle_arrays(pickle.dumps({"data": Call(_codecs.encode, "text", codec)}, 2), source="batch")


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
def test_arrays_of_anything_but_bytes_in_rows_are_refused(array: npt.NDArray[Any]) -> None:
    with pytest.raises(DataError, match="only arrays of bytes"):
        unpickle_arrays(pickle.dumps({"data": array}, 2), source="batch")


def test_an_array_that_claims_a_size_that_it_does_not_have_is_refused() -> None:
    good = python2_pickle(np.zeros((2, 12), np.uint8), [3, 5])
    size = b"J" + struct.pack("<i", 12)
    for lie in (2**31 - 1, 13, 0, -12):
        with pytest.raises(DataError, match="cannot have 24 bytes"):
            unpickle_arrays(good.replace(size, b"J" + struct.pack("<i", lie)), source="batch")


@pytest.mark.parametrize("content", [b"", b"\x80", b"<html>", b"N.", b"].", pickle.dumps([1, 2])])
def test_what_is_no_dictionary_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^batch "):
        unpickle_arrays(content, source="batch")


@given(data=st.data())
@settings(deadline=None, max_examples=300)
def test_no_damage_escapes_as_anything_but_a_data_error(data: st.DataObject) -> None:
    content = bytearray(python2_pickle(np.zeros((2, 12), np.uint8), [3, 5]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        loaded = unpickle_arrays(damaged, source="batch")
    except DataError:
        return
    assert isinstance(loaded, dict)


def test_the_real_cifar10_is_read(real_data: Path) -> None:
    data = datasets.load("cifar10", real_data, download=False)
    assert data.train_images.shape == (50000, 3, 32, 32) and data.test_images.shape == (10000, 3, 32, 32)
    assert data.train_labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.classes[data.test_labels[0]] == "cat"
    assert np.bincount(data.train_labels).tolist() == [5000] * 10
    assert data.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-5)
    assert data.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-5)


def test_the_real_cifar100_is_read(real_data: Path) -> None:
    data = datasets.load("cifar100", real_data, download=False)
    assert data.train_images.shape == (50000, 3, 32, 32) and data.test_images.shape == (10000, 3, 32, 32)
    assert np.bincount(data.train_labels).tolist() == [500] * 100
    assert np.bincount(data.test_labels).tolist() == [100] * 100
    assert data.mean == pytest.approx((0.5071, 0.4865, 0.4409), abs=5e-5)


def test_the_real_cifar10_cut_short_is_named_with_size_and_hash(real_data: Path, tmp_path: Path) -> None:
    place = tmp_path / BINARY["cifar10"]
    place.mkdir()
    for path in (real_data / BINARY["cifar10"]).glob("*.bin"):
        (place / path.name).symlink_to(path)
    cut = place / "data_batch_1.bin"
    content = cut.read_bytes()
    cut.unlink()
    cut.write_bytes(content[:-3073])
    with pytest.raises(DataError) as caught:
        datasets.load("cifar10", tmp_path, download=False)
    assert str(cut) in str(caught.value) and "found 30,726,927 bytes" in str(caught.value)
    assert "expected 30,730,000 bytes, md5:5dd7e06a14cb22eb9f671a540d1b7c25" in str(caught.value)
    shutil.copy(real_data / BINARY["cifar10"] / "data_batch_2.bin", cut)
    with pytest.raises(DataError, match=r"data_batch_1.bin is not the file that was expected"):
        datasets.load("cifar10", tmp_path, download=False)
