"""The state of a run in one file, written whole or not at all; the previous checkpoint stays until the next.

A checkpoint is a safetensors file: tensors by name, and in its metadata one key ``signwise`` with a JSON object, the
record. The record holds a checksum of everything, itself included, so that a damaged file is recognized and the
previous checkpoint used instead. Files of version 1 have a checksum of the tensors alone; they are still read.

    network/NAME            parameters and buffers; latent weights as they are
    optimizer/NAME/KEY      the optimizer's state of a parameter: its momentum
    totals                  the sums of the current epoch so far
    signs/NAME              the signs at the start of the current epoch, for the fraction that flips in it

There is no random state: order, augmentation and layers draw from (seed, step), see ``data``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError
from signwise.training.distributed import World
from signwise.training.step import Stepper

CURRENT = "checkpoint.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
_VERSION = 2
_TENSORS_ONLY = 1  # the version whose checksum leaves out the record


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run between two steps.

    Args:
        tensors: weights, momentum and running sums, on the CPU.
        record: everything else, as JSON: numbers, texts, lists and objects.
    """

    tensors: Mapping[str, Tensor]
    record: Mapping[str, Any]


@dataclass(kw_only=True)
class Progress:
    """How far a run has come.

    Args:
        step: steps done.
        epochs: epochs done and evaluated.
        best_error: the lowest error so far, in percent; ``None`` before the first evaluation.
        best_epoch: the epoch with the lowest error, from 1.
        last_error: the error of the last evaluation.
        seconds: time spent, over all attempts.
    """

    step: int = 0
    epochs: int = 0
    best_error: float | None = None
    best_epoch: int | None = None
    last_error: float | None = None
    seconds: float = 0.0

    @classmethod
    def from_json(cls, record: object) -> Progress:
        """The progress in a checkpoint's record.

        Raises:
            TypeError: the record has other fields, or values of other types.
        """
        if not isinstance(record, dict):
            raise TypeError(f"its progress is {record!r}")
        progress = cls(**record)
        counts = (progress.step, progress.epochs, progress.best_epoch or 0)
        numbers = (progress.best_error or 0.0, progress.last_error or 0.0, progress.seconds)
        if not all(type(count) is int and count >= 0 for count in counts):
            raise TypeError(f"its progress counts {counts}")
        if not all(type(number) in (int, float) for number in numbers):
            raise TypeError(f"its progress measures {numbers}")
        return progress


def _checksum(tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> int:
    covers_record = record["version"] != _TENSORS_ONLY
    value = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        form = f" {tensor.dtype} {list(tensor.shape)}" if covers_record else ""
        value = zlib.crc32((name + form).encode(), value)
        value = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, value)
    if covers_record:
        value = zlib.crc32(_json({key: record[key] for key in record if key != "checksum"}).encode(), value)
    return value


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any], keep: Path | None = None
) -> None:
    """Write a safetensors file with a JSON record.

    Args:
        path: the file.
        tensors: its tensors.
        record: its record.
        keep: the new name of a checkpoint that is already at ``path``. A damaged one is overwritten instead, so that
            it never takes the place of a good one.

    Raises:
        SignwiseError: the disk is full or the folder cannot be written; the file already there is intact.
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    envelope = dict(record) | {"version": _VERSION}
    text = _json(envelope | {"checksum": _checksum(ready, envelope)})
    try:
        with atomic_write(path) as file:
            file.write(save(ready, metadata={"signwise": text}))
            file.flush()
            os.fsync(file.fileno())
            # The old file may only move once the new bytes are safe. A crash before the new file has its name leaves
            # the old one under the name of the previous checkpoint, where read() finds it.
            if keep is not None and _is_good(path):
                path.replace(keep)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SignwiseError(f"cannot write {path}: {reason}; the previous checkpoint is intact") from error


def read_tensors(path: Path) -> Checkpoint:
    """Read what :func:`write_tensors` wrote.

    Raises:
        FormatError: signwise did not write the file, or it is damaged.
        FileNotFoundError: there is no such file.
    """
    try:
        # In one read: a running training may replace the file at any moment.
        data = path.read_bytes()
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        record = json.loads(header["__metadata__"]["signwise"])
        version = record["version"]
        is_known = version in (_TENSORS_ONLY, _VERSION)
        is_intact = is_known and record["checksum"] == _checksum(tensors, record)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FormatError(f"{path} is cut short or was not written by signwise: {error}") from error
    if not is_known:
        raise FormatError(f"{path} has version {version} of the format; this signwise reads versions 1 to {_VERSION}")
    if not is_intact:
        raise FormatError(f"{path} is damaged: its checksum does not match its contents")
    return Checkpoint(tensors, record)


def _read_checkpoint(path: Path) -> Checkpoint:
    found = read_tensors(path)
    try:
        Progress.from_json(found.record["progress"])
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged: its record does not fit: {error}") from error
    return found


def _is_good(path: Path) -> bool:
    try:
        _read_checkpoint(path)
    except (FormatError, FileNotFoundError):
        return False
    return True


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the run's checkpoint, and keep the one before it."""
    write_tensors(folder / CURRENT, checkpoint.tensors, checkpoint.record, keep=folder / PREVIOUS)


