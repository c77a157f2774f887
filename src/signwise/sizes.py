"""How many bytes a model takes now, and how many in its packed file, layer by layer.

With an example input, ``summary`` compiles the model and counts the bytes of the file. Without one it estimates them:

    binary layer      filters x ceil(weights per filter / 8) bytes, and 4 bytes per filter for a scale and for a bias
    float layer       4 bytes per weight, and 4 bytes per filter for a bias
    batch norm        8 bytes per channel: it becomes one factor and one offset

A batch norm takes the scale and bias of the layer before it into its own. The estimate assumes that modules run in the
order in which they are registered, and is wrong where they do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from signwise.compiler import Examples, compile  # noqa: A004
from signwise.layers import BINARY_OF, BinaryLayer
from signwise.packing.layers import PackedLayer
from signwise.text import aligned

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True)
class LayerSize:
    """One layer of the summary.

    Args:
        name, kind: its path in the model and its class.
        shape: of its weight.
        parameters: of the weight, the bias and everything else that is trained.
        bits: per weight in the packed file.
        bytes_now: of its parameters and buffers.
        bytes_packed: of its tensors in the packed file; 0 where another layer has absorbed them.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    bits: int
    bytes_now: int
    bytes_packed: int


@dataclass(frozen=True)
class Summary:
    """The sizes of a model's layers; printing it gives a table.

    Args:
        layers: one row per module with tensors.
        file_bytes: the size of the ``.sw`` file with its header, or ``None`` where ``bytes_packed`` is an estimate.
    """

    layers: tuple[LayerSize, ...]
    file_bytes: int | None = None

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def binary_weights(self) -> int:
        # A binary layer's bias stays float.
        return sum(math.prod(layer.shape) for layer in self.layers if layer.bits == 1)

    @property
    def bytes_now(self) -> int:
        return sum(layer.bytes_now for layer in self.layers)

    @property
    def bytes_packed(self) -> int:
        """The bytes of all tensors in the packed file, its header aside."""
        return sum(layer.bytes_packed for layer in self.layers)

    def _ratio(self, size: int) -> str:
        if any(layer.kind.startswith("Packed") for layer in self.layers):
            return "they are packed already"
        return f"{self.bytes_now / max(size, 1):.1f} times smaller"

    def __str__(self) -> str:
        total = LayerSize("total", "", (), self.parameters, 0, self.bytes_now, self.bytes_packed)
        packed = "packed (estimate)" if self.file_bytes is None else "packed"
        rows = [("layer", "kind", "shape", "parameters", "bits", "bytes now", packed)]
        for layer in (*self.layers, total):
            shape = "x".join(map(str, layer.shape))
            numbers = (
                f"{layer.parameters:,}",
                str(layer.bits or ""),
                f"{layer.bytes_now:,}",
                f"{layer.bytes_packed:,}",
            )
            rows.append((layer.name, layer.kind, shape, *numbers))
        size = self.bytes_packed if self.file_bytes is None else self.file_bytes
        lines = [
            aligned(rows, left=(0, 1, 2)),
            f"{self.binary_weights:,} of {self.parameters:,} parameters take one bit: " + self._ratio(size),
        ]
        if self.file_bytes is None:
            lines.append(
                "Estimated from the order of registration; summary(model, example_input) counts the real bytes."
            )
        else:
            lines.append(
                f"The file takes {size:,} bytes: tensors {self.bytes_packed:,}, header {size - self.bytes_packed:,}."
            )
        return "\n".join(lines)


def summary(model: nn.Module, example_input: Examples | None = None) -> Summary:
    """Shape, bits and bytes of every layer, now and packed.

    Args:
        model: any model; with ``example_input``, one that ``compile`` takes.
        example_input: one batch of the right shape. The packed bytes are then those of the compiled program, whatever
            the order in which modules are registered; without it they are an estimate, and the table says so.

    Example:
        >>> import torch
        >>> from signwise.convert import binarize_
        >>> model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 10))
        >>> _ = binarize_(model, skip="1")
        >>> sizes = summary(model, torch.zeros(1, 64))
        >>> sizes.bytes_now, sizes.bytes_packed
        (19240, 3624)
    """
    if example_input is not None:
        return _counted(model, example_input)
    # Layers without tensors do not come between a layer and its norm.
    owners = [(name, module) for name, module in model.named_modules() if _own_tensors(module)]
    followers = [module for _, module in owners[1:]] + [None]
    seen: set[int] = set()
    return Summary(
        tuple(
            _layer_size(name, module, _estimate(module, follower), seen)
            for (name, module), follower in zip(owners, followers, strict=True)
        )
    )


