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
from torch.optim import Optimizer

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
    frozen: bool
    state_names: tuple[str, ...]

    # Since the last after_step_: changes of the latent between training passes, and backward passes.
    _seen_version: int | None = None
    _changes: int = 0
    _backwards: int = 0
    # The latent before the optimizer's step, for methods that scale the step.
    _before: Tensor | None = None

    def __init__(
        self, *args: Any, method: Method = DEFAULT_METHOD, output_scale: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.become_binary_(method, output_scale)

    def become_binary_(self, method: Method, output_scale: float | None) -> None:
        """Add what a float layer lacks; the layer's own parameters stay the same objects."""
        if output_scale is not None and not 0 < output_scale < float("inf"):
            raise SignwiseError(f"output_scale must be positive and finite, got {output_scale}")
        for name in self.__dict__.get("state_names", ()):  # of a method that this layer had before
            delattr(self, name)
        self.method = method
        self.output_scale = output_scale
        self.use_relaxed = self.frozen = False
        knobs, extras = self._knobs_at_start(), self._fresh_extras()
        self.state_names = (*knobs, *extras)
        for name, start in knobs.items():
            self.register_buffer(name, torch.full((), start, device=self.weight.device), persistent=False)
        for name, extra in extras.items():
            if isinstance(extra, nn.Parameter):
                self.register_parameter(name, extra)
            else:
                self.register_buffer(name, extra)

    @property
    def state(self) -> dict[str, Tensor]:
        """What the method sees beside the latent: α, ζ, its knobs and its extras."""
        return {name: getattr(self, name) for name in self.state_names}

    def relaxed_weight(self) -> Tensor:
        """The weight of the training pass, with the method's gradient to the latent; w_α for the paper's method."""
        weight = self.filters_back(self.method.weight(self.filters_first(self.weight), self.state))
        if self.output_scale is None:
            return weight
        if not self.method.blends_latent:
            return weight * self.output_scale
        # s α g + (1 - α) φ: the scale belongs to the binary part alone, so that α = 0 is the float network.
        return weight * self.output_scale + (1 - self.output_scale) * (1 - self.alpha) * self.weight

    def deployed(self) -> Deployed:
        """Signs in the latent's layout and the scale per filter; refuses what one bit per weight cannot hold."""
        if not bool(torch.isfinite(self.weight).all()):
            raise SignwiseError("a latent weight is NaN or infinite, so it has no sign to deploy")
        deployed = self._deploy()
        if deployed.obstacle is not None:
            raise SignwiseError(f"{type(self.method).__name__}: {deployed.obstacle}")
        if self.output_scale is None:
            return Deployed(self.filters_back(deployed.signs), deployed.scale)
        filters = deployed.signs.shape[0]
        scale = deployed.signs.new_ones(filters) if deployed.scale is None else deployed.scale
        return Deployed(self.filters_back(deployed.signs), scale * self.output_scale)

    def effective_weight(self) -> Tensor:
        """The weight of the next ``forward``: relaxed in training, deployed in evaluation."""
        if self.training or self.use_relaxed:
            weight = self.relaxed_weight()
            if self.training and self.method.has_hooks and not torch.compiler.is_compiling():
                self._expect_after_step(weight)
            return weight
        weight = self.filters_back(self._deploy().dense())
        return weight if self.output_scale is None else weight * self.output_scale

    @torch.no_grad()
    def initialize_(self, generator: torch.Generator | None = None) -> None:
        """Draw the latents as the method's authors do."""
        latent = self.filters_first(self.weight)
        self.method.initialize_(latent, self.state, generator)
        self._write_back_(latent)

    def set_progress_(self, alpha: float, zeta: float, progress: float) -> None:
        """Set α, ζ and the method's knobs; ``progress`` is 0 at the first step of a training and 1 at its last."""
        self.alpha.fill_(alpha)
        self.zeta.fill_(zeta)
        for name, knob in self.method.knobs().items():
            getattr(self, name).fill_(knob(progress))
        self.frozen = self.method.frozen(progress)

    @torch.no_grad()
    def before_step_(self) -> None:
        """Let the method use the gradient before the optimizer does, and hide frozen latents from the optimizer."""
        if self.weight.grad is None or not self.method.has_hooks:
            return
        latent = self.filters_first(self.weight)
        self.method.before_step_(latent, self.filters_first(self.weight.grad), self.state)
        self._write_back_(latent)
        if self.frozen:
            self.weight.grad = None
        elif self.method.step_factor(latent) != 1:
            self._before = self.weight.detach().clone()

    @torch.no_grad()
    def after_step_(self, learning_rate: float) -> None:
        """Let the method change the latent after an optimizer step; :func:`after_step_` does it for a whole model.

        Args:
            learning_rate: what the optimizer used for this layer's latent.
        """
        if not self.method.has_hooks:
            return
        latent = self.filters_first(self.weight)
        if self._before is not None:
            before, self._before = self.filters_first(self._before), None
            latent.copy_(before + self.method.step_factor(latent) * (latent - before))
        self.method.after_step_(latent, self.state, learning_rate)
        self._write_back_(latent)
        self._seen_version, self._changes, self._backwards = self.weight._version, 0, 0

    def _write_back_(self, latent: Tensor) -> None:
        if latent.data_ptr() != self.weight.data_ptr():  # filters_first had to copy
            self.weight.copy_(self.filters_back(latent))

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
            f"{type(self.method).__name__} changes the latent weights around each optimizer step, but nothing calls "
            "it: use signwise.attach(optimizer, model, schedule)",
            stacklevel=2,
        )

    def filters_first(self, weight: Tensor) -> Tensor:
        """The weight with one filter (or neuron) per index of dimension 0, as methods see it."""
        return weight

    def filters_back(self, weight: Tensor) -> Tensor:
        """The inverse of ``filters_first``."""
        return weight

    def _deploy(self) -> Deployed:
        return self.method.deploy(self.filters_first(self.weight.detach()), self.state)

    def _knobs_at_start(self) -> dict[str, float]:
        return {"alpha": 1.0, "zeta": 1.0} | {name: knob(0.0) for name, knob in self.method.knobs().items()}

    def _fresh_extras(self) -> dict[str, Tensor]:
        return self.method.extras(self.filters_first(self.weight.detach()))

    def reset_parameters(self) -> None:
        super().reset_parameters()  # type: ignore[misc]  # nn.Linear and the convolutions define it
        if "method" not in self.__dict__:  # nn's own __init__ comes here before there is a method
            return
        with torch.no_grad():
            for name, value in self._knobs_at_start().items():
                getattr(self, name).fill_(value)
            for name, extra in self._fresh_extras().items():
                getattr(self, name).copy_(extra)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        # model.half() would round α, ζ and the knobs with everything else, and make each step's schedule coarse: only
        # the device follows. Buffers that had no values (meta) start where a new layer starts.
        knobs = self._knobs_at_start()
        before = {name: getattr(self, name) for name in knobs}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, start in knobs.items():
            device = getattr(self, name).device
            value = before[name]
            self._buffers[name] = torch.full((), start, device=device) if value.is_meta else value.to(device)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A float checkpoint has no extras: they start from the latents that it brings.
        missing = [name for name in self._fresh_extras() if prefix + name not in state_dict]
        for name in missing:
            state_dict[prefix + name] = getattr(self, name)
        super()._load_from_state_dict(state_dict, prefix, *args)
        with torch.no_grad():
            fresh = self._fresh_extras()
            for name in missing:
                del state_dict[prefix + name]
                getattr(self, name).copy_(fresh[name])

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


def initialize_(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw the latents of every binary layer as the authors of its method do; most methods keep what is there.

    Never call this on a trained model: it forgets what was learned.
    """
    for _, layer in binary_layers(model):
        layer.initialize_(generator)


def before_step_(model: nn.Module) -> None:
    """Let every binary layer's method use the gradients before ``optimizer.step()``; ``attach`` does this by itself."""
    for _, layer in binary_layers(model):
        layer.before_step_()


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
