"""Binarize a model in one line, and report what became binary, what stayed float, and why."""

from __future__ import annotations

import fnmatch
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Union

from torch import nn
from torch.nn.utils import parametrize

from signwise.attention import MultiheadAttention, opened_attention
from signwise.errors import SignwiseError
from signwise.fusing import refuse_fusing_
from signwise.layers import DEFAULT_METHOD, BinaryLayer, binary_class, float_kind
from signwise.methods import GroupTransform, Method
from signwise.observe import ExampleInput, Observed, observe
from signwise.text import aligned

Modules = Sequence[tuple[str, nn.Module]]

LAYERS_WITH_WEIGHTS = (nn.Linear, nn.modules.conv._ConvNd)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
READS_WEIGHTS_DIRECTLY = (nn.MultiheadAttention, nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True)
class ByPosition:
    """Keep layers float by their position among the linear and convolutional layers.

    Positions count in the order of execution where ``binarize_`` has an example input, otherwise in the order of
    registration. An embedding counts as the first layer where it comes first. With an example input every layer that
    reads an input of the model is a first layer, such as both towers' in a model of images and text.

    Args:
        positions: a name for each position, 0 for the first layer and -1 for the last.
    """

    positions: tuple[tuple[str, int], ...]


first_and_last = ByPosition((("first layer", 0), ("last layer", -1)))
last = ByPosition((("last layer", -1),))

Predicate = Callable[[nn.Module, str], bool]
Skip = Union[ByPosition, str, Predicate, Sequence[Union[ByPosition, str, Predicate]], None]
OutputScale = Union[float, Callable[[nn.Module], float], None]

SCALED_METHOD = GroupTransform(scale="mean")  # for layers that no normalization follows
_NORMS_OF_CHANNELS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm, nn.GroupNorm)