def read(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest readable checkpoint of a run.

    Returns:
        The checkpoint, or ``None`` if the run has not written one yet; and one sentence per damaged file that was
        skipped.

    Raises:
        FormatError: there are checkpoints, and none is readable.
    """
    complaints: list[str] = []
    for name in (CURRENT, PREVIOUS):
        path = folder / name
        try:
            return _read_checkpoint(path), complaints
        except FileNotFoundError:
            continue
        except FormatError as error:
            complaints.append(str(error))
    if complaints:
        raise FormatError("; ".join(complaints) + f": no good checkpoint is left in {folder}, start the run again")
    return None, complaints


def capture(stepper: Stepper, progress: Progress) -> Checkpoint:
    """The state of a run, between two steps."""
    tensors: dict[str, Tensor] = {"totals": stepper.totals} | model_tensors(stepper.model)
    tensors |= {f"signs/{name}": signs for name, signs in stepper.signs.items()}
    for name, parameter in stepper.model.named_parameters():
        for key, value in stepper.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{name}/{key}"] = value
    record = {"kind": "checkpoint", "progress": dataclasses.asdict(progress), "recipe": stepper.recipe.to_json()}
    return Checkpoint(tensors, record)


def restore_(stepper: Stepper, checkpoint: Checkpoint) -> Progress:
    """Bring a run to the state of its checkpoint; the inverse of :func:`capture`.

    Raises:
        FormatError: the checkpoint belongs to another model, or is not one of a run.
    """
    tensors = dict(checkpoint.tensors)
    if "totals" not in tensors:
        raise FormatError("the checkpoint has no tensor 'totals': it was not written by a run")
    load_model_(stepper.model, tensors)
    for name, parameter in stepper.model.named_parameters():
        state = _below(tensors, f"optimizer/{name}/")
        if state:
            stepper.optimizer.state[parameter] = {key: _laid_out_like(parameter, value) for key, value in state.items()}
    stepper.totals.copy_(tensors["totals"])
    device = stepper.world.device
    stepper.signs = {name: signs.to(device) for name, signs in _below(tensors, "signs/").items()}
    return Progress.from_json(checkpoint.record["progress"])


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and buffers under the names that :func:`load_model_` expects."""
    return {f"network/{name}": value for name, value in model.state_dict().items()}


def load_model_(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights of a checkpoint, or of the best or last weights, into a model.

    Raises:
        FormatError: the weights belong to another model.
    """
    try:
        model.load_state_dict(_below(tensors, "network/"))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise FormatError(f"the saved weights do not fit the model: {' '.join(lines[1:3])}") from None


def broadcast_checkpoint(world: World, checkpoint: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint that rank 0 read, on every process: other machines may not see rank 0's folder."""
    if world.size == 1:
        return checkpoint
    contents: dict[str, Any] | None = None
    if checkpoint is not None:
        shapes = {name: [list(value.shape), str(value.dtype)] for name, value in checkpoint.tensors.items()}
        contents = {"record": dict(checkpoint.record), "shapes": shapes}
    contents = json.loads(world.broadcast_text(json.dumps(contents)))
    if contents is None:
        return None
    tensors = {}
    for name, (shape, kind) in contents["shapes"].items():
        if checkpoint is not None:
            tensors[name] = checkpoint.tensors[name].to(world.device)
        else:
            tensors[name] = torch.empty(shape, dtype=getattr(torch, kind.removeprefix("torch.")), device=world.device)
    world.broadcast_(list(tensors.values()))
    return Checkpoint(tensors, contents["record"])


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    # A file has one memory layout; adding momentum to a weight of another layout would be slow.
    if value.shape != parameter.shape:
        return value.to(parameter.device)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)
