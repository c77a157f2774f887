"""Put binary weights on a model in one line, and say what became binary, what stayed float, and why."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Union

from torch import nn

from signwise.errors import SignwiseError
from signwise.layers import BINARY_OF, PAPER, BinaryLayer, binary_layers
from signwise.methods import Method

Modules = Sequence[tuple[str, nn.Module]]

FLOAT_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)
READS_WEIGHTS_DIRECTLY = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class ByPosition:
    """Keep layers float by their place among the linear and convolutional layers, in order of registration."""

    reason: str
    positions: tuple[int, ...]


first_and_last = ByPosition("first or last layer", (0, -1))
last = ByPosition("last layer", (-1,))

Predicate = Callable[[nn.Module, str], bool]
Skip = Union[ByPosition, str, Predicate, Sequence[Union[ByPosition, str, Predicate]], None]
OutputScale = Union[float, Callable[[nn.Module], float], None]


@dataclass(frozen=True)
class LayerReport:
    """One layer of the report: ``reason`` is empty for a layer that became binary."""

    name: str
    kind: str
    shape: tuple[int, ...]
    reason: str

    @property
    def binary(self) -> bool:
        return not self.reason

    @property
    def weights(self) -> int:
        return math.prod(self.shape) if self.shape else 0


@dataclass(frozen=True)
class Report:
    """What ``binarize_`` did, layer by layer; printing it gives a table."""

    layers: tuple[LayerReport, ...]

    @property
    def binary_weights(self) -> int:
        return sum(layer.weights for layer in self.layers if layer.binary)

    @property
    def float_weights(self) -> int:
        return sum(layer.weights for layer in self.layers if not layer.binary)

    def __str__(self) -> str:
        width = max([len(layer.name) for layer in self.layers] + [len("layer")])
        kind = max([len(layer.kind) for layer in self.layers] + [len("kind")])
        lines = [f"{'layer':{width}}  {'kind':{kind}}  {'weights':>12}  became"]
        for layer in self.layers:
            became = "binary" if layer.binary else f"float: {layer.reason}"
            lines.append(f"{layer.name:{width}}  {layer.kind:{kind}}  {layer.weights:12,}  {became}")
        lines.append(f"{self.binary_weights:,} weights are binary, {self.float_weights:,} stayed float")
        return "\n".join(lines)


def binarize_(
    model: nn.Module,
    skip: Skip = first_and_last,
    method: Method = PAPER,
    output_scale: OutputScale = None,
) -> Report:
    """Turn the linear and convolutional layers of ``model`` into binary ones, in place.

    Parameters stay the same objects under the same names: optimizers, hooks and checkpoints of the float model go on.

    Args:
        model: any model; a layer that is itself the model works too.
        skip: what stays float: ``first_and_last``, ``last``, a name glob such as ``"head.*"``, a predicate
            ``(module, name) -> bool``, or several of these in a list; ``None`` or an empty list for nothing.
        method: how latents become weights; the paper's by default.
        output_scale: a constant factor on each layer's output, or a function of the layer such as ``fan_in_scale``;
            for networks without normalization.

    Returns:
        A report with every layer that has weights.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
        >>> report = binarize_(model)
        >>> report.binary_weights, report.float_weights
        (256, 160)
    """
    reasons = _reasons_to_stay_float(model, skip)
    rows = []
    for name, module in model.named_modules():
        weight = module._parameters.get("weight")
        shape = () if weight is None or isinstance(weight, nn.UninitializedParameter) else tuple(weight.shape)
        if len(shape) < 2 and not isinstance(module, FLOAT_LAYERS):
            continue
        reason = reasons.get(name) or _obstacle(module)
        rows.append(LayerReport(name or "(the model)", type(module).__name__, shape, reason))
        if reason:
            continue
        if not isinstance(module, BinaryLayer):
            # Changing the class, as fully_shard does, keeps every reference, hook and parameter where it is.
            module.__class__ = BINARY_OF[type(module)]
        assert isinstance(module, BinaryLayer)
        module.become_binary_(method, output_scale(module) if callable(output_scale) else output_scale)
    return Report(tuple(rows))


def fan_in_scale(layer: nn.Module, gain: float = 1.0) -> float:
    """sqrt(gain / fan_in): keeps the size of activations through a layer of ±1 weights without normalization.

    Use gain 2 (He) where a ReLU follows: ``output_scale=lambda layer: fan_in_scale(layer, 2)``.

    Example:
        >>> fan_in_scale(nn.Linear(16, 3))
        0.25
    """
    return math.sqrt(gain / fan_in(layer))


def fan_in(layer: nn.Module) -> int:
    """The number of weights of one filter or neuron."""
    assert isinstance(layer, FLOAT_LAYERS)
    filters = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    return layer.weight.numel() // filters


def param_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: weights of two or more dimensions with decay; biases and normalization without.

    Example:
        >>> groups = param_groups(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), weight_decay=1e-3)
        >>> [(len(group["params"]), group["weight_decay"]) for group in groups]
        [(1, 0.001), (3, 0.0)]
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in parameters if parameter.dim() >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if parameter.dim() < 2], "weight_decay": 0.0},
    ]


def after_step_(model: nn.Module) -> None:
    """Let every layer's method do what it does after an optimizer step (clipping, say); nothing for the paper's."""
    for _, layer in binary_layers(model):
        layer.after_step_(0.0)


@contextmanager
def relaxed(model: nn.Module) -> Iterator[nn.Module]:
    """Evaluate with the weights of training, w_α, instead of sign(φ) inside the block."""
    layers = [layer for _, layer in binary_layers(model)]
    before = [layer.use_relaxed for layer in layers]
    try:
        for layer in layers:
            layer.use_relaxed = True
        yield model
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.use_relaxed = value


def _reasons_to_stay_float(model: nn.Module, skip: Skip) -> dict[str, str]:
    """Name -> why it stays float, for what ``skip`` asks for; refuses modules that would use latents unseen."""
    rules = [] if skip is None else [skip] if callable(skip) or isinstance(skip, (str, ByPosition)) else list(skip)
    modules = list(model.named_modules())
    layers: Modules = [(name, module) for name, module in modules if isinstance(module, FLOAT_LAYERS)]
    reasons: dict[str, str] = {}
    for rule in rules:
        for name, reason in _matches(rule, modules, layers):
            reasons.setdefault(name, reason)
        if isinstance(rule, str) and not any(fnmatch.fnmatchcase(name, rule) for name, _ in modules):
            raise SignwiseError(f"skip={rule!r} matches no module of the model")

    for name, module in modules:
        if not isinstance(module, READS_WEIGHTS_DIRECTLY):
            continue
        if name not in reasons:
            raise SignwiseError(
                f"{name or 'the model'} is a {type(module).__name__}, which reads its weights behind its layers' backs "
                f"and would silently use latent weights; keep it float with skip={name or '*'!r}, "
                "or write it with nn.Linear"
            )
        for inner, _ in module.named_modules(prefix=name):
            reasons.setdefault(inner, reasons[name])
    return reasons


def _matches(rule: ByPosition | str | Predicate, modules: Modules, layers: Modules) -> Iterator[tuple[str, str]]:
    if isinstance(rule, ByPosition):
        yield from ((layers[position][0], rule.reason) for position in rule.positions if layers)
    elif isinstance(rule, str):
        yield from ((name, f"skip={rule!r}") for name, _ in modules if fnmatch.fnmatchcase(name, rule))
    elif callable(rule):
        called = getattr(rule, "__name__", type(rule).__name__)
        yield from ((name, f"skip={called}") for name, module in modules if rule(module, name))
    else:
        raise SignwiseError(f"skip takes names, predicates, first_and_last or last, got {rule!r}")


def _obstacle(module: nn.Module) -> str:
    """Why a module with weights cannot become binary, or an empty string."""
    if isinstance(module, BinaryLayer):
        return ""
    if not isinstance(module, FLOAT_LAYERS):
        return f"{type(module).__name__} is neither linear nor a convolution"
    if isinstance(module.weight, nn.UninitializedParameter):
        return "its shape is not known before a first forward pass"
    if type(module) not in BINARY_OF:
        return f"{type(module).__name__} is a subclass with code of its own"
    if fan_in(module) < 2:
        return "a filter with fewer than 2 weights"
    return ""
