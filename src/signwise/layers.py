"""Binary layers: the layers of ``torch.nn`` with latent weights, used as w_α in training and as sign(φ) in evaluation.

Each is a subclass whose plain ``weight`` is the latent φ, so that checkpoints of the float model load and save
unchanged, both ways. α and ζ are buffers outside the state dict: changing them never recompiles a graph.

    training:      y = F(x, s · w_α(φ)) + bias      or the weight of another method, with its own gradient
    evaluation:    y = F(x, s · sign(φ)) + bias     what is deployed
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from signwise.binary_layer import DEFAULT_METHOD, BinaryLayer
from signwise.errors import SignwiseError

__all__ = [
    "BINARY_OF",
    "DEFAULT_METHOD",
    "BinaryConv1d",
    "BinaryConv2d",
    "BinaryConv3d",
    "BinaryConvTranspose1d",
    "BinaryConvTranspose2d",
    "BinaryConvTranspose3d",
    "BinaryLayer",
    "BinaryLinear",
    "after_step_",
    "before_step_",
    "binary_class",
    "binary_layers",
    "float_class",
    "float_kind",
    "initialize_",
    "relaxed",
]


class BinaryLinear(BinaryLayer, nn.Linear):
    """``nn.Linear`` with binary weights.

    Example:
        >>> layer = BinaryLinear(8, 4).eval()
        >>> bool((layer.effective_weight().abs() == 1).all())
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_for(input), self.bias)


class _Convolution(BinaryLayer):
    bias: Tensor | None
    _conv_forward: Callable[[Tensor, Tensor, Tensor | None], Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_for(input), self.bias)


class BinaryConv1d(_Convolution, nn.Conv1d):
    """``nn.Conv1d`` with binary weights."""


class BinaryConv2d(_Convolution, nn.Conv2d):
    """``nn.Conv2d`` with binary weights."""


class BinaryConv3d(_Convolution, nn.Conv3d):
    """``nn.Conv3d`` with binary weights."""


class _TransposedConvolution(BinaryLayer):
    """Transposed convolutions store (in, out / groups, ...); a filter sees the inputs of its own group only."""

    bias: Tensor | None
    groups: int
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    kernel_size: tuple[int, ...]
    _output_padding: Callable[..., list[int]]

    def filters_first(self, weight: Tensor) -> Tensor:
        first, second = weight.shape[0] // self.groups, weight.shape[1]
        # (groups · in, out, ...) -> (groups, in, out, ...) -> (groups · out, in, ...)
        return weight.reshape(self.groups, first, second, *weight.shape[2:]).transpose(1, 2).flatten(0, 1)

    # Swapping two dimensions within each group is its own inverse.
    filters_back = filters_first

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        dimensions = self.weight.dim() - 2
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, dimensions, self.dilation
        )
        assert isinstance(self.padding, tuple)
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dimensions - 1]
        weight = self.weight_for(input)
        return convolve(input, weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class BinaryConvTranspose1d(_TransposedConvolution, nn.ConvTranspose1d):
    """``nn.ConvTranspose1d`` with binary weights."""


class BinaryConvTranspose2d(_TransposedConvolution, nn.ConvTranspose2d):
    """``nn.ConvTranspose2d`` with binary weights."""


class BinaryConvTranspose3d(_TransposedConvolution, nn.ConvTranspose3d):
    """``nn.ConvTranspose3d`` with binary weights."""


BINARY_OF: dict[type[nn.Module], type[BinaryLayer]] = {
    nn.Linear: BinaryLinear,
    nn.Conv1d: BinaryConv1d,
    nn.Conv2d: BinaryConv2d,
    nn.Conv3d: BinaryConv3d,
    nn.ConvTranspose1d: BinaryConvTranspose1d,
    nn.ConvTranspose2d: BinaryConvTranspose2d,
    nn.ConvTranspose3d: BinaryConvTranspose3d,
}


class _TransposedLinear(BinaryLayer):
    """A linear layer that stores (inputs, outputs), as GPT-2's ``Conv1D`` of the transformers library does."""

    bias: Tensor | None

    def filters_first(self, weight: Tensor) -> Tensor:
        return weight.t()

    filters_back = filters_first

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight_for(x).t(), self.bias)


# What a subclass may not redefine: a binary layer has its own.
_DECISIVE = ("forward", "__call__", "_conv_forward", "_output_padding", "__getattr__", "__setattr__", "weight")


