"""Packed layers: what a binary layer becomes after training, with one bit per weight in memory and on disk.

    y = scale * F(x, signs) + bias

The state dict holds ``bits`` (uint8, rows of whole bytes), and ``scale`` and ``bias`` where the layer has them. Linear
layers and two-dimensional convolutions compute on the bits; the other kinds unpack them once and use PyTorch's layer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from signwise.errors import SignwiseError
from signwise.methods.method import per_weight
from signwise.packing.operators import packed_conv2d, packed_linear, unpack_signs


class PackedLayer(nn.Module):
    """What all packed layers share. :func:`signwise.pack_` makes them from binary layers, in place."""

    bits: Tensor
    scale: Tensor | None
    bias: Tensor | None

    def become_packed_(self, bits: Tensor, scale: Tensor | None) -> None:
        """Replace the weight of a binary or float layer by its bits, and drop what training needs."""
        latent = self._parameters["weight"]
        assert latent is not None
        bias = None if self.bias is None else self.bias.detach()
        for name in ("weight", "bias"):
            self._parameters.pop(name, None)
        for name in self.__dict__.get("state_names", ()):  # a float layer has none
            delattr(self, name)
        for name in ("method", "output_scale", "use_relaxed", "frozen", "state_names"):
            self.__dict__.pop(name, None)
        self.register_buffer("bits", bits)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        # Nothing but a type and a device, which .to() and .half() change as they would change the weight's.
        like = torch.empty(0, dtype=latent.dtype, device=bits.device)
        self.register_buffer("_like_weight", like, persistent=False)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if f"{prefix}weight" in state_dict:
            args[-1].append(
                f"{prefix}weight belongs to a model before pack_: load it into the float or binary model, then pack_; "
                "signwise.load_packed_(model, state_dict) loads packed state dicts into any of them"
            )

    def refuse_training(self) -> None:
        if self.training:
            raise SignwiseError("packed layers are for inference: call model.eval() first, or train before pack_")


class _WeightFromBits(PackedLayer):
    """Computes on bits, and unpacks them for code that asks for the layer's weight."""

    _like_weight: Tensor

    @property
    def weight(self) -> Tensor:
        """The weight that the layer computes with, unpacked anew at each call; a change of it changes nothing."""
        weight = unpack_signs(self.bits, self._weight_shape(), self._like_weight.dtype)
        if self.scale is not None:
            weight = weight * per_weight(self.scale.to(weight.dtype), weight)
        return weight

    def _weight_shape(self) -> tuple[int, ...]:
        raise NotImplementedError


class PackedLinear(_WeightFromBits):
    """A linear layer on packed weights."""

    in_features: int
    out_features: int

    def forward(self, input: Tensor) -> Tensor:
        self.refuse_training()
        if input.shape[-1] != self.in_features:
            raise SignwiseError(f"the input has {input.shape[-1]} features, the layer takes {self.in_features}")
        result: Tensor = packed_linear(input, self.bits, self.scale, self.bias)
        return result

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"

    def _weight_shape(self) -> tuple[int, ...]:
        return self.out_features, self.in_features


class PackedTransposedLinear(PackedLinear):
    """GPT-2's ``Conv1D``, whose weight is (inputs, outputs); its bits are those of a linear layer."""

    nf: int
    nx: int

    def become_packed_(self, bits: Tensor, scale: Tensor | None) -> None:
        self.in_features, self.out_features = self.nx, self.nf
        super().become_packed_(bits, scale)

    @property
    def weight(self) -> Tensor:
        return super().weight.t()


class PackedConv2d(_WeightFromBits):
    """A two-dimensional convolution on packed weights."""

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: str | tuple[int, int]
    padding_mode: str
    dilation: tuple[int, int]
    groups: int
    _reversed_padding_repeated_twice: list[int]  # left, right, top, bottom, for every way to ask for padding

    def forward(self, input: Tensor) -> Tensor:
        self.refuse_training()
        batch = input if input.dim() == 4 else input.unsqueeze(0)
        if batch.dim() != 4 or batch.shape[1] != self.in_channels:
            raise SignwiseError(f"the input has shape {list(input.shape)}, the layer takes {self.in_channels} channels")
        # As in nn.Conv2d, a padding that was changed after construction counts where zeros are padded.
        left, right, top, bottom = self._reversed_padding_repeated_twice
        if self.padding_mode == "zeros" and not isinstance(self.padding, str):
            (top, left), (bottom, right) = self.padding, self.padding
        if self.padding_mode != "zeros":
            batch = F.pad(batch, (left, right, top, bottom), mode=self.padding_mode)
            left = right = top = bottom = 0
        padding = [top, left, bottom, right]
        result: Tensor = packed_conv2d(
            batch, self.bits, self.scale, self.bias, self.kernel_size, self.stride, padding, self.dilation, self.groups
        )
        return result if input.dim() == 4 else result.squeeze(0)

    def extra_repr(self) -> str:
        size = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        return f"{size}, padding={self.padding}, groups={self.groups}, bias={self.bias is not None}"

    def _weight_shape(self) -> tuple[int, ...]:
        return self.out_channels, self.in_channels // self.groups, *self.kernel_size


class UnpackedLayer(PackedLayer):
    """Packed only in the state dict; unpacked on load and run by PyTorch's own layer."""

    weight: Tensor
    groups: int
    transposed: bool

    def become_packed_(self, bits: Tensor, scale: Tensor | None) -> None:
        latent = self.weight.detach()
        super().become_packed_(bits, scale)
        self.register_buffer("weight", latent, persistent=False)
        self.unpack_()

    def unpack_(self) -> None:
        """Restore the weight of PyTorch's layer from the bits."""
        weight = unpack_signs(self.bits, self.weight.shape, self.weight.dtype)
        if self.scale is not None:
            weight = weight * self._scale_like(weight)
        self.weight = weight

    def _scale_like(self, weight: Tensor) -> Tensor:
        assert self.scale is not None
        ones = [1] * (weight.dim() - 2)
        if not self.transposed:
            return self.scale.view(-1, 1, *ones).to(weight.dtype)
        # Transposed convolutions store (in, out / groups, ...): all inputs of a group share the scales of its filters.
        per_group = self.scale.view(self.groups, 1, -1).expand(-1, weight.shape[0] // self.groups, -1)
        return per_group.reshape(*weight.shape[:2], *ones).to(weight.dtype)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.unpack_()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        self.refuse_training()
        result: Tensor = super().forward(*args, **kwargs)
        return result


class PackedConv1d(UnpackedLayer, nn.Conv1d):
    """``nn.Conv1d`` with weights from bits."""


class PackedConv3d(UnpackedLayer, nn.Conv3d):
    """``nn.Conv3d`` with weights from bits."""


class PackedConvTranspose1d(UnpackedLayer, nn.ConvTranspose1d):
    """``nn.ConvTranspose1d`` with weights from bits."""


class PackedConvTranspose2d(UnpackedLayer, nn.ConvTranspose2d):
    """``nn.ConvTranspose2d`` with weights from bits."""


class PackedConvTranspose3d(UnpackedLayer, nn.ConvTranspose3d):
    """``nn.ConvTranspose3d`` with weights from bits."""
