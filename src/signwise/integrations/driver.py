"""What the callbacks share: a schedule whose length only the trainer knows, and attach() once it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch import nn
from torch.optim import Optimizer

from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.schedule import Attachment, BinarizationSchedule, Decay, attach


class Driver:
    """A schedule without its number of steps, which :meth:`start` takes from the trainer.

    Args:
        t_alpha: T_α, the fraction of all steps after which α is 1.
        zeta_range: ζ₀ and ζ₁, at the start and at the last step.
        zeta_ramp: the last fraction of the steps, over which ζ rises.
        decay: makes the decay of learning rate and weight decay; called with ``total_steps=``.
        scale_weight_decay: see :func:`signwise.attach`. By default weight decay follows the learning rate for the
            optimizers whose step does not multiply the two, such as :class:`signwise.SGDW`.
    """

    def __init__(
        self,
        t_alpha: float,
        zeta_range: tuple[float, float],
        zeta_ramp: float,
        decay: Callable[..., Decay] | None,
        scale_weight_decay: bool | None,
    ) -> None:
        self._decay, self._scale_weight_decay = decay, scale_weight_decay
        self._settings = (t_alpha, zeta_range, zeta_ramp)
        self._schedule(1)  # a wrong setting is refused here, not when the training starts
        self.attachment: Attachment | None = None

    def _schedule(self, total_steps: int) -> BinarizationSchedule:
        return BinarizationSchedule(total_steps, *self._settings)

    def start(self, optimizers: Iterable[Optimizer], model: nn.Module, total_steps: int, step: int) -> None:
        """Attach to the optimizer that trains the latents.

        Args:
            optimizers: the trainer's optimizers, with the state of a checkpoint if there is one.
            model: the model.
            total_steps: optimizer steps of the whole training.
            step: optimizer steps that the trainer counts as done.
        """
        self.stop()
        optimizer = _optimizer_of(list(optimizers), model)
        decay = None if self._decay is None else self._decay(total_steps=total_steps)
        scale = self._scale_weight_decay
        if scale is None:
            scale = bool(getattr(optimizer, "decay_ignores_lr", False))
        self.attachment = attach(optimizer, model, self._schedule(total_steps), decay, scale_weight_decay=scale)
        # The optimizer's own count knows the steps that mixed precision skipped. It is wrong only where a new training
        # starts with an optimizer that has trained before, or where the checkpoint has no optimizer.
        if step == 0 or self.attachment.step == 0:
            self.attachment.step = step

    def stop(self) -> None:
        """Let go of the optimizer; the model keeps the α and ζ of its step."""
        if self.attachment is not None:
            # A moving average of the weights, copied back at the end, has averaged α and ζ too: set them again.
            self.attachment.step = self.attachment.step
            self.attachment.detach()
            self.attachment = None


def _optimizer_of(optimizers: list[Optimizer], model: nn.Module) -> Optimizer:
    latents = {id(layer.weight): name for name, layer in binary_layers(model)}
    if not latents:
        raise SignwiseError("the model has no binary layer: call signwise.binarize_(model) before the training")
    plain = [_innermost(optimizer) for optimizer in optimizers]
    if len(plain) == 1:  # also where a wrapper has replaced the parameters
        return plain[0]
    owned = [{id(weight) for group in optimizer.param_groups for weight in group["params"]} for optimizer in plain]
    found = [optimizer for optimizer, weights in zip(plain, owned, strict=True) if weights & latents.keys()]
    if len(found) != 1:
        raise SignwiseError(
            f"{len(found)} of {len(plain)} optimizers train binary layers, and exactly one can count the steps: "
            "give all binary layers to one optimizer"
        )
    return found[0]


def _innermost(optimizer: Optimizer) -> Optimizer:
    # accelerate wraps the optimizer, and the class inside says how it treats weight decay.
    while isinstance(inside := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inside
    return optimizer
