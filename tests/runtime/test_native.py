"""The library at its C boundary: what it says about itself, and what it refuses."""

from __future__ import annotations

import copy
import ctypes
import json
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.checks import LARGEST_OPERATIONS
from signwise.runtime import native

needs_library = pytest.mark.skipif(not native.available_isas(), reason="needs the native library")


def program(shape: tuple[int, ...] = (4, 5, 5), threads: int = 1) -> native.NativeProgram:
    library = native.library()
    assert library is not None
    made = native.NativeProgram(library, threads)
    made.input(np.float32, shape)
    return made


def operation(**fields: Any) -> native.Operation:
    described = native.Operation(kind=3, input_count=1, out_scale=1.0)
    described.inputs = (ctypes.c_int32 * 2)(0, 0)
    for name, value in fields.items():
        if isinstance(value, tuple):
            getattr(described, name)[:] = value
        else:
            setattr(described, name, value)
    return described


def convolution(**fields: Any) -> native.Operation:
    weight = np.zeros((8, 5), np.uint8)  # 36 bits per filter
    defaults = {
        "kind": 0, "bits": 1, "out_channels": 8, "kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1,
        "weight": weight.ctypes.data, "weight_bytes": weight.nbytes,
    }  # fmt: skip
    described = operation(**{**defaults, **fields})
    described.keep_alive = weight
    return described


@needs_library
def test_the_portable_kernels_are_always_there() -> None:
    assert native.available_isas()[-1] == "portable"


@needs_library
def test_the_environment_chooses_the_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", "portable")
    assert native.isa() == "portable"


@needs_library
def test_an_unknown_instruction_set_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", "mmx")
    with pytest.raises(SignwiseError, match=r"SIGNWISE_ISA must be one of .*portable.*, got mmx"):
        native.isa()
    with pytest.raises(SignwiseError, match="got mmx"):
        program()


