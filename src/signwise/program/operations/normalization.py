"""Normalization by statistics of the example itself: layer, group, instance and RMS norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from signwise.errors import FormatError
from signwise.program.operations.base import (
    LARGEST_SIZE,
    Array,
    NativeField,
    Operation,
    Shape,
    Tensors,
    TensorSpec,
    check_axes,
    check_flag,
    check_integer,
    check_number,
    check_tensor_name,
    check_within,
    per_channel,
)


@dataclass(frozen=True, kw_only=True)
class Normalize(Operation):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias; not centered, x / sqrt(mean(x²) + epsilon) * scale + bias.

        layer norm      axes: the last ones             scale and bias per number of these dimensions
        RMS norm        the same, not centered
        instance norm   axes: all but the channels      per_channel
        group norm      axes: all, groups: their count  per_channel

    Args:
        axes: the dimensions over which mean and variance are taken.
        epsilon: what is added to the variance.
        centered: whether the mean is subtracted.
        groups: parts of the first dimension that are normalized by themselves; more than 1 needs all ``axes``.
        scale, bias: names of tensors; ``None`` means 1 and 0.
        per_channel: whether scale and bias have one number per channel instead of the shape of ``axes``.
    """

    kind: ClassVar[str] = "normalize"
    number: ClassVar[int] = 17
    tensor_attributes: ClassVar[tuple[str, ...]] = ("scale", "bias")
    number_attributes: ClassVar[tuple[str, ...]] = ("epsilon",)

    axes: tuple[int, ...]
    epsilon: float
    centered: bool = True
    groups: int = 1
    scale: str | None = None
    bias: str | None = None
    per_channel: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_axes("axes", self.axes)
        check_number("epsilon", self.epsilon)
        check_flag("centered", self.centered)
        check_integer("groups", self.groups, 1, LARGEST_SIZE)
        check_tensor_name("scale", self.scale, optional=True)
        check_tensor_name("bias", self.bias, optional=True)
        check_flag("per_channel", self.per_channel)
        if self.epsilon < 0:
            raise FormatError(f"epsilon must not be negative, got {self.epsilon}")
        if self.groups > 1 and not self.per_channel:
            raise FormatError("a norm over groups has scale and bias per channel")

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        shape = inputs[0]
        check_within("axis", self.axes, shape)
        if self.groups > 1 and (len(self.axes) != len(shape) or shape[0] % self.groups):
            raise FormatError(f"{self.groups} groups over axes {list(self.axes)} do not fit the shape {list(shape)}")
        return shape

    def tensors(self, inputs: Sequence[Shape]) -> Iterator[TensorSpec]:
        shape = inputs[0][:1] if self.per_channel else tuple(inputs[0][axis] for axis in self.axes)
        if self.scale is not None:
            yield TensorSpec("scale", self.scale, np.float32, shape)
        if self.bias is not None:
            yield TensorSpec("bias", self.bias, np.float32, shape)

    def evaluate(self, inputs: Sequence[Array], tensors: Tensors) -> Array:
        batch, channels, *rest = inputs[0].shape
        # (batch, channels, ...) -> (batch, groups, channels / groups, ...)
        x = inputs[0].reshape(batch, self.groups, channels // self.groups, *rest)
        axes = tuple(axis + 2 for axis in self.axes)
        if self.centered:
            x = x - x.mean(axis=axes, keepdims=True)
        variance = np.square(x).mean(axis=axes, keepdims=True)
        normal: Array = (x / np.sqrt(variance + self.epsilon)).reshape(inputs[0].shape)
        if self.scale is not None:
            normal = normal * self._spread(tensors[self.scale], normal)
        if self.bias is not None:
            normal = normal + self._spread(tensors[self.bias], normal)
        return normal

    def _spread(self, numbers: Array, like: Array) -> Array:
        if self.per_channel:
            return per_channel(numbers, like)
        kept = [size if axis - 1 in self.axes else 1 for axis, size in enumerate(like.shape)]
        return numbers.astype(like.dtype).reshape(kept)

    def native_fields(self, tensors: Tensors) -> dict[str, NativeField]:
        return {
            "axes": self.axes,
            "groups": self.groups,
            "flags": self.centered | self.per_channel << 1,
            "numbers": (self.epsilon,),
            "scale": None if self.scale is None else tensors[self.scale],
            "bias": None if self.bias is None else tensors[self.bias],
        }
