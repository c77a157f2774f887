"""The native library: where it is, what it can do, and a program in its memory.

One shared library with a C interface (``csrc/signwise.h``), loaded by :mod:`ctypes`, which releases the interpreter
lock while it runs. It lies beside this file; ``SIGNWISE_LIBRARY`` names another one, for instance a build with
AddressSanitizer. Without it everything works through numpy, many times slower.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError

INTERFACE = 3  # SIGNWISE_INTERFACE of the header that this file mirrors
FILE = {"win32": "signwise.dll", "darwin": "libsignwise.dylib"}.get(sys.platform, "libsignwise.so")


class Operation(ctypes.Structure):
    """``signwise_operation`` of the header, field by field."""

    _fields_ = (
        ("kind", c_int32),
        ("input_count", c_int32),
        ("inputs", POINTER(c_int32)),
        ("out_type", c_int32),
        ("out_scale", c_float),
        ("bits", c_int32),
        ("relu", c_int32),
        ("count_include_pad", c_int32),
        ("reserved", c_int32),
        ("out_channels", c_int64),
        ("kernel", c_int64 * 2),
        ("stride", c_int64 * 2),
        ("padding", c_int64 * 4),
        ("dilation", c_int64 * 2),
        ("groups", c_int64),
        ("before", c_int64),
        ("after", c_int64),
        ("weight", c_void_p),
        ("weight_bytes", c_int64),
        ("scale", c_void_p),
        ("scale_count", c_int64),
        ("bias", c_void_p),
        ("bias_count", c_int64),
        ("function", c_int32),
        ("flags", c_int32),
        ("axes", POINTER(c_int64)),
        ("axis_count", c_int32),
        ("size_count", c_int32),
        ("sizes", POINTER(c_int64)),
        ("numbers", c_float * 4),
        ("table", c_void_p),
        ("table_count", c_int64),
    )


# The addresses of a few arrays, how many numbers each has, and how many arrays there are.
_ARRAYS = (POINTER(c_void_p), POINTER(c_int64), c_int32)
_INPUT_TYPES: dict[np.dtype[Any], int] = {
    np.dtype(np.float32): 0,
    np.dtype(np.int32): 4,
}  # SIGNWISE_FLOAT32 and SIGNWISE_INT32
_COUNTS = {"axes": "axis_count", "sizes": "size_count"}  # lists of any length, and the fields that count them

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "signwise_interface": (c_int32, []),
    "signwise_error": (c_char_p, []),
    "signwise_isa": (c_char_p, []),
    "signwise_isas": (c_char_p, []),
    "signwise_create": (c_void_p, [c_int32]),
    "signwise_input": (c_int32, [c_void_p, c_int32, POINTER(c_int64), c_int32]),
    "signwise_add": (c_int32, [c_void_p, POINTER(Operation)]),
    "signwise_finish": (c_int32, [c_void_p, POINTER(c_int32), c_int32]),
    "signwise_output": (c_int32, [c_void_p, c_int32, POINTER(c_int32), POINTER(c_int64)]),
    "signwise_free": (None, [c_void_p]),
    "signwise_run": (c_int32, [c_void_p, c_int64, *_ARRAYS, *_ARRAYS]),
    "signwise_profile": (c_int32, [c_void_p, c_int64, *_ARRAYS, *_ARRAYS, c_void_p, c_int64]),
    "signwise_weight_bytes": (c_int64, [c_void_p]),
    "signwise_activation_bytes": (c_int64, [c_void_p, c_int64]),
}


def library() -> ctypes.CDLL | None:
    """The native library, loaded once; ``None``, after one warning, where none fits.

    Example:
        >>> native = library()
        >>> native is None or native.signwise_interface() == INTERFACE
        True
    """
    return _load(os.environ.get("SIGNWISE_LIBRARY"))


@cache
def _load(named: str | None) -> ctypes.CDLL | None:
    # In an editable install, the package spans two folders: one for Python files, one for the built library.
    folders = sys.modules[__name__.rpartition(".")[0]].__path__
    # Absolute, since dlopen looks for a bare name in the system's folders alone.
    candidates = [Path(named).absolute()] if named else [Path(folder) / FILE for folder in folders]
    reason = f"no {FILE} in {', '.join(str(path.parent) for path in candidates)}"
    for path in candidates:
        if not path.exists():
            continue
        try:
            found = ctypes.CDLL(str(path))
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            reason = str(error)
            continue
        if found.signwise_interface() == INTERFACE:
            return found
        reason = f"{path} has interface {found.signwise_interface()}, but this version needs {INTERFACE}"
    warnings.warn(
        f"signwise runs without its native kernels, many times slower: {reason}; "
        "install a C++ compiler, then install signwise again",
        RuntimeWarning,
        stacklevel=3,
    )
    return None


def available_isas() -> tuple[str, ...]:
    """The instruction sets that this machine can run, best first; ``SIGNWISE_ISA`` chooses one."""
    native = library()
    return () if native is None else tuple(native.signwise_isas().decode().split(","))


def isa() -> str | None:
    """The instruction set that the next program will use; ``None`` without the native library."""
    native = library()
    if native is None:
        return None
    name = native.signwise_isa()
    if name is None:
        raise SignwiseError(_message(native))
    return str(name.decode())


def default_threads() -> int:
    """``SIGNWISE_THREADS``, else the number of cores that this process may use."""
    named = os.environ.get("SIGNWISE_THREADS", "")
    if named:
        if not named.isdecimal() or not 1 <= int(named) <= 1024:
            raise SignwiseError(f"SIGNWISE_THREADS must be a number from 1 to 1024, got {named!r}")
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(
    kind: int,
    inputs: tuple[int, ...],
    *,
    out: tuple[int, float] | None = None,
    **fields: int | tuple[int, ...] | tuple[float, ...] | npt.NDArray[Any] | None,
) -> Operation:
    """One operation for :meth:`NativeProgram.add`.

    Args:
        kind: its number in the header.
        inputs: the numbers of the values it reads.
        out: the number of the result's 8-bit type, and its scale; ``None`` for float32.
        fields: further fields of the structure. An array gives a pointer and its size and must stay alive until the
            operation is added. ``axes`` and ``sizes`` are tuples of any length.

    Example:
        >>> describe(5, (0,), kernel=(2, 2), stride=(2, 2)).stride[:]
        [2, 2]
    """
    described = Operation(kind=kind, input_count=len(inputs), out_scale=1.0)
    described.inputs = (c_int32 * len(inputs))(*inputs)
    if out is not None:
        described.out_type, described.out_scale = out
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            address, count = _pointer(value, np.uint8 if value.dtype == np.uint8 else np.float32)
            setattr(described, name, address)
            # The header counts weights in bytes, since they are bits or float32, and scales and biases in numbers.
            is_weight = name == "weight"
            setattr(described, f"{name}_bytes" if is_weight else f"{name}_count", value.nbytes if is_weight else count)
        elif isinstance(value, tuple) and name in _COUNTS:
            setattr(described, name, (c_int64 * len(value))(*map(int, value)))
            setattr(described, _COUNTS[name], len(value))
        elif isinstance(value, tuple):
            getattr(described, name)[: len(value)] = value
        elif value is not None:
            setattr(described, name, value)
    return described


class NativeProgram:
    """A program in the library's memory; :mod:`signwise.runtime.session` fills it.

    Calls may come from several threads at once.

    Args:
        native: the library.
        threads: how many threads one call may use.
    """

    def __init__(self, native: ctypes.CDLL, threads: int) -> None:
        self._native = native
        self._input_types: list[np.dtype[Any]] = []
        self._output_types: list[np.dtype[Any]] = []
        self._handle: int | None = native.signwise_create(threads)
        if not self._handle:
            raise SignwiseError(_message(native))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._native.signwise_free(self._handle)
            self._handle = None

    def __reduce__(self) -> NoReturn:
        raise SignwiseError("a prepared program is memory of this process and cannot be copied: prepare another one")

    def input(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
        """Append an input; all inputs come before the operations.

        Args:
            dtype: float32 or int32.
            shape: of one example.
        """
        if np.dtype(dtype) not in _INPUT_TYPES:
            raise ValueError(f"an input of the native library is float32 or int32, got {np.dtype(dtype)}")
        sizes = (c_int64 * len(shape))(*shape)
        self._check(self._native.signwise_input(self._handle, _INPUT_TYPES[np.dtype(dtype)], sizes, len(shape)))
        self._input_types.append(np.dtype(dtype))

    def add(self, operation: Operation) -> None:
        """Append an operation; the library copies the weights."""
        self._check(self._native.signwise_add(self._handle, ctypes.byref(operation)))

    def finish(self, outputs: Sequence[int]) -> None:
        """Declare the values that are the outputs and close the program."""
        self._check(self._native.signwise_finish(self._handle, (c_int32 * len(outputs))(*outputs), len(outputs)))
        number, sizes = c_int32(), (c_int64 * 6)()
        types = {value: dtype for dtype, value in _INPUT_TYPES.items()}
        for output in range(len(outputs)):
            self._native.signwise_output(self._handle, output, ctypes.byref(number), sizes)
            self._output_types.append(types[number.value])

    def run(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> None:
        """Compute a batch.

        Args:
            inputs: one C-contiguous array ``(batch, *shape)`` per input, of its type.
            outputs: one C-contiguous array ``(batch, *shape)`` per output, written to: float32, or int32 for integers.
        """
        self._check(self._native.signwise_run(self._handle, *self._arrays(inputs, outputs)))

    def bound(self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]) -> Callable[[], None]:
        """:meth:`run` on arrays that stay in place: their addresses are looked up once."""
        arguments, alive = self._arrays(inputs, outputs), (*inputs, *outputs)

        def call(alive: object = alive) -> None:  # the addresses are valid as long as the arrays live
            self._check(self._native.signwise_run(self._handle, *arguments))

        return call

    def profile(
        self,
        inputs: Sequence[npt.NDArray[Any]],
        outputs: Sequence[npt.NDArray[Any]],
        seconds: npt.NDArray[np.float64],
    ) -> None:
        """Like :meth:`run`, in one thread; adds the time spent per operation and phase to ``seconds``.

        Args:
            inputs, outputs: as for :meth:`run`.
            seconds: ``(operations, 5)``: input preparation, tables, sums, epilogue and total.
        """
        pointers = (*self._arrays(inputs, outputs), *_pointer(seconds, np.float64, written=True))
        self._check(self._native.signwise_profile(self._handle, *pointers))

    def _arrays(
        self, inputs: Sequence[npt.NDArray[Any]], outputs: Sequence[npt.NDArray[Any]]
    ) -> tuple[int | ctypes.Array[Any], ...]:
        """The batch size, then pointers, sizes and number of the inputs and of the outputs."""
        batch = len(inputs[0]) if inputs else 0
        # More arrays than the program has are refused by the library, by their number.
        return (batch, *_pointers(inputs, self._input_types), *_pointers(outputs, self._output_types, written=True))

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights in the order of the kernels."""
        return int(self._native.signwise_weight_bytes(self._handle))

    def activation_bytes(self, batch: int) -> int:
        """Bytes of the arena that one thread uses for a batch."""
        if not 0 <= batch < 2**31:
            raise ValueError(f"a batch has 0 to 2^31 - 1 examples, got {batch}")
        return int(self._native.signwise_activation_bytes(self._handle, batch))

    def _check(self, status: int) -> None:
        if status:
            raise SignwiseError(_message(self._native))


def _message(native: ctypes.CDLL) -> str:
    return str(native.signwise_error().decode(errors="replace"))


def _pointers(
    arrays: Sequence[npt.NDArray[Any]], dtypes: Sequence[np.dtype[Any]], *, written: bool = False
) -> tuple[ctypes.Array[c_void_p], ctypes.Array[c_int64], int]:
    """The addresses of the arrays, their counts, and how many arrays there are."""
    known = [*dtypes, *[np.dtype(np.float32)] * len(arrays)]
    found = [_pointer(array, dtype, written=written) for array, dtype in zip(arrays, known, strict=False)]
    addresses, counts = [address for address, _ in found], [count for _, count in found]
    return (c_void_p * len(found))(*addresses), (c_int64 * len(found))(*counts), len(found)


def _pointer(array: npt.NDArray[Any], dtype: npt.DTypeLike, *, written: bool = False) -> tuple[int, int]:
    """The address of the numbers, and their count."""
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError("the native library takes C-contiguous, aligned arrays")
    if array.dtype != dtype:
        raise ValueError(f"the native library takes {np.dtype(dtype)} here, got {array.dtype}")
    if written and not array.flags.writeable:
        raise ValueError("the native library writes to this array, which is read-only")
    return array.ctypes.data, array.size