@dataclass(frozen=True)
class LayerReport:
    """One weight of the report: ``reason`` is empty for a layer that became binary.

    Args:
        name, kind: of the layer; of a parameter outside of a layer, its own name and the class of its module.
        shape: of the weight.
        reason: why it stayed float.
        note: what else there is to know.
        tied_to: the earlier row with which it shares its weight.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    reason: str
    note: str = ""
    tied_to: str = ""

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
        return sum(layer.weights for layer in self.layers if layer.binary and not layer.tied_to)

    @property
    def float_weights(self) -> int:
        return sum(layer.weights for layer in self.layers if not layer.binary and not layer.tied_to)

    def __str__(self) -> str:
        rows = [("layer", "kind", "weights", "became")]
        for layer in self.layers:
            became = "binary" if layer.binary else f"float: {layer.reason}"
            tied = f"tied to {layer.tied_to}" if layer.tied_to else ""
            became = "; ".join(part for part in (became, layer.note, tied) if part)
            rows.append((layer.name, layer.kind, f"{layer.weights:,}", became))
        total = f"{self.binary_weights:,} weights are binary, {self.float_weights:,} stayed float"
        return f"{aligned(rows, left=(0, 1, 3))}\n{total}"


def binarize_(
    model: nn.Module,
    skip: Skip = first_and_last,
    method: Method | None = None,
    output_scale: OutputScale = None,
    example_input: ExampleInput | None = None,
) -> Report:
    """Make the linear and convolutional layers of ``model`` binary, in place.

    Parameters stay the same objects under the same names, so optimizers, hooks and checkpoints of the float model
    remain valid. An ``nn.MultiheadAttention`` becomes a :class:`~signwise.attention.MultiheadAttention`, which has the
    same parameters and state-dict keys, and calls its projections as layers.

    Args:
        model: any model; a layer that is itself the model works too.
        skip: the layers that stay float: ``first_and_last``, ``last``, a name glob such as ``"head.*"`` (a container
            stays float with everything inside), a predicate ``(module, name) -> bool``, or several of these in a list;
            ``None`` or an empty list for none.
        method: how latents become weights. By default the paper's where a normalization follows the layer, and
            ``GroupTransform(scale="mean")``, with one scale per filter, where none does.
        output_scale: a constant factor on each layer's output, or a function of the layer such as ``fan_in_scale``;
            with one, the default method is the paper's everywhere.
        example_input: an input of the model, a tuple of its inputs, or a dict of them by keyword. With one, binarize_
            runs the model once and sees in which order layers run, which of them a normalization follows, and whose
            weight the model's code reads without calling the layer: such a layer stays float, for the code would
            compute with latents. Without one it goes by the order in which modules are registered, and the report
            says so: a layer counts as normalized if the next module with parameters is a batch, instance or group
            norm of its width.

    Returns:
        A report on every weight of two or more dimensions.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
        >>> report = binarize_(model)
        >>> report.binary_weights, report.float_weights
        (256, 160)
    """
    if not isinstance(model, nn.Module):
        raise SignwiseError(
            f"binarize_ takes a torch.nn.Module, got {type(model).__name__}; load a state dict into a model first"
        )
    if output_scale is not None and not callable(output_scale) and not isinstance(output_scale, (int, float)):
        raise SignwiseError(
            f"output_scale must be a number or a function such as signwise.fan_in_scale, got {output_scale!r}"
        )
    if method is not None and not isinstance(method, Method):
        raise SignwiseError(f"method must be a Method such as signwise.GroupTransform(), got {method!r}")
    with opened_attention(model):
        report = _binarize_layers_(model, skip, method, output_scale, example_input)
    refuse_fusing_(model)
    if not any(layer.binary for layer in report.layers):
        _warn_of_nothing_binary(report)
    return report


def _binarize_layers_(
    model: nn.Module, skip: Skip, method: Method | None, output_scale: OutputScale, example_input: ExampleInput | None
) -> Report:
    modules = list(model.named_modules())
    watched = {name: module for name, module in modules if _is_layer(module) or isinstance(module, EMBEDDINGS)}
    observed = None if example_input is None else observe(model, watched, example_input)
    reasons = _reasons_to_stay_float(modules, skip, observed)
    _refuse_reparametrized(modules, reasons)
    rows: list[LayerReport] = []
    seen: dict[int, str] = {}
    changes: list[tuple[BinaryLayer | nn.Module, Method]] = []
    for name, module, parameter in _weights(modules):
        weight = module._parameters.get(parameter)
        shape = () if weight is None or isinstance(weight, nn.UninitializedParameter) else tuple(weight.shape)
        label = name if parameter == "weight" else f"{name}.{parameter}".lstrip(".")
        reason = reasons.get(name) or _obstacle(module, parameter)
        note = ""
        if not reason:
            own, note = _method_for(name, module, modules, observed, method, output_scale)
            changes.append((module, own))
        label = label or "(the model)"
        rows.append(LayerReport(label, type(module).__name__, shape, reason, note, seen.get(id(weight), "")))
        if weight is not None:
            seen.setdefault(id(weight), label)
    for module, own in changes:
        if not isinstance(module, BinaryLayer):
            # Changing the class, as fully_shard does, preserves every reference, hook and parameter.
            kind: type | None = binary_class(type(module))
            assert kind is not None
            module.__class__ = kind
        assert isinstance(module, BinaryLayer)
        module.become_binary_(own, output_scale(module) if callable(output_scale) else output_scale)
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
    weight, filters = layer.weight, _filters(layer)
    assert isinstance(weight, nn.Parameter)
    return weight.numel() // filters


def _filters(layer: nn.Module) -> int:
    # GPT-2's Conv1D calls its outputs nf.
    filters = next(getattr(layer, name) for name in ("out_features", "out_channels", "nf") if hasattr(layer, name))
    assert isinstance(filters, int)
    return filters


def _is_layer(module: nn.Module) -> bool:
    return isinstance(module, (*LAYERS_WITH_WEIGHTS, BinaryLayer)) or float_kind(type(module)) is not None


def _weights(modules: Modules) -> Iterator[tuple[str, nn.Module, str]]:
    """Every parameter of two or more dimensions, with its module; a layer's weight whatever its form."""
    for name, module in modules:
        if _is_layer(module):
            yield name, module, "weight"
        for parameter, value in module._parameters.items():
            if value is None or isinstance(value, nn.UninitializedParameter) or value.dim() < 2:
                continue
            if not (_is_layer(module) and parameter == "weight"):
                yield name, module, parameter