def float_kind(kind: type[nn.Module]) -> type[nn.Module] | None:
    """The class of ``torch.nn`` whose arithmetic a float class inherits unchanged, or ``None``."""
    if _is_transposed_linear(kind):
        return kind
    for plain in BINARY_OF:
        if issubclass(kind, plain):
            same = all(getattr(kind, name, None) is getattr(plain, name, None) for name in _DECISIVE)
            return plain if same and not issubclass(kind, BinaryLayer) else None
    return None


def binary_class(kind: type[nn.Module]) -> type[BinaryLayer] | None:
    """The binary class of a float class; ``None`` for a class with arithmetic of its own.

    For a subclass that computes what its parent does, the binary class is made on the spot.
    """
    hashable: Any = kind
    return _binary_class(hashable)


@functools.cache
def _binary_class(kind: Any) -> type[BinaryLayer] | None:
    plain = float_kind(kind)
    if plain is None or kind in BINARY_OF:
        return BINARY_OF.get(kind)
    base = BINARY_OF.get(plain, _TransposedLinear)
    members = {"__module__": __name__, "__reduce_ex__": _reduce, "float_class": kind, "__doc__": base.__doc__}
    return type(f"Binary{kind.__name__}", (base, kind), members)


def float_class(kind: type[nn.Module]) -> type[nn.Module] | None:
    """The inverse of :func:`binary_class`; ``None`` for a binary class with code of its own."""
    made: type[nn.Module] | None = kind.__dict__.get("float_class")
    return made or next((plain for plain, binary in BINARY_OF.items() if binary is kind), None)


def _is_transposed_linear(kind: type[nn.Module]) -> bool:
    return kind.__name__ == "Conv1D" and kind.__module__.startswith("transformers.")


def _reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    # pickle cannot find a class that was made on the spot by its name, but can make it again.
    rest = object.__reduce_ex__(self, protocol)
    assert isinstance(rest, tuple)
    return (_empty_layer, (type(self).float_class,), *rest[2:])


def _empty_layer(kind: type[nn.Module]) -> BinaryLayer:
    made = binary_class(kind)
    assert made is not None
    return made.__new__(made)


@contextmanager
def relaxed(model: nn.Module) -> Iterator[nn.Module]:
    """Inside the block, evaluation uses the weights of training, w_α, instead of sign(φ).

    Example:
        >>> model = BinaryLinear(4, 2).eval()
        >>> with relaxed(model):
        ...     bool(torch.equal(model.effective_weight(), model.relaxed_weight()))
        True
    """
    layers = [layer for _, layer in binary_layers(model)]
    before = [layer.use_relaxed for layer in layers]
    try:
        for layer in layers:
            layer.use_relaxed = True
        yield model
    finally:
        for layer, value in zip(layers, before, strict=True):
            layer.use_relaxed = value


def initialize_(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw the latents of every binary layer as the authors of its method do; most methods keep what is there.

    Never call this on a trained model: it forgets what was learned.
    """
    for _, layer in binary_layers(model):
        layer.initialize_(generator)


def before_step_(model: nn.Module) -> None:
    """Let every binary layer's method use the gradients before ``optimizer.step()``; ``attach`` does this by itself."""
    layers = list(binary_layers(model))
    for name, layer in layers:
        layer.before_step_()
        if not layer._called and layer.weight.grad is not None and any(other._called for _, other in layers):
            layer._called = True  # once is enough
            warnings.warn(
                f"{name} has a gradient although no forward pass called it: the model's code reads its weight directly "
                "and trains the latent. Keep it float (binarize_ does so with example_input), or call the layer",
                stacklevel=2,
            )


def after_step_(model: nn.Module, optimizer: Optimizer | None = None) -> None:
    """Let every binary layer's method do its part after ``optimizer.step()``, such as clipping the latents.

    :func:`~signwise.schedule.attach` does this by itself. The paper's method has no such part.

    Args:
        model: the model.
        optimizer: for methods that need the learning rate.

    Raises:
        SignwiseError: a method also acts before the step or needs the learning rate, and there is no optimizer.
    """
    groups = [] if optimizer is None else optimizer.param_groups
    rates = {id(weight): float(group["lr"]) for group in groups for weight in group["params"]}
    for name, layer in binary_layers(model):
        if optimizer is None and layer.method.needs_attach:
            raise SignwiseError(
                f"{name}: {type(layer.method).__name__} needs more than after_step_: use "
                "signwise.attach(optimizer, model, schedule) instead"
            )
        layer.after_step_(rates.get(id(layer.weight), 0.0))


def binary_layers(model: nn.Module) -> Iterator[tuple[str, BinaryLayer]]:
    """The binary layers of a model with their names, each once, in registration order."""
    for name, module in model.named_modules():
        if isinstance(module, BinaryLayer):
            yield name, module
