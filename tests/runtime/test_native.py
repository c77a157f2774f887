"""The library at its C boundary: what it says about itself, and what it refuses."""

from __future__ import annotations

import ctypes
import warnings

import numpy as np
import pytest

from signwise.errors import SignwiseError
from signwise.runtime import native

needs_library = pytest.mark.skipif(not native.available_isas(), reason="needs the native library")


def program(shape=(4, 5, 5), threads=1):
    return native.NativeProgram(native.library(), shape, threads)


def operation(**fields):
    described = native.Operation(kind=3, input_count=1, out_scale=1.0)
    described.inputs = (ctypes.c_int32 * 2)(0, 0)
    for name, value in fields.items():
        if isinstance(value, tuple):
            getattr(described, name)[:] = value
        else:
            setattr(described, name, value)
    return described


def convolution(**fields):
    weight = np.zeros((8, 5), np.uint8)  # 36 bits a filter
    defaults = {
        "kind": 0, "bits": 1, "out_channels": 8, "kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1,
        "weight": weight.ctypes.data, "weight_bytes": weight.nbytes,
    }  # fmt: skip
    described = operation(**{**defaults, **fields})
    described.keep_alive = weight
    return described


@needs_library
def test_the_portable_kernels_are_always_there():
    assert native.available_isas()[-1] == "portable"


@needs_library
def test_the_environment_chooses_the_instruction_set(monkeypatch):
    monkeypatch.setenv("SIGNWISE_ISA", "portable")
    assert native.isa() == "portable"


@needs_library
def test_an_unknown_instruction_set_is_refused_by_name(monkeypatch):
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
        (operation(kind=1, bits=1, out_channels=1), "reads a vector"),
        (operation(kind=2), "needs scale and bias"),
        (operation(kind=5, kernel=(2, 2), stride=(2, 2), padding=(2, 0, 0, 0)), "smaller than its kernel"),
        (operation(kind=8, before=2**27, after=2**27), "size of a value"),
        (operation(kind=11), "reads one vector"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(described, message):
    with pytest.raises(SignwiseError, match=message):
        program().add(described)


@needs_library
def test_values_that_do_not_exist_yet_are_refused():
    described = operation()
    described.inputs = (ctypes.c_int32 * 1)(1)
    with pytest.raises(SignwiseError, match="no earlier operation computes"):
        program().add(described)
    with pytest.raises(SignwiseError, match="no value of the program"):
        program().finish(1)


@needs_library
def test_arrays_of_the_wrong_size_are_refused_before_anything_is_read():
    lowered = program()
    right, wrong = np.zeros((2, 4, 5, 5), np.float32), np.zeros((2, 4, 5, 4), np.float32)
    with pytest.raises(SignwiseError, match="not finished"):
        lowered.run(right, right.copy())
    lowered.add(operation())
    lowered.finish(1)
    with pytest.raises(SignwiseError, match="the input has the wrong size"):
        lowered.run(wrong, right)
    with pytest.raises(SignwiseError, match="the output has the wrong size"):
        lowered.run(right, wrong)
    with pytest.raises(SignwiseError, match="5 numbers per operation"):
        lowered.profile(right, right.copy(), np.zeros((2, 5)))


@pytest.mark.parametrize("named", ["0", "many", "-1", "2000"])
def test_a_thread_count_that_is_none_is_refused(monkeypatch, named):
    monkeypatch.setenv("SIGNWISE_THREADS", named)
    with pytest.raises(SignwiseError, match="SIGNWISE_THREADS must be a number from 1 to 1024"):
        native.default_threads()


def test_a_missing_library_is_one_warning_and_then_silence(monkeypatch, tmp_path):
    monkeypatch.setenv("SIGNWISE_LIBRARY", str(tmp_path / "none.so"))
    with pytest.warns(RuntimeWarning, match="runs without its native kernels"):
        assert native.library() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native.library() is None
        assert native.isa() is None
        assert native.available_isas() == ()
