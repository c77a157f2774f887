"""α(t), ζ(t) and the factors on learning rate and weight decay, as pure functions of the step; and what applies them.

    α(t) = min(t / (T_α T), 1),  or 1 where T_α = 0
    ζ(t) = ζ₀ for the first 1 - r of the steps, then rises linearly to reach ζ₁ at the last step
    f(t) = factor ^ (number of milestones passed), or a line, or half a cosine; times the warm-up for the learning rate

Stateless, so that a resumed run needs nothing but its step. Steps count from 0: the first optimizer step is step 0 and
the last is ``total_steps - 1``.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from signwise.errors import SignwiseError
from signwise.layers import after_step_, before_step_, binary_layers
from signwise.optim import initializes_state

# PyTorch's schedulers keep the first under this name and timm's keep both: whoever sets them first, all agree.
_INITIAL_LR = "initial_lr"
_INITIAL_WEIGHT_DECAY = "initial_weight_decay"
_STEP = "signwise_step"


@dataclass(frozen=True, init=False)
class BinarizationSchedule:
    """How far binarization has come at each step.

    Args:
        total_steps: T, the number of optimizer steps of the whole training; at least 1.
        t_alpha: T_α, the fraction of all steps after which α is 1; 0 means from the start.
        zeta_range: ζ₀ and ζ₁, at the start and at the last step.
        zeta_ramp: r, the last fraction of the steps, over which ζ rises.
        zeta: another name for ``zeta_range``.

    Example:
        >>> schedule = BinarizationSchedule(1000, t_alpha=0.5)
        >>> schedule.alpha(250), schedule.zeta(0), schedule.zeta(999)
        (0.5, 1.0, 12.0)
    """

    total_steps: int
    t_alpha: float
    zeta_range: tuple[float, float]
    zeta_ramp: float

    # Written out for the keyword `zeta`, which as a field would hide the method of that name.
    def __init__(
        self,
        total_steps: int,
        t_alpha: float = 0.9,
        zeta_range: tuple[float, float] = (1.0, 12.0),
        zeta_ramp: float = 0.1,
        *,
        zeta: tuple[float, float] | None = None,
    ) -> None:
        start, end = zeta_range if zeta is None else zeta
        if total_steps < 1:
            raise SignwiseError(f"total_steps must be at least 1, got {total_steps}")
        if not 0 <= t_alpha <= 1:
            raise SignwiseError(f"t_alpha must be in [0, 1], got {t_alpha}")
        if not (0 <= start < math.inf and 0 <= end < math.inf):
            raise SignwiseError(f"zeta must be two finite numbers of at least 0, got {(start, end)}")
        if not 0 <= zeta_ramp <= 1:
            raise SignwiseError(f"zeta_ramp must be in [0, 1], got {zeta_ramp}")
        fields = {"total_steps": total_steps, "t_alpha": t_alpha, "zeta_range": (start, end), "zeta_ramp": zeta_ramp}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def alpha(self, step: int) -> float:
        """α of a step, in [0, 1]."""
        if self.t_alpha == 0:
            return 1.0
        return min(step / (self.t_alpha * self.total_steps), 1.0)

    def zeta(self, step: int) -> float:
        """ζ of a step."""
        start, end = self.zeta_range
        last = self.total_steps - 1
        first_risen = (1 - self.zeta_ramp) * self.total_steps
        if step >= last:
            return end
        if step < first_risen:
            return start
        # The ramp starts from the last step of the plateau, so that its own first step has already risen.
        foot = first_risen - 1
        return start + (end - start) * (step - foot) / (last - foot)

    def apply_(self, model: nn.Module, step: int) -> None:
        """Set α, ζ and the methods' own knobs to those of ``step``; call it before the forward pass of that step.

        The step after the last one is ``total_steps``, where a training ends. Further steps get the last values, and a
        warning.
        """
        _check_step(step)
        if step > self.total_steps:
            # Without the step, so that Python shows it once.
            warnings.warn(
                f"training goes on after the {self.total_steps:,} steps of the schedule, with the last α and ζ; "
                "total_steps counts the optimizer steps of the whole training",
                stacklevel=2,
            )
        alpha, zeta = self.alpha(step), self.zeta(step)
        layers = list(binary_layers(model))
        if not layers:
            raise SignwiseError("the model has no binary layer to schedule: call signwise.binarize_(model) before")
        for _, layer in layers:
            layer.set_progress_(alpha, zeta, min(step / max(self.total_steps - 1, 1), 1.0))

    def state_dict(self) -> dict[str, Any]:
        """The settings; accelerate's ``register_for_checkpointing`` saves them."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the settings of a saved schedule."""
        for name, value in vars(BinarizationSchedule(**state)).items():
            object.__setattr__(self, name, value)


