"""Arrays from outside: batches of examples, checked against what a program takes, and tensors that nobody changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from signwise.errors import SignwiseError
from signwise.program.checks import Input
from signwise.text import counted


def as_inputs(inputs: Sequence[Input], given: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """A batch as a program reads it: float32 or int32, C-contiguous and aligned; other shapes are refused.

    Args:
        inputs: of the program.
        given: ``(batch, *shape)`` for each input, of any real type.
    """
    if len(given) != len(inputs):
        raise SignwiseError(f"the program has {counted(len(inputs), 'input')}, got {counted(len(given), 'array')}")
    arrays = []
    for number, (taken, array) in enumerate(zip(inputs, given, strict=True)):
        name = "the input" if len(given) == 1 else f"input {number}"
        arrays.append(_as_input(name, taken, _as_array(name, array)))
    if len({len(array) for array in arrays}) != 1:
        raise SignwiseError(f"all inputs must have as many examples, got {[len(array) for array in arrays]}")
    return arrays


def read_only(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    held: npt.NDArray[Any] = np.require(tensor, requirements=["C", "A"])
    if held is tensor or held.base is not None:
        held = held.view()
    held.flags.writeable = False
    return held


def _as_array(name: str, given: Any) -> npt.NDArray[Any]:
    """An array of anything that numpy reads, and of tensors with gradients or in bfloat16, which it does not."""
    if hasattr(given, "detach"):
        given = given.detach()
        given = given.float() if str(given.dtype) == "torch.bfloat16" else given
    found = np.asarray(given)
    if found.dtype.kind == "O":
        batch = "; one batch of a loader is next(iter(loader))" if hasattr(given, "__iter__") else ""
        raise SignwiseError(f"{name} must be an array of examples, got {type(given).__name__}{batch}")
    return found


def _shape_hint(expected: tuple[int, ...], found: tuple[int, ...]) -> str:
    """What is probably wrong with the shape of images, as the end of a sentence."""
    channels_last = (*expected[1:], *expected[:1])
    if found == expected:
        return "; a single one needs a batch: x[None]"
    if len(expected) == 3 and found[1:] == channels_last:
        return "; channels come first: x.transpose(0, 3, 1, 2)"
    if len(expected) == 3 and found == channels_last:
        return "; channels come first, after the batch: x.transpose(2, 0, 1)[None]"
    return ""


def _as_input(name: str, given: Input, found: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if found.shape[1:] != given.shape or found.ndim != len(given.shape) + 1:
        expected = ", ".join(["batch", *map(str, given.shape)])
        raise SignwiseError(
            f"{name} must have shape ({expected}), got {found.shape}{_shape_hint(given.shape, found.shape)}"
        )
    if given.type == "float32":
        if found.dtype.kind not in "fiub":
            raise SignwiseError(f"{name} must hold real numbers, got {found.dtype}")
        return np.require(found, np.float32, ["C", "A"])
    if found.dtype.kind not in "iub":
        raise SignwiseError(f"{name} must hold whole numbers, such as tokens, got {found.dtype}")
    limits = np.iinfo(np.int32)
    if found.size and not limits.min <= int(found.min()) <= int(found.max()) <= limits.max:
        raise SignwiseError(f"{name} must hold numbers of 32 bits, got {found.min()} to {found.max()}")
    return np.require(found, np.int32, ["C", "A"])