def _reasons_to_stay_float(modules: Modules, skip: Skip, observed: Observed | None) -> dict[str, str]:
    """Name -> why it stays float: by ``skip``, or because code other than the layer's own reads its weight."""
    if skip is None:
        rules: list[ByPosition | str | Predicate] = []
    else:
        rules = list(skip) if isinstance(skip, Sequence) and not isinstance(skip, str) else [skip]
    reasons: dict[str, str] = {}
    for rule in rules:
        for name, reason in _matches(rule, modules, observed):
            reasons.setdefault(name, reason)
        if isinstance(rule, str) and not any(fnmatch.fnmatchcase(name, rule) for name, _ in modules):
            raise SignwiseError(f"skip={rule!r} matches no module of the model; there are {_some(modules)}")
    for name, module in modules:
        if isinstance(module, READS_WEIGHTS_DIRECTLY) and not isinstance(module, MultiheadAttention):
            reason = reasons.get(name) or f"{type(module).__name__} reads the weights of its layers directly"
            for inner, _ in module.named_modules(prefix=name):
                reasons.setdefault(inner, reason)
    if observed is not None:
        for name, reader in observed.readers.items():
            reasons.setdefault(name, f"{reader} reads its weight without calling it")
    _keep_tied_float(modules, reasons)
    return reasons


def _some(modules: Modules) -> str:
    """The first names of a model's layers."""
    names = [name for name, module in modules if _is_layer(module)]
    return ", ".join(names[:6]) + (" and others" if len(names) > 6 else "")


def _keep_tied_float(modules: Modules, reasons: dict[str, str]) -> None:
    """A weight that a float module shares stays float everywhere: that module would compute with latents."""
    float_owners: dict[int, str] = {}
    for name, module in modules:
        weight = module._parameters.get("weight")
        if weight is not None and (name in reasons or _obstacle(module, "weight")):
            float_owners.setdefault(id(weight), f"{name} ({type(module).__name__})")
    for name, module in modules:
        owner = float_owners.get(id(module._parameters.get("weight")))
        if owner is not None and _is_layer(module) and not _obstacle(module, "weight"):
            reasons.setdefault(name, f"it shares its weight with {owner}, which stays float")


def _matches(
    rule: ByPosition | str | Predicate, modules: Modules, observed: Observed | None
) -> Iterator[tuple[str, str]]:
    if isinstance(rule, type):
        raise SignwiseError(
            f"skip takes names and predicates, got the class {rule.__name__}: to skip all of its layers, pass "
            f"skip=lambda module, name: isinstance(module, {rule.__name__})"
        )
    if isinstance(rule, ByPosition):
        yield from _by_position(rule, modules, observed)
    elif isinstance(rule, str):
        matched = [name for name, _ in modules if fnmatch.fnmatchcase(name, rule)]
        for name, _ in modules:
            if any(name == outer or name.startswith(f"{outer}.") for outer in matched):
                yield name, f"skip={rule!r}"
    elif callable(rule):
        called = getattr(rule, "__name__", type(rule).__name__)
        yield from ((name, f"skip={called}") for name, module in modules if rule(module, name))
    else:
        raise SignwiseError(f"skip takes names, predicates, first_and_last or last, got {rule!r}")


