"""The base of all binary layers: a latent weight, the method that makes it binary, and what surrounds a step."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
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
    frozen: bool
    state_names: tuple[str, ...]

    # Since the last after_step_: changes of the latent between training passes, and backward passes.
    _seen_version: int | None = None
    _changes: int = 0
    _backwards: int = 0
    # The latent before the optimizer's step, for methods that scale the step.
    _before: Tensor | None = None
    # Whether any forward pass has used the layer: a latent with a gradient that no pass used was read directly.
    _called: bool = False
    # Whether load_state_dict is at work on this layer.
    _loads_state: bool = False

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
        scale = deployed.signs.new_ones(len(deployed.signs)) if deployed.scale is None else deployed.scale
        return Deployed(self.filters_back(deployed.signs), scale * self.output_scale)

    def effective_weight(self) -> Tensor:
        """The weight of the next ``forward``: relaxed in training, deployed in evaluation."""
        eager = _is_eager()
        if eager and not self._called:
            self._called = True
        if self.training or self.use_relaxed:
            weight = self.relaxed_weight()
            if self.training and self.method.has_hooks and eager:
                self._expect_after_step(weight)
            return weight
        weight = self.filters_back(self._deploy().dense())
        if self.output_scale is not None:
            weight = weight * self.output_scale
        return weight

    def weight_for(self, input: Tensor) -> Tensor:
        """``effective_weight``; in evaluation, a backward pass through it says that the latent gets no gradient."""
        weight = self.effective_weight()
        if self.training or self.use_relaxed or not (torch.is_grad_enabled() and self.weight.requires_grad):
            return weight
        bias = self._parameters.get("bias")
        learns = input.requires_grad or (bias is not None and bias.requires_grad)
        if not learns or not _is_eager():
            return weight
        warned: Tensor = _WithoutGradient.apply(self.weight, weight)  # type: ignore[no-untyped-call]
        return warned

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
        self._loads_state = True
        try:
            super()._load_from_state_dict(state_dict, prefix, *args)
        finally:
            self._loads_state = False
        if f"{prefix}bits" in state_dict:
            args[-1].append(
                f"{prefix}bits belongs to a packed model: load it with signwise.load_packed_(model, state_dict)"
            )
        if not self.weight.is_meta:  # with assign=True the latent may just have left the meta device
            for name, start in self._knobs_at_start().items():
                if getattr(self, name).is_meta:
                    self._buffers[name] = torch.full((), start, device=self.weight.device)
        with torch.no_grad():
            fresh = self._fresh_extras()
            for name in missing:
                del state_dict[prefix + name]
                if getattr(self, name).is_meta and not fresh[name].is_meta:
                    setattr(self, name, fresh[name])
                else:
                    getattr(self, name).copy_(fresh[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "weight" and sys._getframe(1).f_globals.get("__name__") == "torch.nn.utils.fusion":
            raise SignwiseError(
                f"a {type(self).__name__} cannot be fused with a batch norm in PyTorch: the signs would lose the "
                "norm's scale. signwise.compile fuses them; signwise.pack_ keeps the norm"
            )
        if name in self.__dict__.get("state_names", ()):
            value = self._without_garbage(name, value)
        super().__setattr__(name, value)

    def _without_garbage(self, name: str, value: Any) -> Any:
        """``value``, or a start value for a knob or extra that leaves the meta device with uninitialized memory.

        Loaders such as ``from_pretrained`` build a model on the meta device, set what the checkpoint holds, and replace
        the rest by ``torch.empty``. They mark what they have loaded; ``load_state_dict`` comes with values always.
        """
        held = self._buffers.get(name, self._parameters.get(name))
        if held is None or not held.is_meta or value is None or value.is_meta or self._loads_state:
            return value
        knobs = self._knobs_at_start()
        if name in knobs:
            return torch.full((), knobs[name], device=value.device)
        if getattr(value, "_is_hf_initialized", False) or self.weight.is_meta:
            return value
        return self._fresh_extras()[name]

    def extra_repr(self) -> str:
        scale = "" if self.output_scale is None else f", output_scale={self.output_scale:.4g}"
        return f"{super().extra_repr()}, method={type(self.method).__name__}{scale}"


def _is_eager() -> bool:
    return not torch.compiler.is_compiling() and torch._C._get_tracing_state() is None


class _WithoutGradient(torch.autograd.Function):
    """The deployed weight; a backward pass that reaches it warns that the latent gets no gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(latent: Tensor, weight: Tensor) -> Tensor:
        return weight.view_as(weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        return

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        warnings.warn(
            "a backward pass in evaluation mode gives the latents of binary layers no gradient, since evaluation uses "
            "their signs: call model.train() before training, or torch.no_grad() if this is no training",
            stacklevel=2,
        )
        return None, None
