"""What a layer asks of a way to make its weights binary.

A layer owns the latent weights and knows its geometry; a method knows how latents become weights. They exchange tensors
in *filter-major* form, (filters, weights of one filter ...): the layer rearranges its own weight where PyTorch stores
it otherwise, so that a method never has to know about transposed or grouped convolutions.

One optimizer step, as :func:`signwise.attach` drives it:

    knobs for this step -> weight (forward and backward) -> before_step_ -> optimizer -> after_step_

Everything a method remembers lives in the layer, as ``state``: the paper's α and ζ, the method's own knobs, and its
extras (moments, masks, learned scales), which are saved with the layer so that a resumed run continues exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from signwise.errors import SignwiseError
from signwise.transform import Partition, binary_sign

State: TypeAlias = Mapping[str, Tensor]
Knob: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, eq=False)
class Deployed:
    """What remains of a layer's weights after training: ``scale · mask · signs + offset``.

    Args:
        signs: -1 and +1, in the shape and type of the latent.
        scale: one positive factor per filter, (filters,), or per block of inputs, (filters, blocks); ``None`` for 1.
        offset: one number per filter that is added to each of its weights, or ``None`` for 0.
        mask: 1 where a weight is used and 0 where it is pruned, in the shape of the signs, or ``None`` for all ones.
    """

    signs: Tensor
    scale: Tensor | None = None
    offset: Tensor | None = None
    mask: Tensor | None = None

    @property
    def obstacle(self) -> str | None:
        """Why one bit per weight and a scale per filter cannot express these weights; ``None`` if they can."""
        if self.mask is not None:
            return "its weights have three values (-s, 0, +s), which one bit per weight cannot hold"
        if self.offset is not None:
            return "its two values are not symmetric around zero, and the packed kernels add no offset"
        return None

    def dense(self) -> Tensor:
        """The weights as one filter-major tensor."""
        weight = self.signs if self.mask is None else self.signs * self.mask
        if self.scale is not None:
            weight = weight * per_weight(self.scale, weight)
        return weight if self.offset is None else weight + per_filter(self.offset, weight)


class Method(ABC):
    """A binarization method: the training weight and its gradient, what surrounds a step, and the deployed form.

    Only :meth:`weight` must be written; the rest has defaults that do nothing.
    """

    blends_latent: ClassVar[bool] = False  # whether the weight is a mixture α · binary + (1 - α) φ

    @property
    def needs_attach(self) -> bool:
        """Whether the method acts before the optimizer's step or on its size, which only ``attach`` makes possible."""
        own = type(self)
        return (
            own.before_step_ is not Method.before_step_
            or own.step_factor is not Method.step_factor
            or own.frozen is not Method.frozen
        )

    @property
    def has_hooks(self) -> bool:
        """Whether the method does anything around an optimizer step."""
        return self.needs_attach or type(self).after_step_ is not Method.after_step_

    @property
    def groups(self) -> Partition:
        """The groups whose health is reported; one per filter by default."""
        return 0

    def rows(self, latent: Tensor) -> Tensor:
        """The latent as the tensor whose :attr:`groups` are reported: filter-major, or blocks of inputs as rows."""
        return latent

    def knobs(self) -> dict[str, Knob]:
        """Numbers with schedules of their own, by name: functions of the progress p, from 0 to 1 over the training."""
        return {}

    def extras(self, latent: Tensor) -> dict[str, Tensor]:
        """Tensors that the layer must own, by name: an ``nn.Parameter`` is learned, any other tensor is only saved."""
        return {}

    def initialize_(self, latent: Tensor, state: State, generator: torch.Generator | None = None) -> None:
        """Draw the initial latents as the method's authors do; they stay as they are by default."""
        return

    @abstractmethod
    def weight(self, latent: Tensor, state: State) -> Tensor:
        """The weight of the forward pass in training, carrying this method's gradient back to ``latent``.

        Args:
            latent: filter-major, (filters, ...).
            state: 0-dim ``alpha`` (progress of binarization, 0 to 1) and ``zeta`` (sharpness), the method's knobs as
                0-dim tensors, and its extras.
        """

    def before_step_(self, latent: Tensor, gradient: Tensor, state: State) -> None:
        """Use the gradient of a whole step, before the optimizer does; nothing by default."""
        return

    def step_factor(self, latent: Tensor) -> float:
        """A factor on the optimizer's step, unlike one on the gradient, which Adam would cancel."""
        return 1.0

    def frozen(self, progress: float) -> bool:
        """Whether the optimizer must leave the latents alone."""
        return False

    def after_step_(self, latent: Tensor, state: State, learning_rate: float) -> None:
        """Change the latent in place after an optimizer step (clip, centre, project); nothing by default."""
        return

    def deploy(self, latent: Tensor, state: State) -> Deployed:
        """The form that is evaluated and packed."""
        return Deployed(binary_sign(latent))


def fan_in(latent: Tensor) -> int:
    """The number of weights in one filter of a filter-major latent."""
    return latent[0].numel()


def fan_out(latent: Tensor) -> int:
    """The number of weights that one input channel meets in a filter-major latent."""
    return latent[:, 0].numel()


def per_filter(values: Tensor, like: Tensor) -> Tensor:
    """One value per filter, shaped to broadcast over a filter-major tensor: (filters,) -> (filters, 1, ...)."""
    return values.view(-1, *[1] * (like.dim() - 1))


def per_weight(scale: Tensor, like: Tensor) -> Tensor:
    """A deployed scale, (filters,) or (filters, blocks), shaped to broadcast over a filter-major tensor."""
    if scale.dim() == 1:
        return per_filter(scale, like)
    return scale.repeat_interleave(fan_in(like) // scale.shape[1], dim=1).view_as(like)


def in_blocks(latent: Tensor, block: int | None) -> Tensor:
    """Each block of a filter's inputs as a row of its own: (filters, inputs) -> (filters · blocks, block).

    Example:
        >>> in_blocks(torch.zeros(3, 256), 128).shape
        torch.Size([6, 128])
    """
    if block is None:
        return latent
    if latent.dim() != 2 or latent.shape[1] % block:
        raise SignwiseError(
            f"block={block} needs linear layers whose number of inputs is a multiple of it, got a weight of shape "
            f"{tuple(latent.shape)}"
        )
    return latent.reshape(-1, block)


def check_block(block: object) -> None:
    """Refuse anything but ``None`` and whole bytes of inputs, as packed rows need them."""
    if block is not None and (type(block) is not int or block < 8 or block % 8):
        raise SignwiseError(f"block must be a multiple of 8 inputs, got {block!r}")


def filter_mean(values: Tensor) -> Tensor:
    """The mean of each filter, (filters, ...) -> (filters, 1, ...)."""
    return values.mean(dim=tuple(range(1, values.dim())), keepdim=True)


def constant_per_filter(latent: Tensor, value: float | Tensor) -> Tensor:
    """A scale vector with the same value for every filter."""
    return latent.new_ones(latent.shape[0]) * value


def straight_through(weight: Tensor, latent: Tensor, factor: float | Tensor = 1.0) -> Tensor:
    """``weight`` forward, to the bit; backward the gradient times ``factor`` goes straight to ``latent``."""
    passed = latent * factor
    return weight.detach() + (passed - passed.detach())


@torch.no_grad()
def he_normal_(latent: Tensor, generator: torch.Generator | None = None) -> None:
    """Normal with standard deviation sqrt(2 / fan_in)."""
    latent.normal_(0, math.sqrt(2 / fan_in(latent)), generator=generator)
