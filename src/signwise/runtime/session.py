"""A program prepared to run: the library gets every operation once, then batches run without Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.runtime import native

LARGEST_THREADS = 1024


class Runnable(Protocol):
    """What a session needs of a program; :class:`signwise.Program` and :class:`signwise.IntegerProgram` offer it."""

    @property
    def inputs(self) -> Sequence[object]: ...

    @property
    def outputs(self) -> tuple[int, ...]: ...

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]: ...

    @property
    def types(self) -> tuple[Any, ...]: ...

    def as_inputs(self, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Check a batch; returns it in float32 or int32, C-contiguous and aligned."""

    def native_operations(self) -> Iterable[native.Operation] | None:
        """The operations for the native library, in order; ``None`` if it has no kernels for the program."""

    def reference(self, *inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs without the native library."""


P = TypeVar("P", bound=Runnable)


class Session(Generic[P]):
    """A program that is ready to run: natively where the library is installed, else by the program's own numpy.

    The weights are brought into the order of the kernels once; memory for values is planned once and reused. Calls may
    come from several threads at once: the interpreter lock is released, and a call that finds the worker threads busy
    computes in its own thread.

    Args:
        program: what to run.
        threads: how many threads a call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.
    """

    def __init__(self, program: P, threads: int | None = None) -> None:
        self.program = program
        self.threads = thread_count(threads)
        self.native = _prepare(program, self.threads)
        self.isa = None if self.native is None else native.isa()
        self._is_new = True

    def __call__(self, *inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The outputs for a batch: ``(batch, *output_shape)`` in float32, or a tuple of several.

        Args:
            inputs: ``(batch, *shape)`` for each input of the program, of any real type.
        """
        if self._is_new:  # once: a check of every batch would take as long as a small program
            self._is_new = False
            _warn_of_scaled_pixels(self.program, inputs)
        if self.native is None:
            return self.program.reference(*inputs)
        arrays, program = self.program.as_inputs(inputs), self.program
        outputs = [
            np.empty((len(arrays[0]), *program.shapes[value]), program.types[value]) for value in program.outputs
        ]
        self.native.run(arrays, outputs)
        result: npt.NDArray[np.float32] = one_or_tuple(outputs)
        return result

    def bind(self, *inputs: npt.NDArray[Any]) -> Callable[[], npt.NDArray[np.float32]]:
        """A call that reads these arrays wherever they stand, for small programs that run many times.

        Args:
            inputs: as for a call, float32 or int32 and C-contiguous already. Write the next numbers into them.

        Returns:
            A function of no arguments. Its outputs are the same arrays every time, with new numbers.
        """
        if self.native is None:
            return lambda: self.program.reference(*inputs)
        arrays = self.program.as_inputs(inputs)
        if any(array.ctypes.data != given.ctypes.data for array, given in zip(arrays, inputs, strict=True)):
            raise SignwiseError("bind takes C-contiguous arrays of the types that the program reads: float32 or int32")
        program = self.program
        outputs = [
            np.empty((len(arrays[0]), *program.shapes[value]), program.types[value]) for value in program.outputs
        ]
        run, result = self.native.bound(arrays, outputs), one_or_tuple(outputs)

        def call() -> npt.NDArray[np.float32]:
            run()
            found: npt.NDArray[np.float32] = result
            return found

        return call

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, and the session in another process, prepares the program again."""
        return type(self), (self.program, self.threads)

    def __repr__(self) -> str:
        return f"Session({self.program!r}, threads={self.threads}, isa={self.isa or 'numpy'})"


def _warn_of_scaled_pixels(program: Runnable, inputs: Sequence[Any]) -> None:
    """Warn where images scaled to 0..1 meet a program that standardizes raw pixels itself."""
    if not getattr(program, "about", {}).get("input", "").startswith("raw pixels"):
        return
    for images in program.as_inputs(inputs):
        if images.dtype == np.float32 and images.size and images.min() >= 0 and 0 < images.max() <= 1:
            warnings.warn(
                "the images are in 0..1, and this program takes raw pixels, 0 to 255: multiply them by 255",
                stacklevel=3,
            )


def one_or_tuple(outputs: Sequence[npt.NDArray[Any]]) -> Any:
    """The only output itself, several as a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def thread_count(threads: int | None) -> int:
    """``threads`` if it is in range; for ``None``, the default of this process."""
    if threads is None:
        return native.default_threads()
    if type(threads) is not int or not 1 <= threads <= LARGEST_THREADS:
        raise SignwiseError(f"threads must be an integer from 1 to {LARGEST_THREADS}, got {threads!r}")
    return threads


def _prepare(program: Runnable, threads: int) -> native.NativeProgram | None:
    library, operations = native.library(), program.native_operations()
    if library is None or operations is None:
        return None
    prepared = native.NativeProgram(library, threads)
    for value in range(len(program.inputs)):
        prepared.input(program.types[value], program.shapes[value])
    for operation in operations:
        prepared.add(operation)
    prepared.finish(program.outputs)
    return prepared
