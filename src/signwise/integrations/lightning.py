"""A Lightning callback that drives binarization; it takes the number of steps from the trainer.

    trainer = Trainer(max_epochs=10, callbacks=[Binarization(t_alpha=0.5)])

The optimizer's state carries the step, so that ``trainer.fit(model, ckpt_path=...)`` continues exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from signwise.errors import SignwiseError
from signwise.integrations.driver import Driver
from signwise.invocation import install
from signwise.schedule import Decay

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "lightning":
        raise
    message = f"signwise.integrations.lightning needs Lightning: {install('lightning')}"
    raise ImportError(message) from error


class Binarization(Callback):
    """Moves α and ζ with the optimizer's steps, and lets the methods of the binary layers do their part.

    Call :func:`signwise.binarize_` on the module before ``trainer.fit``, in its ``__init__`` or ``configure_model``.
    A thin layer over :func:`signwise.attach`: gradient accumulation, clipping, mixed precision and several processes
    need nothing else.

    Args:
        t_alpha: T_α, the fraction of all steps after which α is 1.
        zeta_range: ζ₀ and ζ₁, at the start and at the last step.
        zeta_ramp: the last fraction of the steps, over which ζ rises.
        decay: a class of decay, such as ``signwise.CosineDecay``, or a function that takes ``total_steps`` and returns
            one. ``None`` leaves the learning rate to the module's own scheduler.
        scale_weight_decay: whether weight decay falls with the learning rate; by default only for optimizers whose step
            does not multiply the two, such as :class:`signwise.SGDW`.

    Raises:
        SignwiseError: when training starts: the number of steps is unknown, the model has no binary layer, or both
            ``decay`` and a scheduler would set the learning rate.

    Example:
        >>> import signwise as sw
        >>> callback = Binarization(t_alpha=0.5, decay=sw.CosineDecay)
        >>> callback.step is None  # before the training
        True
    """

    def __init__(
        self,
        t_alpha: float = 0.9,
        zeta_range: tuple[float, float] = (1.0, 12.0),
        zeta_ramp: float = 0.1,
        *,
        decay: Callable[..., Decay] | None = None,
        scale_weight_decay: bool | None = None,
    ) -> None:
        self._decays = decay is not None
        self._driver = Driver(t_alpha, zeta_range, zeta_ramp, decay, scale_weight_decay)

    @property
    def step(self) -> int | None:
        """The optimizer step that comes next; ``None`` outside of a training."""
        return None if self._driver.attachment is None else self._driver.attachment.step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._decays and trainer.lr_scheduler_configs:
            raise SignwiseError(
                "both the callback's decay and a scheduler of configure_optimizers set the learning rate: leave one out"
            )
        self._driver.start(trainer.optimizers, pl_module, _total_steps(trainer), trainer.global_step)

    # Not on_train_end: callbacks that average the weights replace the model's there.
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._driver.stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._driver.stop()


def _total_steps(trainer: Trainer) -> int:
    steps = trainer.estimated_stepping_batches
    # Lightning answers infinity for endless training, and -1 for a loader without a length.
    if not 1 <= steps < math.inf:
        raise SignwiseError(
            "the schedule of α needs the number of steps, and this trainer has none (endless training, or a loader "
            "without a length): give the Trainer max_steps"
        )
    return int(steps)