def _check_step(step: int) -> None:
    if step < 0:
        raise SignwiseError(f"steps count from 0, got step {step}")


@dataclass(frozen=True, kw_only=True)
class Decay(ABC):
    """Factors on learning rate and weight decay: a linear warm-up, then a curve that falls.

    Weight decay falls along the same curve but is not warmed up.

    Args:
        total_steps: the number of optimizer steps of the whole training.
        warmup_steps: steps over which the learning rate rises linearly to its full value.
    """

    total_steps: int
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise SignwiseError(f"total_steps must be at least 1, got {self.total_steps}")
        if not 0 <= self.warmup_steps <= self.total_steps:
            raise SignwiseError(f"warmup_steps must be in [0, {self.total_steps}], got {self.warmup_steps}")

    @abstractmethod
    def weight_decay_factor(self, step: int) -> float:
        """The factor on weight decay, in [0, 1]."""

    def learning_rate_factor(self, step: int) -> float:
        """The factor on the learning rate, in [0, 1]; ``LambdaLR`` takes this method as it is."""
        # The first step already moves: a warm-up of n steps takes 1/n, 2/n, ... n/n.
        warmup = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        return warmup * self.weight_decay_factor(step)

    def apply_(self, optimizer: Optimizer, step: int, *, scale_weight_decay: bool | None = None) -> None:
        """Set lr and weight decay of every parameter group to its initial value times the factor of ``step``.

        The initial values are the groups' own at the first call. They stay in the groups, as ``initial_lr`` and
        ``initial_weight_decay``, so that the optimizer's state dict carries them.

        Args:
            optimizer: any optimizer.
            step: the step that comes next.
            scale_weight_decay: scale weight decay too. PyTorch's optimizers (SGD, Adam, AdamW, ...) multiply weight
                decay by lr inside their step: the factor on lr already reaches it, and a second factor would square
                it. By default weight decay is scaled only for optimizers that declare ``decay_ignores_lr = True``, as
                :class:`~signwise.optim.SGDW` does.
        """
        _check_step(step)
        if scale_weight_decay is None:
            scale_weight_decay = getattr(optimizer, "decay_ignores_lr", False)
        rate_factor, decay_factor = self.learning_rate_factor(step), self.weight_decay_factor(step)
        for group in optimizer.param_groups:
            group["lr"] = group.setdefault(_INITIAL_LR, group["lr"]) * rate_factor
            if scale_weight_decay and "weight_decay" in group:
                group["weight_decay"] = group.setdefault(_INITIAL_WEIGHT_DECAY, group["weight_decay"]) * decay_factor


