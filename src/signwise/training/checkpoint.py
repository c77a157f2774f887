"""One file with all that a run needs to go on, written whole or not at all, and the one before it.

A checkpoint is a safetensors file: tensors by name, and in its metadata one key ``signwise`` with a JSON object. The
JSON holds a checksum of the tensors, so that a damaged file is recognized as one and the previous checkpoint is used.
"""

from __future__ import annotations

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
from torch import Tensor

from signwise.atomic import atomic_write
from signwise.errors import FormatError, SignwiseError

CURRENT = "checkpoint.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run between two steps.

    Args:
        tensors: weights, momentum and running sums, on the CPU.
        record: the rest, as JSON knows it: numbers, texts, lists and objects.
    """

    tensors: Mapping[str, Tensor]
    record: Mapping[str, Any]


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data, value)
    return value


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any], keep: Path | None = None
) -> None:
    """Write a safetensors file with a JSON record; the file that stood there takes the name ``keep``.

    Raises:
        SignwiseError: the disk is full or the folder cannot be written; what stood there is still there.
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    envelope = dict(record) | {"version": _VERSION, "checksum": _checksum(ready)}
    text = json.dumps(envelope, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        with atomic_write(path) as file:
            file.write(save(ready, metadata={"signwise": text}))
            file.flush()
            os.fsync(file.fileno())
            # Only now are the new bytes safe, so only now may the old ones move. A crash before the new file takes its
            # name leaves the old one under the name of the previous checkpoint, where read() finds it.
            if keep is not None and path.exists():
                path.replace(keep)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SignwiseError(f"cannot write {path}: {reason}; what was saved before is intact") from error


def read_tensors(path: Path) -> Checkpoint:
    """Read what :func:`write_tensors` wrote.

    Raises:
        FormatError: the file is not one of ours, or it is damaged.
        FileNotFoundError: there is none.
    """
    try:
        # At once: a run that goes on may put another file under this name at any moment.
        data = path.read_bytes()
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        record = json.loads(header["__metadata__"]["signwise"])
        version, checksum = record["version"], record["checksum"]
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} is cut short or was not written by signwise: {error}") from error
    if version != _VERSION:
        raise FormatError(f"{path} has version {version} of the format; this signwise reads version {_VERSION}")
    if checksum != _checksum(tensors):
        raise FormatError(f"{path} is damaged: its checksum does not match its contents")
    return Checkpoint(tensors, record)


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Make this the run's checkpoint and keep the one that was."""
    write_tensors(folder / CURRENT, checkpoint.tensors, checkpoint.record, keep=folder / PREVIOUS)


def read(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint of a run that can be read.

    Returns:
        The checkpoint, or ``None`` if the run has not written one yet; and a sentence for each file that was passed
        over because it is damaged.

    Raises:
        FormatError: there are checkpoints, and none of them can be read.
    """
    complaints: list[str] = []
    for name in (CURRENT, PREVIOUS):
        path = folder / name
        try:
            return read_tensors(path), complaints
        except FileNotFoundError:
            continue
        except FormatError as error:
            complaints.append(str(error))
    if complaints:
        raise FormatError("; ".join(complaints) + f": no good checkpoint is left in {folder}, start the run again")
    return None, complaints
