"""Binary layers: the layers of ``torch.nn`` with latent weights, used as w_α in training and as sign(φ) in evaluation.

Each is a subclass whose plain ``weight`` is the latent φ, so that checkpoints of the float model load and save
unchanged, both ways. α and ζ are buffers outside the state dict: changing them never recompiles a graph.

    training:      y = F(x, s · w_α(φ)) + bias      or the weight of another method, with its own gradient
    evaluation:    y = F(x, s · sign(φ)) + bias     what is deployed
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.methods import Deployed, GroupTransform, Method

DEFAULT_METHOD = GroupTransform()

_LARGEST_ACCUMULATION = 2000  # backward passes for one optimizer step, skipped steps included


class BinaryLayer(nn.Module):
    """The base of all binary layers: a method, α and ζ, and the three forms of the weight.

    ``method`` and ``output_scale`` are keyword arguments of every layer:

    Args:
        method: how latents become weights; the paper's by default.
        output_scale: a constant factor on the layer's output (before the bias), for models without normalization
            after the layer, e.g. ``fan_in_scale(layer)``. It is deployed with the weights.
    """

    weight: Tensor
    alpha: Tensor
    zeta: Tensor
    method: Method
    output_scale: float | None
    use_relaxed: bool

    # Since the last after_step_: changes of the latent between training passes, and backward passes.
    _seen_version: int | None = None
    _changes: int = 0
    _backwards: int = 0

    def __init__(
        self, *args: Any, method: Method = DEFAULT_METHOD, output_scale: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.become_binary_(method, output_scale)

    def become_binary_(self, method: Method, output_scale: float | None) -> None:
        """Add what a float layer lacks; the layer's own parameters stay the same objects."""
        if output_scale is not None and not 0 < output_scale < float("inf"):
            raise SignwiseError(f"output_scale must be positive and finite, got {output_scale}")
        self.method = method
        self.output_scale = output_scale
        self.use_relaxed = False
        device = self.weight.device
        self.register_buffer("alpha", torch.ones((), device=device), persistent=False)
        self.register_buffer("zeta", torch.ones((), device=device), persistent=False)

    def relaxed_weight(self) -> Tensor:
        """The weight of the training pass, with the method's gradient to the latent; w_α for the paper's method."""
        weight = self.method.weight(self.filters_first(self.weight), self.alpha, self.zeta)
        return self._scaled(self.filters_back(weight))

    def deployed(self) -> Deployed:
        """Signs in the latent's layout and the scale per filter; refuses latents that are not finite."""
        if not bool(torch.isfinite(self.weight).all()):
            raise SignwiseError("a latent weight is NaN or infinite, so it has no sign to deploy")
        deployed = self._deploy()
        if self.output_scale is None:
            return Deployed(self.filters_back(deployed.signs), deployed.scale)
        filters = deployed.signs.shape[0]
        scale = deployed.signs.new_ones(filters) if deployed.scale is None else deployed.scale
        return Deployed(self.filters_back(deployed.signs), scale * self.output_scale)

    def effective_weight(self) -> Tensor:
        """The weight of the next ``forward``: relaxed in training, deployed in evaluation."""
        if self.training or self.use_relaxed:
            weight = self.relaxed_weight()
            if self.training and self.method.needs_after_step and not torch.compiler.is_compiling():
                self._expect_after_step(weight)
            return weight
        deployed = self._deploy()
        weight = deployed.signs
        if deployed.scale is not None:
            weight = weight * deployed.scale.view(-1, *[1] * (weight.dim() - 1))
        return self._scaled(self.filters_back(weight))

    def after_step_(self) -> None:
        """Let the method change the latent after an optimizer step; :func:`after_step_` does it for a whole model."""
        self.method.after_step_(self.weight)
        self._seen_version, self._changes, self._backwards = self.weight._version, 0, 0

    def _expect_after_step(self, relaxed_weight: Tensor) -> None:
        """Warn if an optimizer trains the latent and nobody calls ``after_step_``.

        PyTorch counts the in-place changes of a tensor. One change between two training passes may be a loaded
        checkpoint; a second one, with no ``after_step_`` since the first, is an optimizer at work. Fused optimizers
        escape that count. They are noticed by more backward passes than anyone accumulates for one step.
        """
        if not isinstance(self.weight, nn.Parameter) or not relaxed_weight.requires_grad:
            return  # functional calls bring their own tensors; frozen weights and passes without gradient do not train
        relaxed_weight.register_hook(self._count_backward)
        version = self.weight._version
        if self._seen_version is not None and version != self._seen_version:
            self._changes += 1
            if self._changes == 2:
                self._warn_of_after_step()
        self._seen_version = version

    def _count_backward(self, gradient: Tensor) -> None:
        self._backwards += 1
        if self._backwards == _LARGEST_ACCUMULATION and self._changes < 2:
            self._warn_of_after_step()

    def _warn_of_after_step(self) -> None:
        warnings.warn(
            f"{type(self.method).__name__} changes the latent weights after each optimizer step, but nothing calls it: "
            "use signwise.attach(optimizer, model, schedule), or call signwise.after_step_(model) after each "
            "optimizer.step()",
            stacklevel=2,
        )

    def filters_first(self, weight: Tensor) -> Tensor:
        """The weight with one filter (or neuron) per index of dimension 0, as methods see it."""
        return weight

    def filters_back(self, weight: Tensor) -> Tensor:
        """The inverse of ``filters_first``."""
        return weight

    def _deploy(self) -> Deployed:
        return self.method.deploy(self.filters_first(self.weight.detach()))

    def _scaled(self, weight: Tensor) -> Tensor:
        return weight if self.output_scale is None else weight * self.output_scale

    def reset_parameters(self) -> None:
        super().reset_parameters()  # type: ignore[misc]  # nn.Linear and the convolutions define it
        if "alpha" in self._buffers:  # nn's own __init__ calls this before there are any buffers
            self.alpha.fill_(1)
            self.zeta.fill_(1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        # model.half() would round α and ζ too, and make the schedule coarse: they follow the device only. Buffers that
        # had no values (meta) start where a new layer starts.
        alpha, zeta = self.alpha, self.zeta
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in (("alpha", alpha), ("zeta", zeta)):
            device = self._buffers[name].device  # type: ignore[union-attr]
            moved = torch.ones((), device=device) if before.is_meta else before.to(device)
            self._buffers[name] = moved
        return self

    def extra_repr(self) -> str:
        scale = "" if self.output_scale is None else f", output_scale={self.output_scale:.4g}"
        return f"{super().extra_repr()}, method={type(self.method).__name__}{scale}"


class BinaryLinear(BinaryLayer, nn.Linear):
    """``nn.Linear`` with binary weights.

    Example:
        >>> layer = BinaryLinear(8, 4).eval()
        >>> bool((layer.effective_weight().abs() == 1).all())
        True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.effective_weight(), self.bias)


class _Convolution(BinaryLayer):
    bias: Tensor | None
    _conv_forward: Callable[[Tensor, Tensor, Tensor | None], Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.effective_weight(), self.bias)


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
        weight = self.effective_weight()
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


def after_step_(model: nn.Module) -> None:
    """Let every binary layer's method do its part after an optimizer step, such as clipping the latents.

    :func:`~signwise.schedule.attach` calls this after every ``optimizer.step()``. The paper's method has no such part.
    """
    for _, layer in binary_layers(model):
        layer.after_step_()


def binary_layers(model: nn.Module) -> Iterator[tuple[str, BinaryLayer]]:
    """The binary layers of a model with their names, each once, in registration order."""
    for name, module in model.named_modules():
        if isinstance(module, BinaryLayer):
            yield name, module
