"""From a program to the native kernels: every operation is handed over once, then batches run without Python."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.program import operations as ops
from signwise.program import reference
from signwise.program.program import Program
from signwise.runtime import native

# The numbers of signwise.h.
_KINDS: dict[type[ops.Operation], int] = {
    kind: number
    for number, kind in enumerate(
        (
            ops.Conv, ops.Dense, ops.Affine, ops.Relu, ops.Add, ops.MaxPool, ops.AvgPool, ops.GlobalPool,
            ops.PadChannels, ops.Flatten, ops.Concat, ops.Softmax,
        )
    )
}  # fmt: skip
_TYPES = {"uint8": 1, "int8": 2, "uint6": 3}


class Session:
    """A program that is ready to run, natively where the library is there, else with numpy.

    The weights are put in the order of the kernels once; memory for values is planned once and used again. Calls may
    come from several threads at once: the interpreter lock is released, and a call that finds the worker threads busy
    computes in its own thread.

    Args:
        program: what to run.
        threads: how many threads a call may use; ``None`` means ``SIGNWISE_THREADS``, or all cores.

    Example:
        >>> program = Program(input_shape=(2,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
        >>> Session(program)(np.array([[-1.0, 2.0]]))
        array([[0., 2.]], dtype=float32)
    """

    def __init__(self, program: Program, threads: int | None = None) -> None:
        if threads is not None and (type(threads) is not int or not 1 <= threads <= 1024):
            raise ValueError(f"threads must be an integer from 1 to 1024, got {threads!r}")
        self.program = program
        self.threads = native.default_threads() if threads is None else threads
        library = native.library()
        self.native = None if library is None else lower(program, library, self.threads)

    def __call__(self, examples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The answers to a batch, ``(batch, *output_shape)`` in float32.

        Args:
            examples: ``(batch, *input_shape)``, of any real type.
        """
        if self.native is None:
            return reference.run(self.program, examples)
        batch = self.program.as_input(examples)
        answers = np.empty((len(batch), *self.program.output_shape), np.float32)
        self.native.run(batch, answers)
        return answers


def lower(program: Program, library: ctypes.CDLL, threads: int) -> native.NativeProgram:
    """Hand a program over to the native library.

    Args:
        program: what to prepare.
        library: see :func:`signwise.runtime.native.library`.
        threads: how many threads a call may use.
    """
    lowered = native.NativeProgram(library, program.input_shape, threads)
    for operation in program.ops:
        lowered.add(_describe(program, operation))
    lowered.finish(program.output)
    return lowered


def _describe(program: Program, operation: ops.Operation) -> native.Operation:
    described = native.Operation(kind=_KINDS[type(operation)], input_count=len(operation.inputs), out_scale=1.0)
    described.inputs = (ctypes.c_int32 * len(operation.inputs))(*operation.inputs)
    if operation.out is not None:
        described.out_type = _TYPES[operation.out.type]
        described.out_scale = operation.out.scale
    match operation:
        case ops.Conv():
            _describe_layer(program, operation, described)
            described.out_channels = operation.out_channels
            described.kernel[:] = operation.kernel
            described.stride[:] = operation.stride
            described.padding[:] = operation.padding
            described.dilation[:] = operation.dilation
            described.groups = operation.groups
        case ops.Dense():
            _describe_layer(program, operation, described)
            described.out_channels = operation.out_features
        case ops.Affine():
            described.scale, described.scale_count = _numbers(program, operation.scale)
            described.bias, described.bias_count = _numbers(program, operation.bias)
            described.relu = operation.relu
        case ops.Add():
            described.relu = operation.relu
        case ops.Pool():
            described.kernel[:] = operation.kernel
            described.stride[:] = operation.stride
            described.padding[:] = operation.padding
            described.count_include_pad = isinstance(operation, ops.AvgPool) and operation.count_include_pad
        case ops.PadChannels():
            described.before, described.after = operation.before, operation.after
        case _:
            pass  # nothing beyond the values that it reads
    return described


def _describe_layer(program: Program, operation: ops.Weighted, described: native.Operation) -> None:
    weight = program.tensors[operation.weight]
    described.weight, described.weight_bytes = weight.ctypes.data, weight.nbytes
    described.bits = operation.bits
    described.scale, described.scale_count = _numbers(program, operation.scale)
    described.bias, described.bias_count = _numbers(program, operation.bias)
    described.relu = operation.relu


def _numbers(program: Program, name: str | None) -> tuple[int | None, int]:
    # The program holds its tensors C-contiguous and checked to be float32.
    return (None, 0) if name is None else (program.tensors[name].ctypes.data, program.tensors[name].size)
