"""``pack_`` turns binary layers into packed ones, in place; ``load_packed_`` restores them in a new process."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from signwise.attention import opened_attention
from signwise.errors import SignwiseError
from signwise.fusing import allow_fusing_
from signwise.layers import BinaryLayer, binary_layers, float_class, float_kind
from signwise.methods import Deployed
from signwise.packing.layers import (
    PackedConv1d,
    PackedConv2d,
    PackedConv3d,
    PackedConvTranspose1d,
    PackedConvTranspose2d,
    PackedConvTranspose3d,
    PackedLayer,
    PackedLinear,
    PackedTransposedLinear,
)
from signwise.packing.operators import pack_signs

# The packed class of every class of torch.nn; of another, packed_class.
PACKED_OF: dict[type[nn.Module], type[PackedLayer]] = {
    nn.Linear: PackedLinear,
    nn.Conv1d: PackedConv1d,
    nn.Conv2d: PackedConv2d,
    nn.Conv3d: PackedConv3d,
    nn.ConvTranspose1d: PackedConvTranspose1d,
    nn.ConvTranspose2d: PackedConvTranspose2d,
    nn.ConvTranspose3d: PackedConvTranspose3d,
}


def packed_class(kind: type[nn.Module]) -> type[PackedLayer] | None:
    """The packed class of a float or binary class; ``None`` for a class with arithmetic of its own."""
    plain = float_class(kind) if issubclass(kind, BinaryLayer) else kind
    plain = None if plain is None else float_kind(plain)
    # A class that is not of torch.nn is GPT-2's Conv1D, a linear layer that stores its weight transposed.
    return None if plain is None else PACKED_OF.get(plain, PackedTransposedLinear)


@dataclass(frozen=True)
class PackReport:
    """What was packed; printing it gives one line."""

    layers: tuple[str, ...]
    weights: int
    bytes_before: int
    bytes_packed: int

    def __str__(self) -> str:
        layers = "1 layer" if len(self.layers) == 1 else f"{len(self.layers)} layers"
        sizes = f"{self.bytes_before:,} bytes became {self.bytes_packed:,}"
        return f"packed {layers} with {self.weights:,} weights: {sizes}"


def deployed_layers(model: nn.Module, verb: str) -> list[tuple[str, BinaryLayer, Deployed]]:
    """The binary layers of a model with their names, signs and scales; a layer without them is refused by name.

    Args:
        model: any model.
        verb: the caller's name, for messages.
    """
    found, unfinished = [], []
    for name, layer in binary_layers(model):
        where = name or "the model"
        if float_class(type(layer)) is None:
            raise SignwiseError(f"{where} is a {type(layer).__name__} with code of its own, which {verb} would lose")
        if layer.weight.is_meta:
            raise SignwiseError(f"{where} is on the meta device and has no values: load a state dict before {verb}")
        try:
            found.append((name, layer, layer.deployed()))
        except SignwiseError as error:
            raise SignwiseError(f"{where}: {error}") from None
        if layer.method.blends_latent and float(layer.alpha) < 1:
            unfinished.append(f"{where} (α = {float(layer.alpha):.3g})")
    if unfinished:
        warnings.warn(
            f"{verb}: α is below 1 in {_listed(unfinished)}, so the model was trained with other weights than the "
            "binary ones it deploys: train to the end of the schedule, or with a shorter one",
            stacklevel=3,
        )
    return found


def pack_(model: nn.Module) -> PackReport:
    """Turn every binary layer into a packed one, in place, and the model into evaluation mode.

    The state dict then holds one bit per weight; :func:`load_packed_` loads it into a newly built model.

    Args:
        model: any model; layers that are not binary stay as they are.

    Returns:
        A report of the layers and bytes.

    Raises:
        SignwiseError: the model has no binary layer, or one without finite values; nothing is packed then.

    Example:
        >>> import torch, signwise as sw
        >>> model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        >>> _ = sw.binarize_(model, skip=sw.last)
        >>> print(pack_(model))
        packed 1 layer with 1,024 weights: 4,096 bytes became 128
        >>> model(torch.zeros(1, 16)).shape
        torch.Size([1, 4])
    """
    # All layers are checked before any is changed: a model is packed as a whole or not at all.
    layers = deployed_layers(model, "pack_")
    if not layers and not any(isinstance(module, PackedLayer) for module in model.modules()):
        raise SignwiseError("pack_ found no binary layer: call signwise.binarize_(model) and train before pack_")
    weights = bytes_before = bytes_packed = 0
    for _, layer, deployed in layers:
        bits = _bits(layer, deployed.signs)
        weights += layer.weight.numel()
        bytes_before += layer.weight.nbytes
        bytes_packed += bits.nbytes
        become_packed_(layer, bits, None if deployed.scale is None else deployed.scale.detach())
    allow_fusing_(model)
    model.eval()
    return PackReport(tuple(name for name, _, _ in layers), weights, bytes_before, bytes_packed)


def load_packed_(model: nn.Module, state: Mapping[str, Tensor] | str | PathLike[str]) -> PackReport:
    """Load the state dict of a packed model into a newly built one, in place, and set evaluation mode.

    Build the model as for training, without ``binarize_`` and ``pack_``. Each layer for which ``state`` holds ``bits``
    becomes a packed layer; all others load as usual. Everything is checked first: on error the model is unchanged.

    Args:
        model: the float model, or a binary one; it may be on the ``meta`` device.
        state: the state dict of a packed model, or the path of a ``.safetensors`` file that holds one.

    Returns:
        A report of the layers that became packed, and their bytes.

    Example:
        >>> import torch, signwise as sw
        >>> def build():
        ...     return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
        >>> model = build()
        >>> _ = sw.binarize_(model, skip=sw.last), pack_(model)
        >>> again = build()
        >>> print(load_packed_(again, model.state_dict()))
        packed 1 layer with 1,024 weights: 4,096 bytes became 128
        >>> bool(torch.equal(again(torch.ones(1, 16)), model(torch.ones(1, 16))))
        True
    """
    stored = _read(state) if isinstance(state, (str, PathLike)) else state
    with opened_attention(model):
        return _load_packed_(model, stored)


def _load_packed_(model: nn.Module, stored: Mapping[str, Tensor]) -> PackReport:
    layers = dict(_layers_to_pack(model, stored))
    _check_keys(_expected_shapes(model, stored, layers), stored)
    weights = bytes_before = bytes_packed = 0
    is_meta = any(tensor.is_meta for tensor in model.state_dict().values())
    for prefix, layer in layers.items():
        if isinstance(layer, PackedLayer):  # from the start, or under another of its names
            continue
        weight: Any = layer.weight
        device = "cpu" if weight.is_meta else weight.device
        bits, scale = stored[f"{prefix}bits"].to(device, copy=True), stored.get(f"{prefix}scale")
        weights += weight.numel()
        bytes_before += weight.nbytes
        bytes_packed += bits.nbytes
        become_packed_(layer, bits, None if scale is None else scale.to(device, copy=True))
    model.load_state_dict(stored, strict=True, assign=is_meta)
    allow_fusing_(model)
    model.eval()
    return PackReport(tuple(prefix.rstrip(".") for prefix in layers), weights, bytes_before, bytes_packed)


def _bits(layer: BinaryLayer, signs: Tensor) -> Tensor:
    transposed = packed_class(type(layer)) is PackedTransposedLinear
    return pack_signs(layer.filters_first(signs).contiguous() if transposed else signs)


def become_packed_(layer: nn.Module, bits: Tensor, scale: Tensor | None) -> None:
    """Turn a float or binary layer into the packed one of its class, with these bits and scales."""
    packed: type[Any] | None = packed_class(type(layer))
    assert packed is not None
    # As binarize_ does: every hook and every reference to the layer stays valid.
    layer.__class__ = packed
    assert isinstance(layer, PackedLayer)
    layer.become_packed_(bits, scale)


def _read(path: str | PathLike[str]) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if Path(path).suffix != ".safetensors":
        way_out = "pass the dict that torch.load(path, weights_only=True) returns"
        raise SignwiseError(f"load_packed_ reads .safetensors files, got {fspath(path)!r}: {way_out}")
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SignwiseError(f"cannot read {fspath(path)!r}: {error}") from None


def _layers_to_pack(model: nn.Module, stored: Mapping[str, Tensor]) -> Iterator[tuple[str, nn.Module]]:
    """The layers for which the state dict holds bits, by the prefix of their keys."""
    modules = dict(model.named_modules(remove_duplicate=False))
    own = model.state_dict()
    for key in stored:
        if key != "bits" and not key.endswith(".bits"):
            continue
        prefix = key.removesuffix("bits")
        module = modules.get(prefix.rstrip("."))
        if module is not None and (isinstance(module, PackedLayer) or packed_class(type(module)) is not None):
            if stored[key].dtype != torch.uint8:
                raise SignwiseError(f"{key} must hold bits in torch.uint8, got {stored[key].dtype}")
            yield prefix, module
        elif module is None:
            raise SignwiseError(f"the state dict holds {key}, but the model has no layer {prefix.rstrip('.')!r}")
        elif key not in own:
            raise SignwiseError(f"{key} belongs to a packed layer, but the model has a {type(module).__name__} there")


def _expected_shapes(
    model: nn.Module, stored: Mapping[str, Tensor], layers: Mapping[str, nn.Module]
) -> dict[str, tuple[int, ...]]:
    """The keys and shapes of the model's state dict after its layers are packed."""
    tensors = model.state_dict(keep_vars=True)
    replaced = {id(layer.weight) for layer in layers.values() if not isinstance(layer, PackedLayer)}
    expected = {key: tuple(tensor.shape) for key, tensor in tensors.items() if id(tensor) not in replaced}
    for prefix, layer in layers.items():
        if not isinstance(layer, PackedLayer):
            weight: Any = layer.weight
            rows, *row = weight.shape
            if packed_class(type(layer)) is PackedTransposedLinear:
                rows, row = row[0], [rows]
            expected[f"{prefix}bits"] = (rows, (math.prod(row) + 7) // 8)
            if f"{prefix}scale" in stored:
                names = ("out_features", "out_channels", "nf")
                filters: Any = next(getattr(layer, name) for name in names if hasattr(layer, name))
                # One scale per filter, or as many per filter as its inputs have blocks.
                expected[f"{prefix}scale"] = (filters, *stored[f"{prefix}scale"].shape[1:2])
    return expected


def _check_keys(expected: Mapping[str, tuple[int, ...]], stored: Mapping[str, Tensor]) -> None:
    if missing := [key for key in expected if key not in stored]:
        raise SignwiseError(f"the state dict lacks {_listed(missing)}: was it saved from a packed model of this kind?")
    if unexpected := [key for key in stored if key not in expected]:
        raise SignwiseError(f"the state dict holds {_listed(unexpected)}, which the model does not have")
    for key, shape in expected.items():
        if tuple(stored[key].shape) != shape:
            found = list(stored[key].shape)
            raise SignwiseError(f"{key} has shape {found} in the state dict, but the model needs {list(shape)}")


def _listed(keys: list[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