@dataclass(frozen=True, kw_only=True)
class StepDecay(Decay):
    """A constant factor at each milestone.

    Args:
        total_steps: the number of optimizer steps of the whole training.
        warmup_steps: steps over which the learning rate rises linearly to its full value.
        factor: multiplies both at each milestone.
        milestones: fractions of the steps after the warm-up.

    Example:
        >>> decay = StepDecay(total_steps=1100, warmup_steps=100, factor=0.5, milestones=(0.5,))
        >>> decay.learning_rate_factor(49), decay.learning_rate_factor(100), decay.learning_rate_factor(600)
        (0.5, 1.0, 0.5)
        >>> decay.weight_decay_factor(49), decay.weight_decay_factor(600)
        (1.0, 0.5)
    """

    factor: float = 1.0
    milestones: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor <= 1:
            raise SignwiseError(f"factor must be in (0, 1], got {self.factor}")
        if not all(0 <= milestone <= 1 for milestone in self.milestones):
            raise SignwiseError(f"milestones must be fractions in [0, 1], got {self.milestones}")

    def weight_decay_factor(self, step: int) -> float:
        after_warmup = self.total_steps - self.warmup_steps
        passed = sum(step >= self.warmup_steps + milestone * after_warmup for milestone in self.milestones)
        return float(self.factor**passed)

    # The names of earlier versions.
    weight_decay = weight_decay_factor
    learning_rate = Decay.learning_rate_factor


@dataclass(frozen=True, kw_only=True)
class LinearDecay(Decay):
    """A straight line from 1 at the end of the warm-up to 0 after the last step.

    Example:
        >>> LinearDecay(total_steps=100).learning_rate_factor(75)
        0.25
    """

    def weight_decay_factor(self, step: int) -> float:
        after_warmup = max(self.total_steps - self.warmup_steps, 1)
        return min(max((self.total_steps - step) / after_warmup, 0.0), 1.0)


@dataclass(frozen=True, kw_only=True)
class CosineDecay(Decay):
    """Half a cosine from 1 at the end of the warm-up to 0 after the last step.

    Example:
        >>> round(CosineDecay(total_steps=100).learning_rate_factor(50), 6)
        0.5
    """

    def weight_decay_factor(self, step: int) -> float:
        after_warmup = max(self.total_steps - self.warmup_steps, 1)
        progress = min(max((step - self.warmup_steps) / after_warmup, 0.0), 1.0)
        return (1 + math.cos(math.pi * progress)) / 2


