"""Programs in other formats, for engines that people already have.

signwise.export.onnx(program, "net.onnx")
signwise.export.gguf(language_model, "model.gguf")
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Union

import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.export.onnx_model import to_onnx
from signwise.program.file import write_file
from signwise.program.program import Program

if TYPE_CHECKING:
    from torch import Tensor, nn

    from signwise.export.gguf_file import GGUFReport

__all__ = ["gguf", "onnx", "to_onnx"]


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


def _compiled(program: Union[Program, nn.Module], example_input: Union[Tensor, npt.NDArray[Any], None]) -> Program:
    if isinstance(program, Program):
        return program
    if example_input is None:
        raise SignwiseError("exporting a model needs example_input=, one batch of the right shape")
    from signwise.compiler import compile as compile_model  # needs PyTorch, which exporting a program does not

    return compile_model(program, example_input)


def gguf(
    model: nn.Module,
    path: str | PathLike[str],
    *,
    tokenizer: object | None = None,
    name: str | None = None,
    embeddings: str = "Q8_0",
) -> GGUFReport:
    """Write a language model as a GGUF file: llama.cpp runs it with one bit per weight of its binary layers (Q1_0).

    Args:
        model: a trained ``signwise.models.llama``, or a Llama, Qwen2 or Qwen3 model of ``transformers``, binarized or
            not. Binary layers need a multiple of 128 inputs, and a scale per output or per block of 128 inputs.
        path: the file, which should end in ``.gguf``.
        tokenizer: the fast, byte-level tokenizer of ``transformers`` that the model was trained with; ``None`` for a
            model of bytes.
        name: the model's name in the file.
        embeddings: the type of float matrices: ``"Q8_0"`` (8 bits), ``"F16"`` or ``"F32"``.

    Returns:
        What the file holds.

    Raises:
        SignwiseError: the model has another shape, a layer does not fit the format, or the ``gguf`` package is missing.
    """
    from signwise.export.gguf_file import write_gguf

    return write_gguf(model, path, tokenizer=tokenizer, name=name, embeddings=embeddings)
