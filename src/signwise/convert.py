"""Binarize a model in one line, and report what became binary, what stayed float, and why."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.layers import BINARY_OF, DEFAULT_METHOD, BinaryLayer
from signwise.methods import Method
from signwise.text import aligned

Modules = Sequence[tuple[str, nn.Module]]

LAYERS_WITH_WEIGHTS = (nn.Linear, nn.modules.conv._ConvNd)
READS_WEIGHTS_DIRECTLY = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class ByPosition:
    """Keep layers float by their position among the linear and convolutional layers.

    Positions count in the order of execution where ``binarize_`` has an example input, otherwise in the order of
    registration.

    Args:
        positions: a name for each position, 0 for the first layer and -1 for the last.
    """

    positions: tuple[tuple[str, int], ...]


first_and_last = ByPosition((("first layer", 0), ("last layer", -1)))
last = ByPosition((("last layer", -1),))

Predicate = Callable[[nn.Module, str], bool]
Skip = Union[ByPosition, str, Predicate, Sequence[Union[ByPosition, str, Predicate]], None]
OutputScale = Union[float, Callable[[nn.Module], float], None]
ExampleInput = Union[Tensor, tuple[Any, ...], None]


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
        rows = [("layer", "kind", "weights", "became")]
        for layer in self.layers:
            became = "binary" if layer.binary else f"float: {layer.reason}"
            rows.append((layer.name, layer.kind, f"{layer.weights:,}", became))
        total = f"{self.binary_weights:,} weights are binary, {self.float_weights:,} stayed float"
        return f"{aligned(rows, left=(0, 1, 3))}\n{total}"


def binarize_(
    model: nn.Module,
    skip: Skip = first_and_last,
    method: Method = DEFAULT_METHOD,
    output_scale: OutputScale = None,
    example_input: ExampleInput = None,
) -> Report:
    """Make the linear and convolutional layers of ``model`` binary, in place.

    Parameters stay the same objects under the same names, so optimizers, hooks and checkpoints of the float model
    remain valid.

    Args:
        model: any model; a layer that is itself the model works too.
        skip: the layers that stay float: ``first_and_last``, ``last``, a name glob such as ``"head.*"``, a predicate
            ``(module, name) -> bool``, or several of these in a list; ``None`` or an empty list for none.
        method: how latents become weights; the paper's by default.
        output_scale: a constant factor on each layer's output, or a function of the layer such as ``fan_in_scale``;
            for models without normalization.
        example_input: an input of the model, or a tuple of its inputs. With one, ``first_and_last`` and ``last`` go by
            the order of execution; without, by the order in which layers are registered, and the report says so.

    Returns:
        A report on every layer that has weights.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
        >>> report = binarize_(model)
        >>> report.binary_weights, report.float_weights
        (256, 160)
    """
    reasons = _reasons_to_stay_float(model, skip, example_input)
    rows = []
    for name, module in model.named_modules():
        weight = module._parameters.get("weight")
        shape = () if weight is None or isinstance(weight, nn.UninitializedParameter) else tuple(weight.shape)
        if len(shape) < 2 and not isinstance(module, LAYERS_WITH_WEIGHTS):
            continue
        reason = reasons.get(name) or _obstacle(module)
        rows.append(LayerReport(name or "(the model)", type(module).__name__, shape, reason))
        if reason:
            continue
        if not isinstance(module, BinaryLayer):
            # Changing the class, as fully_shard does, preserves every reference, hook and parameter.
            module.__class__ = BINARY_OF[type(module)]
        assert isinstance(module, BinaryLayer)
        module.become_binary_(method, output_scale(module) if callable(output_scale) else output_scale)
    return Report(tuple(rows))


def fan_in_scale(layer: nn.Module, gain: float = 1.0) -> float:
    """sqrt(gain / fan_in): preserves the scale of activations through a layer of ±1 weights without normalization.

    Use gain 2 (He) where a ReLU follows: ``output_scale=lambda layer: fan_in_scale(layer, 2)``.

    Example:
        >>> fan_in_scale(nn.Linear(16, 3))
        0.25
    """
    return math.sqrt(gain / fan_in(layer))


def fan_in(layer: nn.Module) -> int:
    """The number of weights of one filter or neuron."""
    assert isinstance(layer, LAYERS_WITH_WEIGHTS)
    filters = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    return layer.weight.numel() // filters


def _reasons_to_stay_float(model: nn.Module, skip: Skip, example_input: ExampleInput) -> dict[str, str]:
    """Name -> why it stays float, by ``skip``; refuses modules that read weights without their layer."""
    rules = [] if skip is None else [skip] if callable(skip) or isinstance(skip, (str, ByPosition)) else list(skip)
    modules = list(model.named_modules())
    layers = [name for name, module in modules if isinstance(module, LAYERS_WITH_WEIGHTS)]
    order = " in registration order"
    if example_input is not None and any(isinstance(rule, ByPosition) for rule in rules):
        layers, order = _executed(model, example_input), ""
    reasons: dict[str, str] = {}
    for rule in rules:
        for name, reason in _matches(rule, modules, layers, order):
            reasons.setdefault(name, reason)
        if isinstance(rule, str) and not any(fnmatch.fnmatchcase(name, rule) for name, _ in modules):
            raise SignwiseError(f"skip={rule!r} matches no module of the model")

    for name, module in modules:
        if not isinstance(module, READS_WEIGHTS_DIRECTLY):
            continue
        if name not in reasons:
            raise SignwiseError(
                f"{name or 'the model'} is a {type(module).__name__}, which reads the weights of its layers directly "
                f"and would silently use latent weights; keep it float with skip={name or '*'!r}, "
                "or write it with nn.Linear"
            )
        for inner, _ in module.named_modules(prefix=name):
            reasons.setdefault(inner, reasons[name])
    return reasons


def _executed(model: nn.Module, example_input: Tensor | tuple[Any, ...]) -> list[str]:
    """The names of the layers with weights, in the order in which the forward pass first calls them."""
    called: dict[str, None] = {}
    hooks = [
        module.register_forward_pre_hook(lambda module, inputs, name=name: called.setdefault(name))
        for name, module in model.named_modules()
        if isinstance(module, LAYERS_WITH_WEIGHTS)
    ]
    modes = [(module, module.training) for module in model.modules()]
    inputs = example_input if isinstance(example_input, tuple) else (example_input,)
    try:
        # In evaluation mode, so that neither batch-norm statistics nor random numbers are touched.
        model.eval()
        with torch.no_grad():
            model(*inputs)
    finally:
        for module, mode in modes:
            module.training = mode
        for hook in hooks:
            hook.remove()
    return list(called)


def _matches(
    rule: ByPosition | str | Predicate, modules: Modules, layers: Sequence[str], order: str
) -> Iterator[tuple[str, str]]:
    if isinstance(rule, ByPosition):
        yield from ((layers[position], name + order) for name, position in rule.positions if layers)
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
    if not isinstance(module, LAYERS_WITH_WEIGHTS):
        return f"{type(module).__name__} is neither linear nor a convolution"
    if isinstance(module.weight, nn.UninitializedParameter):
        return "its shape is unknown before a first forward pass"
    if type(module) not in BINARY_OF:
        return f"{type(module).__name__} is a subclass with its own code"
    if fan_in(module) < 2:
        return "a filter with fewer than 2 weights"
    return ""
