"""Between a run in memory and its checkpoint.

    network/NAME            parameters and buffers, latents as they are
    optimizer/NAME/KEY      what the optimizer keeps for a parameter: its momentum
    totals                  the sums of the epoch so far

There is no random state: order, augmentation and layers draw from (seed, step), see ``order``.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from signwise.errors import FormatError
from signwise.training.checkpoint import Checkpoint
from signwise.training.distributed import World
from signwise.training.stepper import Stepper


@dataclass(kw_only=True)
class Progress:
    """How far a run has come.

    Args:
        step: steps done.
        epochs: epochs done and evaluated.
        best_error: the lowest error so far, in percent; ``None`` before the first evaluation.
        best_epoch: the epoch of the lowest error, from 1.
        last_error: the error of the last evaluation.
        seconds: time spent, over all attempts.
    """

    step: int = 0
    epochs: int = 0
    best_error: float | None = None
    best_epoch: int | None = None
    last_error: float | None = None
    seconds: float = 0.0


def capture(stepper: Stepper, progress: Progress) -> Checkpoint:
    """The state of a run, between two steps."""
    tensors: dict[str, Tensor] = {"totals": stepper.totals}
    for name, value in stepper.network.state_dict().items():
        tensors[f"network/{name}"] = value
    for name, parameter in stepper.network.named_parameters():
        for key, value in stepper.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{name}/{key}"] = value
    return Checkpoint(tensors, {"kind": "checkpoint", "progress": dataclasses.asdict(progress)})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def load_network_(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give a network the weights of a checkpoint, or of the best or last weights: whatever starts with ``network/``.

    Raises:
        FormatError: they are the weights of another network.
    """
    try:
        network.load_state_dict(_part(tensors, "network/"))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise FormatError(f"the saved weights do not fit the network: {' '.join(lines[1:3])}") from None


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    # A file has one memory layout; momentum in another one than its weight's would be slow to add to it.
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def restore_(stepper: Stepper, checkpoint: Checkpoint) -> Progress:
    """Bring a run to where its checkpoint was taken; the inverse of :func:`capture`."""
    tensors = dict(checkpoint.tensors)
    load_network_(stepper.network, tensors)
    for name, parameter in stepper.network.named_parameters():
        state = _part(tensors, f"optimizer/{name}/")
        if state:
            stepper.optimizer.state[parameter] = {key: _laid_out_like(parameter, value) for key, value in state.items()}
    stepper.totals.copy_(tensors["totals"])
    return Progress(**checkpoint.record["progress"])


def shared_checkpoint(world: World, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint that rank 0 has read: the others may run on machines that do not see its folder."""
    if world.size == 1:
        return checkpoint
    contents: dict[str, Any] | None = None
    if checkpoint is not None:
        shapes = {name: [list(value.shape), str(value.dtype)] for name, value in checkpoint.tensors.items()}
        contents = {"record": dict(checkpoint.record), "shapes": shapes}
    contents = json.loads(world.shared_text(json.dumps(contents)))
    if contents is None:
        return None
    tensors = {}
    for name, (shape, kind) in contents["shapes"].items():
        if checkpoint is not None:
            tensors[name] = checkpoint.tensors[name].to(world.device)
        else:
            tensors[name] = torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")), device=world.device)
    world.share_(list(tensors.values()))
    return Checkpoint(tensors, contents["record"])
