"""Whether a program computes what its model does: both run on the example before ``compile`` returns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils._pytree import tree_leaves

from signwise.compiler.builder import Draft
from signwise.compiler.trace import Inputs
from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.observe import observe, run_example
from signwise.program.program import Program

# Of the largest output: kernels and PyTorch add in another order, and folding a norm rounds once more.
TOLERANCE = 1e-2


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside DDP, DataParallel, ``torch.compile`` and moving averages, which take any arguments."""
    while True:
        inside = getattr(model, "_orig_mod", None)
        if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel, AveragedModel)):
            inside = model.module
        if not isinstance(inside, nn.Module):
            return model
        model = inside


def refuse_other_outputs(model: nn.Module, program: Program, example: Inputs, draft: Callable[[], Draft]) -> None:
    """Raise if the program's outputs are not the model's, and say where they part as far as that can be seen.

    Args:
        model: the model.
        program: what ``compile`` is about to return.
        example: one batch.
        draft: makes the program's draft before fusion, with one value for each operation of PyTorch.
    """
    model = copy.deepcopy(model).to(device="cpu", dtype=torch.float32)
    layers = dict(binary_layers(model))
    if layers:
        seen: Any = example if isinstance(example, Mapping) else tuple(example)
        for name, reader in observe(model, layers, seen).readers.items():
            raise SignwiseError(
                f"{reader} reads the weight of {name} without calling the layer and would compute with latents; "
                f"keep {name} float (binarize_ does so with example_input), or call the layer"
            )
    one = _changed(example, lambda part: _telling(part)[:1])
    two = _changed(example, lambda part: torch.cat((_telling(part)[:1], _other(_telling(part)))))
    expected = _outputs(model, one)
    if _differ(_outputs(model, one), expected):
        raise SignwiseError(
            "the model gives other outputs when it sees the same input again in evaluation mode: it draws random "
            "numbers or remembers; a program does neither"
        )
    # In float64, where other kernels for another batch change next to nothing.
    exact, exact_of_two = _outputs_in_double(model, one, two)
    if _differ([part[:1] for part in exact_of_two], exact):
        raise SignwiseError(
            "the model's outputs for one example depend on the others in the batch or on its size; a program computes "
            "each example by itself"
        )
    if not all(bool(torch.isfinite(part).all()) for part in expected):
        return
    if _differ(expected, exact):
        raise SignwiseError(
            "rounding alone changes the model's outputs beyond tolerance (float32 against float64), so that no program "
            "can be compared with it; train the model, or run some batches in training mode for its normalizations"
        )
    outputs = _run(program, one)
    if len(outputs) == len(expected) and not _differ(outputs, expected):
        return
    difference = max(float((found - part).abs().max()) for found, part in zip(outputs, expected, strict=True))
    largest = max(float(part.abs().max()) for part in expected)
    where = _first_difference(model, draft(), one)
    raise SignwiseError(
        f"the program's outputs differ from the model's by up to {difference:.3g}, where the largest is "
        f"{largest:.3g}{where}; signwise.pack_(model) leaves the model's code as it is"
    )


def _changed(example: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    if isinstance(example, Mapping):
        return {name: change(part) for name, part in example.items()}
    return tuple(change(part) for part in example)


def _telling(part: Tensor) -> Tensor:
    """The example itself, or random numbers in the place of a constant, such as zeros, which shows little."""
    if part.is_floating_point() and part.numel() > 1 and bool((part == part.flatten()[0]).all()):
        return torch.randn(part.shape, generator=torch.Generator().manual_seed(0))
    return part


def _other(part: Tensor) -> Tensor:
    return part[-1:].flip(-1) if part.dim() > 1 else part[-1:]


def _run(program: Program, inputs: Inputs) -> list[Tensor]:
    arrays = [part.numpy() for part in (inputs.values() if isinstance(inputs, Mapping) else inputs)]
    found: Any = program(*arrays)
    return [torch.from_numpy(part) for part in (found if isinstance(found, tuple) else (found,))]


def _outputs(model: nn.Module, examples: Inputs) -> list[Tensor]:
    """All tensors that the model returns, in tuples, lists, dicts or classes of them."""
    outputs = run_example(model, examples if isinstance(examples, Mapping) else tuple(examples))
    return [part.clone().float() for part in tree_leaves(outputs) if isinstance(part, Tensor)]


def _outputs_in_double(model: nn.Module, *examples: Inputs) -> list[list[Tensor]]:
    """The outputs for each example in float64, or in float32 where an operator of the model has no other kernel."""
    double = copy.deepcopy(model).double()
    wide = [_changed(part, lambda part: part.double() if part.is_floating_point() else part) for part in examples]
    try:
        return [_outputs(double, part) for part in wide]
    except RuntimeError:
        return [_outputs(model, part) for part in examples]


def _differ(outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return any(_tensors_differ(found.float(), part) for found, part in zip(outputs, expected, strict=True))


def _tensors_differ(outputs: Tensor, expected: Tensor) -> bool:
    if bool(torch.isfinite(outputs).all()) != bool(torch.isfinite(expected).all()):
        return True
    return bool(((outputs - expected).abs() > TOLERANCE * expected.abs().max().clamp_min(1e-6)).any())


def _first_difference(model: nn.Module, draft: Draft, example: Inputs) -> str:
    """The first module without parts whose output the program computes differently, in the program's order."""
    outputs: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda module, args, output, name=name: outputs.setdefault(name, output))
        for name, module in model.named_modules()
        if not any(module.children())
    ]
    try:
        run_example(model, example if isinstance(example, Mapping) else tuple(example))
    finally:
        for hook in hooks:
            hook.remove()
    last = {name: value for value, name in draft.names.items()}  # a module's output is its last value
    for name, value in last.items():
        expected = outputs.get(name)
        if isinstance(expected, Tensor) and expected.shape[1:] == draft.shape(value):
            draft.output = value
            if _differ(_run(draft.finish({}), example), [expected]):
                return f"; they part at {name or 'the model'}"
    return ""