def _counted(model: nn.Module, example_input: Examples) -> Summary:
    program = compile(model, example_input)
    packed: dict[str, int] = {}
    seen: set[int] = set()
    for row in program.rows():
        packed[row.layer] = packed.get(row.layer, 0) + row.bytes
    layers = [
        _layer_size(name, module, packed.pop(name, 0), seen)
        for name, module in model.named_modules()
        if _own_tensors(module)
    ]
    # Arithmetic outside of modules with tensors, such as a constant factor in forward, has tensors in the file too.
    layers += [LayerSize(name, "(in forward)", (), 0, 0, 0, size) for name, size in packed.items() if size]
    return Summary(tuple(layers), len(program.encode()))


def _layer_size(name: str, module: nn.Module, bytes_packed: int, seen: set[int]) -> LayerSize:
    """One row; a tensor that an earlier module shares (it is in ``seen``) counts there."""
    tensors = _own_tensors(module)
    counted = [tensor for tensor in tensors.values() if id(tensor) not in seen]
    seen.update(map(id, counted))
    shape: tuple[int, ...] = tuple(tensors["weight"].shape) if "weight" in tensors else ()
    parameters = sum(tensor.numel() for tensor in counted if isinstance(tensor, nn.Parameter))
    if isinstance(module, _NORMS):
        shape = (module.num_features,)
    elif isinstance(module, PackedLayer):
        weight: Tensor = module.weight  # type: ignore[assignment]
        shape = tuple(weight.shape)
        parameters = math.prod(shape) + sum(tensor.numel() for name, tensor in tensors.items() if name == "bias")
    return LayerSize(
        name=name or "(the model)",
        kind=type(module).__name__,
        shape=shape,
        parameters=parameters,
        bits=1 if isinstance(module, (BinaryLayer, PackedLayer)) else 32,
        bytes_now=sum(tensor.numel() * tensor.element_size() for tensor in counted),
        bytes_packed=bytes_packed,
    )


def _estimate(module: nn.Module, follower: nn.Module | None) -> int:
    """The bytes of a module in the file if ``follower`` runs next."""
    if isinstance(module, _NORMS):
        return 8 * module.num_features
    if isinstance(module, PackedLayer):
        absorbed = isinstance(follower, _NORMS) and follower.num_features == len(module.bits)
        vectors = 0 if absorbed else sum(name in ("scale", "bias") for name in _own_tensors(module))
        return module.bits.numel() + 4 * len(module.bits) * vectors
    if not isinstance(module, tuple(BINARY_OF)):
        return 4 * sum(tensor.numel() for tensor in _own_tensors(module).values() if isinstance(tensor, nn.Parameter))
    weight: nn.Parameter = module.weight  # type: ignore[assignment]
    filters = module.out_features if isinstance(module, nn.Linear) else module.out_channels
    assert isinstance(filters, int)
    absorbed = isinstance(follower, _NORMS) and follower.num_features == filters
    vectors = 0 if absorbed or module.bias is None else 1
    weight_bytes = 4 * weight.numel()
    if isinstance(module, BinaryLayer):
        weight_bytes = filters * -(-weight.numel() // filters // 8)
        vectors += 0 if absorbed or module.deployed().scale is None else 1
    return weight_bytes + 4 * filters * vectors


def _own_tensors(module: nn.Module) -> dict[str, nn.Parameter]:
    """The tensors that this module itself, not one inside it, puts into the state dict."""
    prefixed = module.state_dict(keep_vars=True)
    return {name: tensor for name, tensor in prefixed.items() if "." not in name}