@needs_library
@pytest.mark.parametrize(
    ("described", "message"),
    [
        (operation(kind=99), "unknown operation 99"),
        (operation(input_count=0), "1 to 64 values"),
        (operation(input_count=2, kind=3), "relu reads one value"),
        (operation(out_type=7), "unknown output type"),
        (operation(out_type=1, out_scale=0.0), "output scale"),
        (operation(out_type=1, out_scale=float("nan")), "output scale"),
        (convolution(kernel=(0, 3)), "kernel must be from 1"),
        (convolution(kernel=(3, 9)), "larger than the padded image"),
        (convolution(stride=(0, 1)), "stride must be from 1"),
        (convolution(dilation=(1, -1)), "dilation must be from 1"),
        (convolution(padding=(0, 0, -1, 0)), "padding must be from 0"),
        (convolution(groups=3), "multiples of groups"),
        (convolution(groups=0), "groups must be from 1"),
        (convolution(bits=2), "bits must be 1 or 32"),
        (convolution(weight_bytes=39), "wrong size"),
        (convolution(weight=None), "wrong size"),
        (convolution(out_channels=2**40), "out_channels must be from 1"),
        (convolution(scale_count=7, scale=1), "one number for each of 8 channels, got 7"),
        (operation(kind=1, bits=1, out_channels=1), "wrong size"),
        (operation(kind=2), "needs scale and bias"),
        (operation(kind=5, kernel=(2, 2), stride=(2, 2), padding=(2, 0, 0, 0)), "smaller than its kernel"),
        (operation(kind=8, before=2**27, after=2**27), "size of a value"),
        (operation(kind=11, axis_count=1), "has no axes"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(described: native.Operation, message: str) -> None:
    with pytest.raises(SignwiseError, match=message):
        program().add(described)


@needs_library
def test_values_that_do_not_exist_yet_are_refused() -> None:
    described = operation()
    described.inputs = (ctypes.c_int32 * 1)(1)
    with pytest.raises(SignwiseError, match="no earlier operation computes"):
        program().add(described)
    with pytest.raises(SignwiseError, match="no value of the program"):
        program().finish([1])


@needs_library
def test_arrays_of_the_wrong_size_are_refused_before_anything_is_read() -> None:
    lowered = program()
    right, wrong = np.zeros((2, 4, 5, 5), np.float32), np.zeros((2, 4, 5, 4), np.float32)
    with pytest.raises(SignwiseError, match="not finished"):
        lowered.run([right], [right.copy()])
    lowered.add(operation())
    lowered.finish([1])
    with pytest.raises(SignwiseError, match="the input has the wrong size"):
        lowered.run([wrong], [right])
    with pytest.raises(SignwiseError, match="the output has the wrong size"):
        lowered.run([right], [wrong])
    with pytest.raises(SignwiseError, match="5 numbers per operation"):
        lowered.profile([right], [right.copy()], np.zeros((2, 5)))


@pytest.mark.parametrize("named", ["0", "many", "-1", "2000"])
def test_a_thread_count_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("SIGNWISE_THREADS", named)
    with pytest.raises(SignwiseError, match="SIGNWISE_THREADS must be a number from 1 to 1024"):
        native.default_threads()


def test_a_missing_library_is_one_warning_and_then_silence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNWISE_LIBRARY", str(tmp_path / "none.so"))
    with pytest.warns(RuntimeWarning, match="runs without its native kernels"):
        assert native.library() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.library() is None
        assert native.isa() is None
        assert native.available_isas() == ()


def test_a_described_operation_points_to_its_arrays_and_counts_them() -> None:
    weight, scale = np.zeros((8, 5), np.uint8), np.ones(8, np.float32)
    described = native.describe(
        0, (0, 1), out=(2, 0.5), weight=weight, scale=scale, bias=None, kernel=(3, 2), relu=True
    )
    assert (described.kind, described.input_count, described.inputs[:2]) == (0, 2, [0, 1])
    assert (described.out_type, described.out_scale, described.relu, described.kernel[:]) == (2, 0.5, 1, [3, 2])
    assert (described.weight, described.weight_bytes) == (weight.ctypes.data, 40)
    assert (described.scale, described.scale_count) == (scale.ctypes.data, 8)
    assert (described.bias, described.bias_count) == (None, 0)


def test_an_array_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="C-contiguous"):
        native.describe(2, (0,), scale=np.ones((4, 4), np.float32)[:, 0])


def test_the_structure_has_the_fields_of_the_header_in_their_order() -> None:
    header = (Path(__file__).parents[2] / "csrc" / "signwise.h").read_text()
    body = header[header.index("typedef struct {") : header.index("} signwise_operation;")]
    declared = [line.split(";")[0].split()[-1].split("[")[0].lstrip("*") for line in body.splitlines() if ";" in line]
    assert declared == [field[0] for field in native.Operation._fields_]
    assert f"#define SIGNWISE_INTERFACE {native.INTERFACE}\n" in header


@needs_library
@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("kernel", (ops.LARGEST_WINDOW, 1), (ops.LARGEST_WINDOW + 1, 1)),
        ("stride", (ops.LARGEST_WINDOW, 1), (ops.LARGEST_WINDOW + 1, 1)),
        ("padding", (ops.LARGEST_WINDOW, 0, 0, 0), (ops.LARGEST_WINDOW + 1, 0, 0, 0)),
        ("dilation", (ops.LARGEST_WINDOW, 1), (ops.LARGEST_WINDOW + 1, 1)),
    ],
)
def test_the_library_and_python_agree_on_the_largest_window(name: str, within: Any, beyond: Any) -> None:
    terms = 4 * (ops.LARGEST_WINDOW if name == "kernel" else 1)
    weight = np.zeros((8, (terms + 7) // 8), np.uint8)
    shared: dict[str, Any] = {"kernel": (1, 1), "weight": weight.ctypes.data, "weight_bytes": weight.nbytes}
    tall = program(shape=(4, 1200, 5))
    tall.add(convolution(**{**shared, name: within}))
    with pytest.raises(SignwiseError, match=f"{name} must be from"):
        program(shape=(4, 1200, 5)).add(convolution(**{**shared, name: beyond}))
    described: dict[str, Any] = {"inputs": (0,), "weight": "w", "bits": 1, "out_channels": 8, "kernel": (1, 1)}
    ops.Conv(**{**described, name: within})
    with pytest.raises(SignwiseError, match=f"{name} must be"):
        ops.Conv(**{**described, name: beyond})


@needs_library
def test_the_library_and_python_agree_on_the_number_of_operations() -> None:
    longest = program(shape=(1,))
    for _ in range(LARGEST_OPERATIONS):
        longest.add(operation())
    with pytest.raises(SignwiseError, match=str(LARGEST_OPERATIONS)):
        longest.add(operation())


@needs_library
def test_arrays_of_the_wrong_type_are_refused() -> None:
    lowered = program(shape=(4,))
    lowered.add(operation())
    lowered.finish([1])
    floats, read_only = np.zeros((2, 4), np.float32), np.zeros((2, 4), np.float32)
    read_only.setflags(write=False)
    with pytest.raises(ValueError, match="takes float32 here, got uint8"):
        lowered.run([np.zeros((2, 4), np.uint8)], [floats])
    with pytest.raises(ValueError, match="takes float32 here, got float64"):
        lowered.run([floats], [np.zeros((2, 4))])
    with pytest.raises(ValueError, match="takes float64 here"):
        lowered.profile([floats], [floats.copy()], np.zeros((1, 5), np.float32))
    with pytest.raises(ValueError, match="read-only"):
        lowered.run([floats], [read_only])
    with pytest.raises(ValueError, match="aligned"):
        lowered.run([np.ndarray((2, 4), np.float32, buffer=bytearray(40), offset=1)], [floats])


@needs_library
def test_a_prepared_program_refuses_to_be_copied() -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(SignwiseError, match="cannot be copied: prepare another one"):
            duplicate(program())


@needs_library
def test_a_relative_path_names_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = native.library()
    assert library is not None
    monkeypatch.chdir(Path(library._name).parent)
    monkeypatch.setenv("SIGNWISE_LIBRARY", Path(library._name).name)
    assert native.available_isas()


@needs_library
@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf")
def test_the_library_is_hardened() -> None:
    library = native.library()
    assert library is not None
    listed = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--segments", "--dyn-syms", library._name],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if "__asan_init" in listed or "__tsan_init" in listed:
        pytest.skip("a build with sanitizers")
    assert "__stack_chk_fail" in listed, "no stack protector"
    assert "GNU_RELRO" in listed and "BIND_NOW" in listed, "symbols are bound late"
    assert "TEXTREL" not in listed
    stack = next(line for line in listed.splitlines() if "GNU_STACK" in line)
    assert "RWE" not in stack, "the stack is executable"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cmake") is None, reason="needs cmake on Linux")
def test_everything_but_the_kernels_is_compiled_with_hardening(tmp_path: Path) -> None:
    # _FORTIFY_SOURCE leaves no trace in the library, whose copies go to memory of a size unknown to the compiler.
    root = Path(__file__).parents[2]
    command = ["cmake", "-S", str(root), "-B", str(tmp_path), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    subprocess.run(command, check=True, capture_output=True)
    compiled = {
        Path(entry["file"]).relative_to(root / "csrc"): entry["command"]
        for entry in json.loads((tmp_path / "compile_commands.json").read_text())
    }
    hardened = {file for file, words in compiled.items() if "-D_FORTIFY_SOURCE=3" in words}
    assert hardened == {file for file, words in compiled.items() if "-fstack-protector-strong" in words}
    assert Path("interface.cpp") in hardened
    assert {file.parts[0] for file in compiled.keys() - hardened} == {"kernels"}
