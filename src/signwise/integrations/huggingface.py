"""A callback for Hugging Face's Trainer that drives binarization, and packed models for ``from_pretrained``.

    Trainer(model, args, callbacks=[BinarizationCallback(t_alpha=0.5)], ...).train()

The optimizer's state carries the step, so that ``train(resume_from_checkpoint=True)`` continues exactly.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer

from signwise.errors import SignwiseError
from signwise.integrations.driver import Driver
from signwise.invocation import install

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "transformers":
        raise
    message = f"signwise.integrations.huggingface needs transformers: {install('transformers')}"
    raise ImportError(message) from error

from signwise.integrations.quantizer import SignwiseConfig, pack_pretrained_

__all__ = ["BinarizationCallback", "SignwiseConfig", "pack_pretrained_"]


class BinarizationCallback(TrainerCallback):
    """Moves α and ζ with the optimizer's steps, and lets the methods of the binary layers do their part.

    Call :func:`signwise.binarize_` on the model before it goes to the ``Trainer``. A thin layer over
    :func:`signwise.attach`: gradient accumulation, clipping, mixed precision and several processes need nothing else.
    The learning rate stays with the Trainer (``lr_scheduler_type``).

    Args:
        t_alpha: T_α, the fraction of all steps after which α is 1.
        zeta_range: ζ₀ and ζ₁, at the start and at the last step.
        zeta_ramp: the last fraction of the steps, over which ζ rises.
        scale_weight_decay: whether weight decay falls with the learning rate; by default only for optimizers whose step
            does not multiply the two, such as :class:`signwise.SGDW`.

    Raises:
        SignwiseError: when training starts: the model has no binary layer, or DeepSpeed replaces the optimizer.

    Example:
        >>> callback = BinarizationCallback(t_alpha=0.5)
        >>> callback.step is None  # before the training
        True
    """

    def __init__(
        self,
        t_alpha: float = 0.9,
        zeta_range: tuple[float, float] = (1.0, 12.0),
        zeta_ramp: float = 0.1,
        *,
        scale_weight_decay: bool | None = None,
    ) -> None:
        self._driver = Driver(t_alpha, zeta_range, zeta_ramp, None, scale_weight_decay)

    @property
    def step(self) -> int | None:
        """The optimizer step that comes next; ``None`` outside of a training."""
        return None if self._driver.attachment is None else self._driver.attachment.step

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        optimizer: Optimizer,
        **kwargs: Any,
    ) -> None:
        if args.deepspeed is not None:
            raise SignwiseError(
                "DeepSpeed steps an optimizer of its own, which runs no hooks, so α would never move: train with DDP "
                "or FSDP instead"
            )
        # The Trainer itself refuses a data set without a length unless max_steps is given, so this number is known.
        self._driver.start([optimizer], model, state.max_steps, state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._driver.stop()
