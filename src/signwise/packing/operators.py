"""``torch.ops.signwise``: layers with packed weights as PyTorch operators.

``torch.compile`` and ``torch.export`` do not look inside and learn the result's shape from the fake implementations.
float32 tensors on the CPU go to the native kernels: each layer and input shape is a program of one operation, prepared
once. Everything else unpacks the bits and uses PyTorch's own layers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from signwise.errors import SignwiseError
from signwise.methods.method import per_weight
from signwise.program import operations as ops
from signwise.program.program import Program
from signwise.runtime import native
from signwise.runtime.session import Session

LARGEST_SHAPES = 4  # input shapes that stay prepared per layer: each holds a copy of the bits in the kernels' order


@torch.library.custom_op(
    "signwise::packed_linear",
    mutates_args=(),
    schema="(Tensor input, Tensor bits, Tensor? scale, Tensor? bias) -> Tensor",
)
def packed_linear(input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """scale * (signs @ input) + bias, on the last dimension of ``input``.

    A scale of shape (outputs, blocks) belongs to the weights: one per output and block of inputs.
    """
    out_features, in_features = bits.shape[0], input.shape[-1]
    blocks = scale.shape[1] if scale is not None and scale.dim() == 2 else 1
    rows = input.reshape(-1, in_features)
    geometry = (("out_features", out_features), ("in_features", in_features), ("blocks", blocks))
    result = run_native(ops.Dense, geometry, rows, bits, scale, bias)
    if result is not None:
        # Not a view: a function in place, such as ReLU(inplace=True), may come next while gradients are on.
        return torch.from_numpy(result.numpy().reshape(*input.shape[:-1], out_features))
    signs = unpack_signs(bits, (out_features, in_features), input.dtype)
    if scale is not None and blocks > 1:
        return F.linear(input, signs * per_weight(scale.to(input.dtype), signs), bias)
    return _finish(F.linear(input, signs), scale, bias, dimension=-1)


@torch.library.custom_op(
    "signwise::packed_conv2d",
    mutates_args=(),
    schema="(Tensor input, Tensor bits, Tensor? scale, Tensor? bias, int[] kernel, int[] stride, int[] padding, "
    "int[] dilation, int groups) -> Tensor",
)
def packed_conv2d(
    input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None, kernel: list[int], stride: list[int],
    padding: list[int], dilation: list[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution of ``(batch, channels, height, width)``; ``padding`` is top, left, bottom, right."""
    top, left, bottom, right = padding
    geometry = (
        ("out_channels", bits.shape[0]),
        ("kernel", tuple(kernel)),
        ("stride", tuple(stride)),
        ("padding", tuple(padding)),
        ("dilation", tuple(dilation)),
        ("groups", groups),
    )
    result = run_native(ops.Conv, geometry, input, bits, scale, bias)
    if result is not None:
        return result
    weight = unpack_signs(bits, (bits.shape[0], input.shape[1] // groups, *kernel), input.dtype)
    total = F.conv2d(F.pad(input, (left, right, top, bottom)), weight, None, stride, 0, dilation, groups)
    return _finish(total, scale, bias, dimension=1)


def _finish(total: Tensor, scale: Tensor | None, bias: Tensor | None, dimension: int) -> Tensor:
    shape = [1] * total.dim()
    shape[dimension] = -1
    if scale is not None:
        total = total * scale.to(total.dtype).view(shape)
    return total if bias is None else total + bias.to(total.dtype).view(shape)


@packed_linear.register_fake
def _(input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    return input.new_empty((*input.shape[:-1], bits.shape[0]))


@packed_conv2d.register_fake
def _(
    input: Tensor, bits: Tensor, scale: Tensor | None, bias: Tensor | None, kernel: list[int], stride: list[int],
    padding: list[int], dilation: list[int], groups: int,
) -> Tensor:  # fmt: skip
    top, left, bottom, right = padding
    padded = (input.shape[2] + top + bottom, input.shape[3] + left + right)
    sizes = [ops.positions(*along) for along in zip(padded, kernel, stride, dilation, strict=True)]
    return input.new_empty((input.shape[0], bits.shape[0], *sizes))


def _refuse_backward(context: object, gradient: Tensor) -> NoReturn:
    raise SignwiseError("packed layers are for inference and have no gradient; train the model before pack_")


packed_linear.register_autograd(_refuse_backward)
packed_conv2d.register_autograd(_refuse_backward)


# The native kernels of each layer


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
    layer: Callable[..., ops.Weighted],
    geometry: tuple[tuple[str, Any], ...],
    shape: tuple[int, ...],
    bits: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
) -> Program:
    arrays = {"weight": bits.numpy()}
    if scale is not None:
        in_blocks = scale.dim() == 2 and scale.shape[1] > 1
        arrays["block_scale" if in_blocks else "scale"] = (
            scale.detach().float().reshape(scale.shape if in_blocks else -1).numpy()
        )
    if bias is not None:
        arrays["bias"] = bias.detach().float().numpy()
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


# Signs as bits, for tensors on any device, in the layout of signwise.program.operations.layers


def pack_signs(signs: Tensor) -> Tensor:
    """Rows of -1 and +1 to rows of bytes; see :func:`signwise.program.operations.pack_signs`.

    Args:
        signs: ``(rows, ...)``; everything after the first dimension is one row.

    Returns:
        uint8 of shape ``(rows, ceil(n / 8))`` on the same device, where n is the length of a row.

    Example:
        >>> pack_signs(torch.tensor([[1, -1, -1, 1, 1, -1, -1, -1, 1]]))
        tensor([[25,  1]], dtype=torch.uint8)
    """
    return torch.from_numpy(ops.pack_signs(signs.detach().to("cpu", torch.int8).numpy())).to(signs.device)


def unpack_signs(bits: Tensor, shape: torch.Size | tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """The inverse of :func:`pack_signs`.

    Args:
        bits: uint8 of shape ``(rows, ceil(n / 8))``.
        shape: ``(rows, ...)``, the shape of the signs.
        dtype: of the result.

    Returns:
        -1 and +1 in ``shape``.

    Example:
        >>> unpack_signs(torch.tensor([[25, 1]], dtype=torch.uint8), (1, 3, 3))[0]
        tensor([[ 1., -1., -1.],
                [ 1.,  1., -1.],
                [-1., -1.,  1.]])
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    ones = (bits.unsqueeze(2) >> places) & 1  # (rows, bytes) -> (rows, bytes, 8)
    terms = torch.Size(shape[1:]).numel()
    return (ones.flatten(1)[:, :terms].to(dtype) * 2 - 1).reshape(shape)
