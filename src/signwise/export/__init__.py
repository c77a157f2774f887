"""Programs in other formats, for engines that people already have.

signwise.export.onnx(program, "net.onnx")
signwise.export.c(program, "net/", examples)
signwise.export.gguf(language_model, "model.gguf")
signwise.export.wasm({"net": program}, "folder")
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.export.browser import wasm
from signwise.export.c_source import Source, to_c
from signwise.export.onnx_model import to_onnx
from signwise.program.file import write_file
from signwise.program.integers.program import IntegerProgram
from signwise.program.program import Program

if TYPE_CHECKING:
    from torch import Tensor, nn

    from signwise.export.gguf_file import gguf

__all__ = ["Source", "c", "gguf", "onnx", "to_c", "to_onnx", "wasm"]


def onnx(
    program: Union[Program, nn.Module],
    path: str | PathLike[str],
    example_input: Union[Tensor, npt.NDArray[Any], None] = None,
    *,
    packed: bool = True,
) -> None:
    """Write an ONNX model that computes what the program computes, with one bit per binary weight.

    The model has standard operators alone and runs in any engine; an engine unpacks the weights when it loads the file.

    Args:
        program: what to write, or a PyTorch model to compile first. The input is called ``input``, the output
            ``output``; the batch stays symbolic. A program with 8-bit values becomes a quantized model.
        path: the file, which should end in ``.onnx``.
        example_input: for a model, one batch of the right shape, as for :func:`signwise.compile`.
        packed: keep binary weights as bits; ``False`` writes float32 numbers, in a file about thirty times as large.

    Raises:
        SignwiseError: the ``onnx`` package is not installed, or the file cannot be written.
    """
    write_file(path, to_onnx(_compiled(program, example_input), packed=packed))


def c(
    program: Union[Program, nn.Module, IntegerProgram],
    folder: str | PathLike[str],
    examples: Union[Tensor, npt.NDArray[Any], None] = None,
    *,
    name: str = "net",
) -> Source:
    """Write a network as C99 for microcontrollers: constant weights, integers alone, the caller's memory.

    The folder gets ``NAME.h`` and ``NAME.c`` with one function::

        int NAME_run(const int8_t *input, int32_t *output, void *arena);

    and the two files that all networks share, ``signwise_kernels.h`` and ``signwise_kernels.c``.

    Args:
        program: an integer program, which is written as it is; a program or a PyTorch model becomes one first.
        folder: where the files go; it is made if it does not exist.
        examples: typical inputs to choose the scales of 8-bit values on, ``(count, *input_shape)``; a hundred are
            plenty. An integer program needs none.
        name: of the files, and the beginning of every name in them.

    Returns:
        The files, and the bytes of weights and memory.

    Raises:
        SignwiseError: the program has an operation without an integer form, or a file cannot be written.

    Example:
        >>> import tempfile
        >>> import signwise as sw
        >>> digits = sw.datasets.load("mnist").train_images[:16]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sw.export.c(sw.Program.load("lenet5-mnist-1bit"), folder, digits).weight_bytes
        61763
    """
    if not isinstance(program, IntegerProgram):
        if examples is None:
            raise SignwiseError("C needs examples=, typical inputs to choose the scales of 8-bit values on")
        program = _compiled(program, examples).to_integers(np.asarray(examples))
    source, place = to_c(program, name), Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SignwiseError(f"cannot make the folder {place}: {error.strerror}") from None
    for file, text in source.files.items():
        write_file(place / file, text.encode())
    return source


def _compiled(program: Union[Program, nn.Module], example_input: Union[Tensor, npt.NDArray[Any], None]) -> Program:
    if isinstance(program, Program):
        return program
    if isinstance(program, IntegerProgram):
        raise SignwiseError("an integer program exports to C alone: for ONNX take the program that it was made from")
    if example_input is None:
        raise SignwiseError("exporting a model needs example_input=, one batch of the right shape")
    from signwise.compiler import compile as compile_model  # needs PyTorch, which exporting a program does not

    return compile_model(program, example_input)


def __getattr__(name: str) -> Any:
    if name == "gguf":  # needs PyTorch, which exporting a program does not
        from signwise.export.gguf_file import gguf

        return gguf
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
