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
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError

INTERFACE = 2  # SIGNWISE_INTERFACE of the header that this file mirrors
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
    )


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "signwise_interface": (c_int32, []),
    "signwise_error": (c_char_p, []),
    "signwise_isa": (c_char_p, []),
    "signwise_isas": (c_char_p, []),
    "signwise_create": (c_void_p, [POINTER(c_int64), c_int32, c_int32]),
    "signwise_add": (c_int32, [c_void_p, POINTER(Operation)]),
    "signwise_finish": (c_int32, [c_void_p, c_int32]),
    "signwise_free": (None, [c_void_p]),
    "signwise_run": (c_int32, [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64]),
    "signwise_profile": (c_int32, [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64]),
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
    **fields: int | tuple[int, ...] | npt.NDArray[Any] | None,
) -> Operation:
    """One operation for :meth:`NativeProgram.add`.

    Args:
        kind: its number in the header.
        inputs: the numbers of the values it reads.
        out: the number of the result's 8-bit type, and its scale; ``None`` for float32.
        fields: further fields of the structure. An array gives a pointer and its size and must stay alive until the
            operation is added.

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
        elif isinstance(value, tuple):
            getattr(described, name)[:] = value
        elif value is not None:
            setattr(described, name, value)
    return described


class NativeProgram:
    """A program in the library's memory; :mod:`signwise.runtime.session` fills it.

    Calls may come from several threads at once.

    Args:
        native: the library.
        input_shape: shape of one example.
        threads: how many threads one call may use.
    """

    def __init__(self, native: ctypes.CDLL, input_shape: tuple[int, ...], threads: int) -> None:
        self._native = native
        shape = (c_int64 * len(input_shape))(*input_shape)
        self._handle: int | None = native.signwise_create(shape, len(input_shape), threads)
        if not self._handle:
            raise SignwiseError(_message(native))

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._native.signwise_free(self._handle)
            self._handle = None

    def __reduce__(self) -> NoReturn:
        raise SignwiseError("a prepared program is memory of this process and cannot be copied: prepare another one")

    def add(self, operation: Operation) -> None:
        """Append an operation; the library copies the weights."""
        self._check(self._native.signwise_add(self._handle, ctypes.byref(operation)))

    def finish(self, output: int) -> None:
        """Declare the output and close the program."""
        self._check(self._native.signwise_finish(self._handle, output))

    def run(self, examples: npt.NDArray[np.float32], outputs: npt.NDArray[np.float32]) -> None:
        """Compute a batch.

        Args:
            examples: C-contiguous, ``(batch, *input_shape)``.
            outputs: C-contiguous, ``(batch, *output_shape)``, written to.
        """
        pointers = (*_pointer(examples, np.float32), *_pointer(outputs, np.float32, written=True))
        self._check(self._native.signwise_run(self._handle, len(examples), *pointers))

    def profile(
        self, examples: npt.NDArray[np.float32], outputs: npt.NDArray[np.float32], seconds: npt.NDArray[np.float64]
    ) -> None:
        """Like :meth:`run`, in one thread; adds the time spent per operation and phase to ``seconds``.

        Args:
            examples, outputs: as for :meth:`run`.
            seconds: ``(operations, 5)``: input preparation, tables, sums, epilogue and total.
        """
        pointers = (
            *_pointer(examples, np.float32),
            *_pointer(outputs, np.float32, written=True),
            *_pointer(seconds, np.float64, written=True),
        )
        self._check(self._native.signwise_profile(self._handle, len(examples), *pointers))

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights in the order of the kernels."""
        return int(self._native.signwise_weight_bytes(self._handle))

    def activation_bytes(self, batch: int) -> int:
        """Bytes of the arena that one thread uses for a batch."""
        return int(self._native.signwise_activation_bytes(self._handle, batch))

    def _check(self, status: int) -> None:
        if status:
            raise SignwiseError(_message(self._native))


def _message(native: ctypes.CDLL) -> str:
    return str(native.signwise_error().decode(errors="replace"))


def _pointer(array: npt.NDArray[Any], dtype: type[np.generic], *, written: bool = False) -> tuple[int, int]:
    """The address of the numbers, and their count."""
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError("the native library takes C-contiguous, aligned arrays")
    if array.dtype != dtype:
        raise ValueError(f"the native library takes {np.dtype(dtype)} here, got {array.dtype}")
    if written and not array.flags.writeable:
        raise ValueError("the native library writes to this array, which is read-only")
    return array.ctypes.data, array.size
