"""Native kernels for packed layers: each layer and input shape is a program of one operation, prepared once."""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from signwise.program.operations import Weighted
from signwise.program.program import Program
from signwise.runtime import native
from signwise.runtime.session import Session

LARGEST_SHAPES = 4  # input shapes that stay prepared per layer: each holds a copy of the bits in the kernels' order


@dataclass(frozen=True, eq=False)
class Prepared:
    """A session for one layer, and the state of the tensors that it was made from.

    It holds ``scale`` and ``bias``, so that no other tensor can take their place in memory unseen. It does not hold the
    bits, whose end is the end of the entry.
    """

    session: Session[Program]
    scale: Tensor | None
    bias: Tensor | None
    states: tuple[int | Tensor, ...]


# Keyed by the tensor of bits itself, never by its address, which other bits may reuse.
_prepared: MutableMapping[Tensor, dict[Any, Prepared]] = WeakTensorKeyDictionary()
_lock = threading.Lock()


def run_native(
    layer: Callable[..., Weighted],
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
    with _lock:
        entries = _prepared.setdefault(bits, {})
        entry = entries.get(key)
        if entry is None or entry.scale is not scale or entry.bias is not bias or not _unchanged(tensors, entry.states):
            entries.pop(key, None)
            while len(entries) >= LARGEST_SHAPES:
                del entries[next(iter(entries))]
            program = _one_layer(layer, geometry, shape, bits, scale, bias)
            states = tuple(_state(tensor) for tensor in tensors)
            entries[key] = entry = Prepared(program.session(threads), scale, bias, states)
    return torch.from_numpy(entry.session(examples.detach().numpy()))


def _one_layer(
    layer: Callable[..., Weighted],
    geometry: tuple[tuple[str, Any], ...],
    shape: tuple[int, ...],
    bits: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
) -> Program:
    arrays = {"weight": bits.numpy()}
    for name, tensor in (("scale", scale), ("bias", bias)):
        if tensor is not None:
            arrays[name] = tensor.detach().float().numpy()
    operation = layer(inputs=(0,), bits=1, **{name: name for name in arrays}, **dict(geometry))
    return Program(input_shape=shape, ops=(operation,), tensors=arrays, output=1)


def _state(tensor: Tensor) -> int | Tensor:
    # Tensors made in inference mode count no changes, so a copy of their numbers stands in for the version.
    return tensor.clone() if tensor.is_inference() else tensor._version


def _unchanged(tensors: Sequence[Tensor], states: Sequence[int | Tensor]) -> bool:
    for tensor, state in zip(tensors, states, strict=True):
        if isinstance(state, Tensor) != tensor.is_inference():
            return False
        if not (torch.equal(tensor, state) if isinstance(state, Tensor) else tensor._version == state):
            return False
    return True
