"""compile: a trained PyTorch model in, a program out.

This module has compile itself: evaluation form, trace, fuse, pack.

trace.py        walks the graph of torch.export
translate.py    one function per PyTorch operator
builder.py      the draft that translations write and rules rewrite
fuse.py         rules that leave fewer operations with the same meaning
verify.py       refuses a program whose outputs are not the model's
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from signwise.compiler.fuse import fuse_
from signwise.compiler.trace import trace_model
from signwise.compiler.verify import refuse_other_outputs, unwrapped
from signwise.errors import SignwiseError
from signwise.layers import float_class
from signwise.packing.pack import deployed_layers
from signwise.program.program import Program, error_text

__all__ = ["compile"]

Examples: TypeAlias = Union[Tensor, npt.NDArray[Any]]


def compile(  # noqa: A001 - the name that users know from PyTorch
    model: nn.Module,
    example_input: Examples,
    activations: Literal["float32", "int8"] = "float32",
    *,
    calibrate: Examples | None = None,
    six_bit_inputs: bool = True,
    validate: tuple[Examples, Examples] | None = None,
    about: Mapping[str, str] | None = None,
    narrow: bool | None = None,
) -> Program:
    """Turn a model into a program: evaluation form, batch norm folded, ReLU and residuals fused, signs packed.

    Args:
        model: any model of convolutions, dense layers, batch norm, ReLU, pools, additions and concatenations; anything
            else is refused by name. DDP, DataParallel, ``torch.compile`` and ``AveragedModel`` are unwrapped. The model
            itself does not change.
        example_input: one batch of the right shape, of any size. The program must give the model's outputs on it, or
            compile refuses.
        activations: ``"int8"`` is short for ``compile(...).quantize(calibrate)``.
        calibrate, six_bit_inputs: for ``"int8"``, the arguments of :meth:`Program.quantize`.
        validate: images and labels; notes :meth:`Program.error` on them in the program's ``about``.
        about: free text by keyword to store in the file, such as the data set.
        narrow: the older name of ``six_bit_inputs``.

    Returns:
        The program; ``program.save("net.sw")`` writes it.

    Raises:
        SignwiseError: the model uses an operation that a program does not have, or the program's outputs differ.

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
    if activations == "int8" and calibrate is None:
        raise SignwiseError("activations='int8' needs calibrate=, a batch of typical inputs to choose scales on")
    model, example = unwrapped(model), _example(example_input)
    plain, scales = evaluation_form(model)
    draft = trace_model(plain, scales, example)
    fuse_(draft)
    program = draft.finish(about or {})
    refuse_other_outputs(model, program, example, lambda: trace_model(plain, scales, example))
    if calibrate is None or activations == "float32":
        return _with_error(program, "error", program, validate)
    quantized = program.quantize(_array(calibrate), six_bit_inputs=six_bit_inputs if narrow is None else narrow)
    quantized = _with_error(quantized, "error with float32 activations", program, validate)
    return _with_error(quantized, "error", quantized, validate)


def evaluation_form(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor | None]]:
    """A copy of the model whose binary layers are float layers with signs as weights; the model does not change.

    Args:
        model: any model, in training or evaluation mode, on any device.

    Returns:
        The copy, on the CPU, in float32 and evaluation mode, and by the name of each binary weight its scale per
        filter, or ``None`` where it has none.
    """
    copied = copy.deepcopy(model).to(device="cpu", dtype=torch.float32).eval().requires_grad_(False)
    scales: dict[str, Tensor | None] = {}
    for name, layer, deployed in deployed_layers(copied, "compile"):
        if deployed.scale is not None and deployed.scale.dim() == 2:
            raise SignwiseError(
                f"{name} has a scale per block of inputs, which compile does not take: train it with one scale per "
                "output (block=None), pack it with signwise.pack_, or export it with signwise.export.gguf"
            )
        layer.weight = nn.Parameter(deployed.signs, requires_grad=False)
        scales[f"{name}.weight" if name else "weight"] = deployed.scale
        # The inverse of binarize_: every parameter, hook and reference stays in place.
        plain: type[Any] | None = float_class(type(layer))
        assert plain is not None
        layer.__class__ = plain
    return copied, scales


def _example(example_input: Examples) -> Tensor:
    if not isinstance(example_input, (Tensor, np.ndarray)):
        raise SignwiseError(f"example_input must be one tensor or array, got {type(example_input).__name__}")
    example = torch.as_tensor(example_input).detach().to("cpu", torch.float32)
    if example.dim() < 2 or len(example) == 0:
        raise SignwiseError(f"example_input must be a batch of at least one example, got shape {list(example.shape)}")
    return example


def _array(examples: Examples) -> npt.NDArray[Any]:
    return examples.detach().cpu().numpy() if isinstance(examples, Tensor) else np.asarray(examples)


def _with_error(
    program: Program, keyword: str, measured: Program, validate: tuple[Examples, Examples] | None
) -> Program:
    if validate is None:
        return program
    images, labels = (_array(part) for part in validate)
    return program.with_about({keyword: error_text(measured.error(images, labels), len(images))})