class Attachment:
    """An optimizer that drives a model's binarization; what :func:`attach` returns."""

    def __init__(
        self,
        optimizer: Optimizer,
        model: nn.Module,
        schedule: BinarizationSchedule | None,
        decay: Decay | None,
        scale_weight_decay: bool | None,
    ) -> None:
        self._optimizer, self._model, self._schedule, self._decay = optimizer, model, schedule, decay
        self._scale_weight_decay = scale_weight_decay
        self._weight_decay_follows_lr = decay is None and scale_weight_decay is True
        self._hooks = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
            optimizer.register_load_state_dict_post_hook(self._after_load),
        ]
        self._last_step = 0
        self.step = optimizer.param_groups[0].get(_STEP, 0)

    @property
    def step(self) -> int:
        """The optimizer step that comes next, from 0; setting it also sets α, ζ, lr and weight decay of that step."""
        step: int = self._optimizer.param_groups[0][_STEP]
        return step

    @step.setter
    def step(self, step: int) -> None:
        self._last_step = step
        for group in self._optimizer.param_groups:
            group[_STEP] = step
        if self._schedule is not None:
            self._schedule.apply_(self._model, step)
        if self._decay is not None:
            self._decay.apply_(self._optimizer, step, scale_weight_decay=self._scale_weight_decay)

    def detach(self) -> None:
        """Stop driving the model; α, ζ, lr and weight decay stay as they are."""
        for hook in self._hooks:
            hook.remove()

    def _before_step(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self._weight_decay_follows_lr:
            _scale_weight_decay_by_lr_(optimizer)
        closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer
        if closure is not None:
            # The closure runs the backward pass inside of the step, as Lightning's does: there are no gradients yet.
            def closure_and_before_step() -> Any:
                loss = closure()
                before_step_(self._model)
                return loss

            return args[:1], kwargs | {"closure": closure_and_before_step}
        if not initializes_state(optimizer):
            before_step_(self._model)
        return None

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        # GradScaler skips a step by not calling it, except that fused optimizers are called and skip it themselves.
        found_inf = getattr(optimizer, "found_inf", None)
        if (found_inf is not None and bool(found_inf)) or initializes_state(optimizer):
            return
        after_step_(self._model, optimizer)
        self.step = self.step + 1

    def _after_load(self, optimizer: Optimizer) -> None:
        # The model does not know the loaded step yet; α, ζ and the factors must be right before its forward pass.
        step = optimizer.param_groups[0].get(_STEP)
        if step is None:
            step = self._last_step
            warnings.warn(
                f"the loaded optimizer state was saved without attach and has no step: continuing at step {step}; "
                "set the attachment's `step` to continue elsewhere",
                stacklevel=2,
            )
        self.step = step


def _scale_weight_decay_by_lr_(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        # At most 1: OneCycleLR starts below its peak and calls that start the initial value.
        factor = min(float(group["lr"]) / float(group.setdefault(_INITIAL_LR, group["lr"]) or 1), 1.0)
        if "weight_decay" in group:
            group["weight_decay"] = group.setdefault(_INITIAL_WEIGHT_DECAY, group["weight_decay"]) * factor


def attach(
    optimizer: Optimizer,
    model: nn.Module,
    schedule: BinarizationSchedule | None,
    decay: Decay | None = None,
    *,
    scale_weight_decay: bool | None = None,
) -> Attachment:
    """Let an optimizer drive binarization: from now on the training loop needs no extra line.

    Before each forward pass α, ζ, lr and weight decay are those of the coming step, and the methods of the binary
    layers do their part before and after each ``optimizer.step()``. It counts steps of the optimizer, not batches, so
    gradient accumulation and steps that ``GradScaler`` skips come out right.

    A layer whose method has an after-step warns if neither this nor ``after_step_`` calls it.

    The step and the initial lr and weight decay live in ``optimizer.param_groups``. ``optimizer.state_dict()`` carries
    them, and after ``optimizer.load_state_dict()`` training resumes exactly, whether ``attach`` comes before or after.

    Args:
        optimizer: any optimizer; of a wrapper such as accelerate's, the optimizer inside.
        model: the model, plain or wrapped (DDP, FSDP2, ``torch.compile``).
        schedule: α and ζ; ``None`` for methods that use neither.
        decay: the factors on lr and weight decay; ``None`` leaves both to you or to a PyTorch scheduler such as
            ``LambdaLR(optimizer, decay.learning_rate_factor)``. Two of them would overwrite each other's lr.
        scale_weight_decay: see :meth:`Decay.apply_`; the default never scales weight decay twice. Without ``decay``,
            ``True`` multiplies the initial weight decay by lr / initial lr, whoever schedules the lr.

    Returns:
        The attachment, with ``step`` and ``detach()``.

    Raises:
        SignwiseError: the optimizer already drives a model.

    Example:
        >>> import signwise as sw
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        >>> _ = sw.binarize_(model, skip=None)
        >>> optimizer = sw.SGDW(model.parameters(), lr=0.1)
        >>> attachment = attach(optimizer, model, BinarizationSchedule(10, t_alpha=0.5))
        >>> optimizer.step()
        >>> attachment.step, round(float(model[0].alpha), 3)
        (1, 0.2)
    """
    # Wrappers such as accelerate's call the step of the optimizer inside, and only that one runs hooks.
    while isinstance(inside := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inside
    hooks = getattr(optimizer, "_optimizer_step_post_hooks", {}).values()
    if any(isinstance(getattr(hook, "__self__", None), Attachment) for hook in hooks):
        raise SignwiseError("the optimizer already drives a model: detach() the first attachment before another")
    return Attachment(optimizer, model, schedule, decay, scale_weight_decay)
