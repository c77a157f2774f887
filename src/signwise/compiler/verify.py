"""Whether a program computes what its model does: both run on the example before ``compile`` returns."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from signwise.compiler.builder import Draft
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


def refuse_other_outputs(model: nn.Module, program: Program, example: Tensor, draft: Callable[[], Draft]) -> None:
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
        for name, reader in observe(model, layers, example).readers.items():
            raise SignwiseError(
                f"{reader} reads the weight of {name} without calling the layer and would compute with latents; "
                f"keep {name} float (binarize_ does so with example_input), or call the layer"
            )
    if bool((example == example.flatten()[0]).all()):  # a constant, such as zeros, shows little
        example = torch.randn(example.shape, generator=torch.Generator().manual_seed(0))
    one, two = example[:1], torch.cat((example[:1], example[-1:].flip(-1)))
    expected = _outputs(model, one)
    if _differ(_outputs(model, one), expected):
        raise SignwiseError(
            "the model gives other outputs when it sees the same input again in evaluation mode: it draws random "
            "numbers or remembers; a program does neither"
        )
    if _differ(_outputs(model, two)[:1], expected):
        raise SignwiseError(
            "the model's outputs for one example depend on the others in the batch or on its size; a program computes "
            "each example by itself"
        )
    if not bool(torch.isfinite(expected).all()):
        return
    outputs = torch.from_numpy(program(one.numpy())).reshape(expected.shape)
    if not _differ(outputs, expected):
        return
    difference = float((outputs - expected).abs().max())
    where = _first_difference(model, draft(), one)
    raise SignwiseError(
        f"the program's outputs differ from the model's by up to {difference:.3g}, where the largest is "
        f"{float(expected.abs().max()):.3g}{where}; signwise.pack_(model) leaves the model's code as it is"
    )


def _outputs(model: nn.Module, examples: Tensor) -> Tensor:
    outputs = run_example(model, examples)
    while not isinstance(outputs, Tensor):  # a tuple, list or dict with one tensor
        outputs = next(iter(outputs.values() if isinstance(outputs, dict) else outputs))
    return outputs.clone()


def _differ(outputs: Tensor, expected: Tensor) -> bool:
    if bool(torch.isfinite(outputs).all()) != bool(torch.isfinite(expected).all()):
        return True
    return bool(((outputs - expected).abs() > TOLERANCE * expected.abs().max().clamp_min(1e-6)).any())


def _first_difference(model: nn.Module, draft: Draft, example: Tensor) -> str:
    """The first module without parts whose output the program computes differently, in the program's order."""
    outputs: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda module, args, output, name=name: outputs.setdefault(name, output))
        for name, module in model.named_modules()
        if not any(module.children())
    ]
    try:
        run_example(model, example)
    finally:
        for hook in hooks:
            hook.remove()
    last = {name: value for value, name in draft.names.items()}  # a module's output is its last value
    for name, value in last.items():
        expected = outputs.get(name)
        if isinstance(expected, Tensor) and expected.shape[1:] == draft.shape(value):
            draft.output = value
            if _differ(torch.from_numpy(draft.finish({})(example.numpy())), expected):
                return f"; they part at {name or 'the model'}"
    return ""
