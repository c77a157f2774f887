"""α(t), ζ(t) and the factors on learning rate and weight decay, as pure functions of the step.

    α(t) = min(t / (T_α T), 1),  or 1 where T_α = 0
    ζ(t) = ζ₀ for the first 1 - r of the steps, then rises linearly to reach ζ₁ at the last step
    f(t) = factor ^ (number of milestones passed), times the linear warm-up for the learning rate

Stateless, so that a resumed run needs nothing but its step. Steps count from 0: the first optimizer step is step 0 and
the last is ``total_steps - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from signwise.errors import SignwiseError
from signwise.layers import binary_layers


class BinarizationSchedule:
    """How far binarization has gone at each step.

    Args:
        total_steps: T, the number of optimizer steps of the whole training; at least 1.
        t_alpha: T_α, the fraction of all steps after which α is 1; 0 means from the start.
        zeta: ζ at the start and at the last step.
        zeta_ramp: r, the last fraction of the steps, over which ζ rises.

    Example:
        >>> schedule = BinarizationSchedule(1000, t_alpha=0.5)
        >>> schedule.alpha(250), schedule.zeta(0), schedule.zeta(999)
        (0.5, 1.0, 12.0)
    """

    def __init__(
        self,
        total_steps: int,
        t_alpha: float = 0.9,
        zeta: tuple[float, float] = (1.0, 12.0),
        zeta_ramp: float = 0.1,
    ) -> None:
        if total_steps < 1:
            raise SignwiseError(f"total_steps must be at least 1, got {total_steps}")
        if not 0 <= t_alpha <= 1:
            raise SignwiseError(f"t_alpha must be in [0, 1], got {t_alpha}")
        if not (0 <= zeta[0] < float("inf") and 0 <= zeta[1] < float("inf")):
            raise SignwiseError(f"zeta must be two finite numbers of at least 0, got {zeta}")
        if not 0 <= zeta_ramp <= 1:
            raise SignwiseError(f"zeta_ramp must be in [0, 1], got {zeta_ramp}")
        self.total_steps = total_steps
        self.t_alpha = t_alpha
        self.zeta_range = zeta
        self.zeta_ramp = zeta_ramp

    def alpha(self, step: int) -> float:
        if self.t_alpha == 0:
            return 1.0
        return min(step / (self.t_alpha * self.total_steps), 1.0)

    def zeta(self, step: int) -> float:
        start, end = self.zeta_range
        last = self.total_steps - 1
        first_risen = (1 - self.zeta_ramp) * self.total_steps
        if step >= last:
            return end
        if step < first_risen:
            return start
        # The last step of the plateau is the ramp's foot, so that the first step of the ramp has risen already.
        foot = first_risen - 1
        return start + (end - start) * (step - foot) / (last - foot)

    def apply_(self, model: nn.Module, step: int) -> None:
        """Set α and ζ of every binary layer to those of ``step``; call it before the forward pass of that step."""
        alpha, zeta = self.alpha(step), self.zeta(step)
        for _, layer in binary_layers(model):
            layer.set_progress_(alpha, zeta, min(step / max(self.total_steps - 1, 1), 1.0))

    def __repr__(self) -> str:
        return (
            f"BinarizationSchedule({self.total_steps}, t_alpha={self.t_alpha}, "
            f"zeta={self.zeta_range}, zeta_ramp={self.zeta_ramp})"
        )


@dataclass(frozen=True, kw_only=True)
class StepDecay:
    """Factors on learning rate and weight decay: a linear warm-up, then a constant factor at each milestone.

    Weight decay is reduced with the learning rate but not warmed up.

    Args:
        total_steps: the number of optimizer steps of the whole training.
        warmup_steps: steps over which the learning rate rises linearly to its full value.
        factor: what both are multiplied by at each milestone.
        milestones: fractions of the steps after the warm-up.

    Example:
        >>> decay = StepDecay(total_steps=1100, warmup_steps=100, factor=0.5, milestones=(0.5,))
        >>> decay.learning_rate(49), decay.learning_rate(100), decay.learning_rate(600)
        (0.5, 1.0, 0.5)
        >>> decay.weight_decay(49), decay.weight_decay(600)
        (1.0, 0.5)
    """

    total_steps: int
    warmup_steps: int = 0
    factor: float = 1.0
    milestones: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.total_steps < 1:
            raise SignwiseError(f"total_steps must be at least 1, got {self.total_steps}")
        if not 0 <= self.warmup_steps <= self.total_steps:
            raise SignwiseError(f"warmup_steps must be in [0, {self.total_steps}], got {self.warmup_steps}")
        if not 0 < self.factor <= 1:
            raise SignwiseError(f"factor must be in (0, 1], got {self.factor}")
        if not all(0 <= milestone <= 1 for milestone in self.milestones):
            raise SignwiseError(f"milestones must be fractions in [0, 1], got {self.milestones}")

    def weight_decay(self, step: int) -> float:
        after_warmup = self.total_steps - self.warmup_steps
        passed = sum(step >= self.warmup_steps + milestone * after_warmup for milestone in self.milestones)
        return float(self.factor**passed)

    def learning_rate(self, step: int) -> float:
        # The first step already moves: a warm-up of n steps takes 1/n, 2/n, ... n/n.
        warmup = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        return warmup * self.weight_decay(step)