def _by_position(rule: ByPosition, modules: Modules, observed: Observed | None) -> Iterator[tuple[str, str]]:
    order = " in registration order" if observed is None else ""
    with_embeddings = [name for name, module in modules if _is_layer(module) or isinstance(module, EMBEDDINGS)]
    if observed is not None:
        with_embeddings = observed.called
    layers = [name for name in with_embeddings if _is_layer(dict(modules)[name])]
    for label, position in rule.positions:
        if position == 0 and observed is not None and observed.reads_input:
            yield from ((name, label) for name in observed.reads_input)
        elif position == 0:
            yield from ((name, label + order) for name in with_embeddings[:1])
        elif layers:
            yield layers[position], label + order


def _method_for(
    name: str,
    module: nn.Module,
    modules: Modules,
    observed: Observed | None,
    method: Method | None,
    output_scale: OutputScale,
) -> tuple[Method, str]:
    """The method of one layer, and what the report says about it."""
    called = "" if observed is None or name in observed.called else "not called with example_input"
    if method is not None or output_scale is not None:
        return method or DEFAULT_METHOD, called
    if observed is not None and name in observed.called:
        normalized, order = name in observed.normalized, ""
    else:
        normalized, order = _norm_follows(name, module, modules), " in registration order"
    if normalized:
        return DEFAULT_METHOD, called
    scaled = f"with a scale per filter, since no normalization follows{order}"
    return SCALED_METHOD, f"{scaled}; {called}" if called else scaled


def _norm_follows(name: str, layer: nn.Module, modules: Modules) -> bool:
    names = [other for other, _ in modules]
    for _, module in modules[names.index(name) + 1 :]:
        if isinstance(module, _NORMS_OF_CHANNELS):
            width = module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features
            return width == _filters(layer)
        if module._parameters:
            return False
    return False


def _refuse_reparametrized(modules: Modules, reasons: dict[str, str]) -> None:
    found = [
        name
        for name, module in modules
        if isinstance(module, LAYERS_WITH_WEIGHTS)
        and name not in reasons
        and (parametrize.is_parametrized(module, "weight") or "weight_orig" in module._parameters
             or "weight_v" in module._parameters)
    ]  # fmt: skip
    if found:
        raise SignwiseError(
            f"the weight of {', '.join(found)} is computed by a parametrization or hook (weight_norm, spectral_norm, "
            "prune), whose parameters would not become binary; remove it first with torch.nn.utils.parametrize."
            "remove_parametrizations, remove_weight_norm, remove_spectral_norm or prune.remove, or keep it float with "
            f"skip=[signwise.first_and_last, {', '.join(map(repr, found))}]"
        )


def _obstacle(module: nn.Module, parameter: str) -> str:
    """Why a weight cannot become binary, or an empty string."""
    kind = type(module).__name__
    if parameter != "weight":
        return f"a parameter of a {kind}, not the weight of a linear layer or a convolution"
    if isinstance(module, BinaryLayer):
        return ""
    if not _is_layer(module):
        return f"{kind} is neither linear nor a convolution"
    weight = module._parameters.get("weight")
    if weight is None:
        return "packed already" if "bits" in module._buffers else "its weight is no parameter"
    if isinstance(weight, nn.UninitializedParameter):
        return "its shape is unknown before a first forward pass"
    if binary_class(type(module)) is None:
        return f"{kind} is a subclass with its own code"
    if fan_in(module) < 2:
        return "a filter with fewer than 2 weights"
    return ""


def _warn_of_nothing_binary(report: Report) -> None:
    reasons: dict[str, str] = {}
    for layer in report.layers:
        reasons.setdefault(layer.reason, layer.name)
    why = (
        "; ".join(f"{name}: {reason}" for reason, name in list(reasons.items())[:4]) or "it has no layers with weights"
    )
    warnings.warn(
        f"binarize_ made no layer binary ({why}). Print the report for all layers; pass another skip= to binarize "
        "more, or build the model from nn.Linear and the convolutions of torch.nn",
        stacklevel=3,
    )
