"""Native kernels for packed layers: each layer and input shape is a program of one operation, prepared once."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from signwise.program import operations as ops
from signwise.program.program import Program
from signwise.runtime import native
from signwise.runtime.session import Session

LARGEST_SHAPES = 4  # input shapes of one layer that stay prepared: each holds the bits in the kernels' own order


@dataclass(frozen=True, eq=False)
class Plan:
    """A prepared program, and the state of the tensors that it was made from.

    ``scale`` and ``bias`` are held, so that no other tensor can take their place in memory unseen; the bits are not,
    since a plan goes when they go.
    """

    model: Session
    scale: Tensor | None
    bias: Tensor | None
    versions: tuple[int, ...]


# By the tensor of bits itself, never its address, which may be used again for other bits.
_plans: MutableMapping[Tensor, dict[Any, Plan]] = WeakTensorKeyDictionary()
_lock = threading.Lock()


def run_native(
    layer: Callable[..., ops.Weighted],
    geometry: tuple[tuple[str, Any], ...],
    examples: Tensor,
    bits: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor | None:
    """Run one layer with the native kernels, or return ``None`` where they cannot take these tensors.

    Args:
        layer: the kind of operation.
        geometry: its attributes besides the tensors, with their names.
        examples: a batch.
        bits, scale, bias: the layer's tensors.
    """
    tensors = [tensor for tensor in (bits, scale, bias) if tensor is not None]
    on_cpu = all(tensor.device.type == "cpu" for tensor in (examples, *tensors))
    if examples.dtype != torch.float32 or not on_cpu or native.library() is None:
        return None
    shape, threads = tuple(examples.shape[1:]), torch.get_num_threads()
    key = (geometry, shape, threads)
    versions = tuple(_version(tensor) for tensor in tensors)
    with _lock:
        plans = _plans.setdefault(bits, {})
        plan = plans.get(key)
        if plan is None or plan.versions != versions or plan.scale is not scale or plan.bias is not bias:
            named = {"weight": bits, "scale": scale, "bias": bias}
            arrays = {name: tensor.detach().float().numpy() for name, tensor in named.items() if tensor is not None}
            arrays["weight"] = bits.numpy()
            names = {name: name for name in arrays}
            program = Program(
                input_shape=shape,
                ops=(layer(inputs=(0,), bits=1, **names, **dict(geometry)),),
                tensors=arrays,
                output=1,
            )
            plans.pop(key, None)
            while len(plans) >= LARGEST_SHAPES:
                del plans[next(iter(plans))]
            plans[key] = plan = Plan(Session(program, threads), scale, bias, versions)
    return torch.from_numpy(plan.model(examples.detach().numpy()))


def _version(tensor: Tensor) -> int:
    # Tensors made in inference mode count no changes, and refuse to be asked.
    return 0 if tensor.is_inference() else tensor._version
