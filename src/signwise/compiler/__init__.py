"""compile: a trained PyTorch model in, a program out.

This module has compile itself: evaluation form, trace, fuse, pack.

trace.py        walks the graph of torch.export; lists what a program cannot express
translate.py    the table of PyTorch's operators; translations/ has one function each
builder.py      the draft that translations write and rules rewrite
fuse.py         rules that leave fewer operations with the same meaning
verify.py       refuses a program whose outputs are not the model's
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from signwise.compiler.fuse import fuse_
from signwise.compiler.trace import Inputs, Obstacle, trace_model
from signwise.compiler.verify import refuse_other_outputs, unwrapped
from signwise.errors import SignwiseError
from signwise.layers import float_class
from signwise.packing.pack import deployed_layers
from signwise.program.measures import error_text
from signwise.program.program import Program

__all__ = ["Obstacle", "can_compile", "compile"]

Array: TypeAlias = Union[Tensor, npt.NDArray[Any]]
Examples: TypeAlias = Union[Array, tuple[Array, ...], Mapping[str, Array]]


def compile(  # noqa: A001 - the name that users know from PyTorch
    model: nn.Module,
    example_input: Examples,
    activations: Literal["float32", "int8"] = "float32",
    *,
    calibrate: Examples | None = None,
    six_bit_inputs: bool = True,
    validate: tuple[Array, Array] | None = None,
    about: Mapping[str, str] | None = None,
    narrow: bool | None = None,
) -> Program:
    """Turn a model into a program: evaluation form, batch norm folded, ReLU and residuals fused, signs packed.

    Args:
        model: convolutional networks and transformers alike; docs/compile.md lists the operators. Whatever is not
            among them is refused by module and operator, all at once. DDP, DataParallel, ``torch.compile`` and
            ``AveragedModel`` are unwrapped. The model itself does not change.
        example_input: one batch of the right shape, of any size; token numbers stay whole numbers. A tuple holds
            several inputs, a dict those that the model takes by keyword. The program must give the model's outputs on
            it, or compile refuses.
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
    model = unwrapped(model)
    example = _inputs(model, example_input)
    plain, scales = evaluation_form(model)
    draft = trace_model(plain, scales, example)
    fuse_(draft)
    program = draft.finish(about or {})
    refuse_other_outputs(model, program, example, lambda: trace_model(plain, scales, example))
    if calibrate is None or activations == "float32":
        return _with_error(program, "error", program, validate)
    quantized = program.quantize(_arrays(calibrate), six_bit_inputs=six_bit_inputs if narrow is None else narrow)
    quantized = _with_error(quantized, "error with float32 activations", program, validate)
    return _with_error(quantized, "error", quantized, validate)


def can_compile(model: nn.Module, example_input: Examples) -> list[Obstacle]:
    """Everything in a model that :func:`compile` cannot express, at once; an empty list where it compiles.

    Args:
        model: as for :func:`compile`, before or after training, with float or binary layers.
        example_input: as for :func:`compile`.

    Returns:
        One obstacle per module and operator, with the reason and the way out.

    Raises:
        SignwiseError: ``torch.export`` cannot read the model, or the model does not take the example.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
        >>> can_compile(model, torch.zeros(1, 3, 8, 8))
        []
    """
    obstacles: list[Obstacle] = []
    plain, scales = evaluation_form(unwrapped(model))
    trace_model(plain, scales, _inputs(plain, example_input), obstacles)
    return obstacles


def evaluation_form(model: nn.Module) -> tuple[nn.Module, dict[str, Tensor | None]]:
    """A copy of the model whose binary layers are float layers with signs as weights; the model does not change.

    Args:
        model: any model, in training or evaluation mode, on any device.

    Returns:
        The copy, on the CPU, in float32 and evaluation mode, and by the name of each binary weight its scale per
        filter, or ``None`` where it has none.
    """
    copied = copy.deepcopy(model).to(device="cpu", dtype=torch.float32).eval().requires_grad_(False)
    for module in copied.modules():
        # Decoders of transformers return their keys and values beside the scores; compile_decoder keeps such a cache.
        config: Any = getattr(module, "config", None)
        if getattr(config, "use_cache", False):
            config.use_cache = False
    scales: dict[str, Tensor | None] = {}
    for name, layer, deployed in deployed_layers(copied, "compile"):
        layer.weight = nn.Parameter(deployed.signs, requires_grad=False)
        scales[f"{name}.weight" if name else "weight"] = deployed.scale
        # The inverse of binarize_: every parameter, hook and reference stays in place.
        plain: type[Any] | None = float_class(type(layer))
        assert plain is not None
        layer.__class__ = plain
    return copied, scales


def _inputs(model: nn.Module, example_input: Examples) -> Inputs:
    """The example as tensors on the CPU, one per input, by position or by keyword in the order of the arguments."""
    if isinstance(example_input, Mapping):
        arguments = list(inspect.signature(model.forward).parameters)
        names = sorted(example_input, key=lambda name: arguments.index(name) if name in arguments else len(arguments))
        named = {name: _tensor(f"example_input[{name!r}]", example_input[name]) for name in names}
        _same_length(list(named.values()))
        return named
    if isinstance(example_input, tuple):
        listed = tuple(_tensor(f"example_input[{index}]", part) for index, part in enumerate(example_input))
        _same_length(listed)
        return listed
    return (_tensor("example_input", example_input),)


def _tensor(name: str, part: Any) -> Tensor:
    if not isinstance(part, (Tensor, np.ndarray)):
        raise SignwiseError(f"{name} must be a tensor or array, got {type(part).__name__}")
    example = torch.as_tensor(part).detach().cpu()
    if example.is_floating_point() or example.dtype in (torch.uint8, torch.int8, torch.int16):
        example = example.float()
    if example.dim() < 1 or len(example) == 0 or (example.dim() == 1 and example.is_floating_point()):
        raise SignwiseError(f"{name} must be a batch of at least one example, got shape {list(example.shape)}")
    return example


def _same_length(parts: Sequence[Tensor]) -> None:
    if not parts or len({len(part) for part in parts}) != 1:
        raise SignwiseError(f"all inputs must have as many examples, got shapes {[list(part.shape) for part in parts]}")


def _array(examples: Array) -> npt.NDArray[Any]:
    return examples.detach().cpu().numpy() if isinstance(examples, Tensor) else np.asarray(examples)


def _arrays(examples: Examples) -> tuple[npt.NDArray[Any], ...]:
    parts = tuple(examples.values()) if isinstance(examples, Mapping) else examples
    listed = parts if isinstance(parts, (tuple, list)) else (parts,)
    # Anything but tensors goes on as it is: the program refuses what is no array, and names it.
    return tuple(_array(part) if isinstance(part, Tensor) else part for part in listed)


def _with_error(program: Program, keyword: str, measured: Program, validate: tuple[Array, Array] | None) -> Program:
    if validate is None:
        return program
    images, labels = (_array(part) for part in validate)
    return program.with_about({keyword: error_text(measured.error(images, labels), len(images))})
