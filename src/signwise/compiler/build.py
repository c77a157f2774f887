"""compile: a trained PyTorch model in, a program out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from signwise.compiler.draft import Draft
from signwise.compiler.fuse import fuse_
from signwise.compiler.prepare import prepare
from signwise.compiler.trace import trace
from signwise.errors import SignwiseError
from signwise.program import operations as ops
from signwise.program.evaluate import error_rate
from signwise.program.program import Program
from signwise.program.quantize import quantize

Examples: TypeAlias = Union[Tensor, npt.NDArray[Any]]


def compile(  # noqa: A001 - the name that users know from PyTorch
    model: nn.Module,
    example_input: Examples,
    activations: Literal["float32", "int8"] = "float32",
    *,
    calibrate: Examples | None = None,
    narrow: bool = True,
    validate: tuple[Examples, Examples] | None = None,
    about: Mapping[str, str] | None = None,
) -> Program:
    """Turn a model into a program: evaluation form, batch norm folded, ReLU and residuals fused, signs packed.

    Args:
        model: any model of convolutions, dense layers, batch norm, ReLU, pools, additions and concatenations; what
            cannot be expressed is refused by name. It is not changed.
        example_input: one batch of the right shape; its numbers and its batch size do not matter.
        activations: ``"float32"``, or ``"int8"`` for integer additions in the binary layers.
        calibrate: for ``"int8"``, a batch of typical inputs (a hundred are plenty) to choose scales on.
        narrow: for ``"int8"``, let what 3x3 convolutions read have six bits, which CPUs with VNNI run much faster.
        validate: images and labels on which the error is measured, with float32 and with 8-bit activations; both go
            into the program's ``about``.
        about: free text by keyword to keep in the file, such as the data set.

    Returns:
        The program; ``program.save("net.sw")`` writes it.

    Example:
        >>> import signwise as sw
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
        >>> _ = sw.binarize_(model, skip=sw.last)
        >>> program = compile(model, torch.zeros(1, 8))
        >>> [operation.kind for operation in program.ops]
        ['dense', 'dense']
    """
    if activations not in ("float32", "int8"):
        raise SignwiseError(f"activations must be 'float32' or 'int8', got {activations!r}")
    if not isinstance(example_input, (Tensor, np.ndarray)):
        raise SignwiseError(f"example_input must be one tensor or array, got {type(example_input).__name__}")
    example = torch.as_tensor(example_input).detach().to("cpu", torch.float32)
    if example.dim() < 2 or len(example) == 0:
        raise SignwiseError(f"example_input must be a batch of at least one example, got shape {list(example.shape)}")
    copied, scales = prepare(model)
    draft = trace(copied, scales, example)
    fuse_(draft)
    notes = dict(about or {})
    if activations == "float32":
        program = draft.finish(notes)
        if validate is not None:
            notes["error"] = _percent(program, validate)
        return draft.finish(notes)

    if calibrate is None:
        raise SignwiseError("activations='int8' needs calibrate=, a batch of typical inputs to choose scales on")
    _let_input_be_quantized_(draft)
    program = draft.finish(notes)
    examples = _array(calibrate)
    quantized = quantize(program, examples, narrow=narrow)
    notes["activations"] = f"int8, calibrated on {len(examples)} examples"
    if validate is not None:
        notes["error with float32 activations"] = _percent(program, validate)
        notes["error"] = _percent(quantized, validate)
    return replace(quantized, about=notes)


def _let_input_be_quantized_(draft: Draft) -> None:
    """The input is float32; where a binary layer reads it, an operation that changes nothing makes it integers."""
    layers = [operation for operation in draft.ops.values() if isinstance(operation, ops.Weighted)]
    if any(layer.bits == 1 and layer.inputs[0] == 0 for layer in layers):
        channels = draft.input_shape[0]
        scale, bias = draft.tensor("scale", np.ones(channels)), draft.tensor("bias", np.zeros(channels))
        draft.insert_first(ops.Affine(inputs=(0,), scale=scale, bias=bias), "input")


def _array(examples: Examples) -> npt.NDArray[Any]:
    return examples.detach().cpu().numpy() if isinstance(examples, Tensor) else np.asarray(examples)


def _percent(program: Program, validate: tuple[Examples, Examples]) -> str:
    images, labels = (_array(part) for part in validate)
    return f"{100 * error_rate(program, images, labels):.2f} % of {len(images)} examples"
