"""Weights to start from: those of a run, of a ``.safetensors`` file or of a PyTorch state dict; and the teacher.

The float model and the binary one have the same parameter names, so that a float network's weights become the latents.
With distillation the float network also teaches, by its softened outputs at temperature τ,

    loss = (1 - w) CE(student, labels) + w τ² KL(softmax(teacher / τ) ‖ softmax(student / τ))

The factor τ² keeps the gradient's size independent of the temperature (G. Hinton et al., Distilling the Knowledge in a
Neural Network, 2015).
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from signwise.errors import FormatError, SignwiseError
from signwise.training.recipe import Recipe
from signwise.training.step import build_model

_NETWORK = "network/"  # what a run's own files put in front of the model's names
_WRAPPERS = ("module.", "_orig_mod.")  # DDP and torch.compile put these in front of all names
_SHOWN = 4  # names in a message


@dataclass(frozen=True, kw_only=True, eq=False)
class Pretrained:
    """A trained network's state dict and where it comes from.

    Args:
        path: the file.
        sha256: the hash of its bytes.
        state: its tensors by the model's names.
        bits: the bit width of the network, 32 unless the file belongs to a run of 1 bit.
    """

    path: Path
    sha256: str
    state: Mapping[str, Tensor]
    bits: int = 32


def read_pretrained(source: str | Path) -> Pretrained:
    """Read weights to start from.

    Args:
        source: a run's folder, whose best weights are taken; a ``.safetensors`` file; or a file of ``torch.save`` that
            holds a state dict, such as ``.pt`` or ``.ckpt``. No code from a file is run.

    Raises:
        FormatError: there is no such file, or it holds no state dict.
    """
    source = Path(source)
    path = source / "best.safetensors" if source.is_dir() else source
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        what = "the run has no weights yet" if source.is_dir() else "there is no such file"
        raise FormatError(f"cannot start from {source}: {what}") from None
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
    found = _safetensors(path, data) if path.suffix == ".safetensors" else _state_dict(path, data)
    state = {_plain(name): value for name, value in found.items() if isinstance(value, Tensor)}
    if not state:
        raise FormatError(f"{path} holds no tensors by name: save model.state_dict()")
    return Pretrained(path=path, sha256=hashlib.sha256(data).hexdigest(), state=state, bits=_bits_of(path))


def _safetensors(path: Path, data: bytes) -> Mapping[str, Any]:
    try:
        return load_safetensors(data)
    except (SafetensorError, ValueError) as error:
        raise FormatError(f"{path} is cut short or is not a safetensors file: {error}") from error


def _state_dict(path: Path, data: bytes) -> Mapping[str, Any]:
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FormatError(
            f"{path} holds Python objects beside tensors, which are not loaded because they could run code: "
            "save model.state_dict() alone"
        ) from error
    except (RuntimeError, ValueError, EOFError, OSError, KeyError, AttributeError) as error:
        raise FormatError(f"{path} is damaged or is not a file of torch.save: {error}") from error
    # A checkpoint of many trainers holds the state dict beside other things.
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict):
        raise FormatError(f"{path} holds a {type(found).__name__}, not a state dict: save model.state_dict()")
    return found


def _plain(name: str) -> str:
    name = name.removeprefix(_NETWORK)
    for wrapper in _WRAPPERS:
        name = name.removeprefix(wrapper)
    return name


def _bits_of(path: Path) -> int:
    """The bit width of the run that a file belongs to; a file on its own is taken for a float network's."""
    try:
        config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        return 1 if config["recipe"]["bits"] == 1 else 32
    except (OSError, ValueError, KeyError, TypeError):
        return 32


def load_pretrained_(model: nn.Module, pretrained: Pretrained) -> None:
    """Load the weights into a model; binary layers take them as latents.

    Raises:
        SignwiseError: names or shapes differ; the message names them.
    """
    ours, theirs = model.state_dict(), pretrained.state
    fresh = {name for name in ours if name not in theirs} - _extras(model)
    problems = [f"no {name}" for name in sorted(fresh)]
    problems += [f"{name}, which the model lacks" for name in sorted(theirs.keys() - ours.keys())]
    problems += [
        f"{name} of shape {tuple(theirs[name].shape)} instead of {tuple(ours[name].shape)}"
        for name in ours
        if name in theirs and theirs[name].shape != ours[name].shape
    ]
    if problems:
        more = f" and {len(problems) - _SHOWN} more differences" if len(problems) > _SHOWN else ""
        raise SignwiseError(
            f"the weights in {pretrained.path} do not fit the model: they have {', '.join(problems[:_SHOWN])}{more}; "
            "start from a network of the same model and number of classes"
        )
    model.load_state_dict(dict(theirs), strict=False)


def _extras(model: nn.Module) -> set[str]:
    """What the methods of binary layers save beside the latent; a float network has none of it."""
    return {f"{name}.{extra}" for name, module in model.named_modules() for extra in getattr(module, "state_names", ())}


def build_teacher(recipe: Recipe, num_classes: int, pretrained: Pretrained) -> nn.Module:
    """The float network that teaches, in evaluation mode.

    Raises:
        SignwiseError: the weights are those of a binary network.
    """
    if pretrained.bits == 1:
        raise SignwiseError(f"`distill` needs a float teacher, and {pretrained.path} is a run with 1 bit")
    as_float = recipe.changed(bits=32, t_alpha=None, init_from=None, distill=False)
    teacher = build_model(as_float, num_classes)
    load_pretrained_(teacher, pretrained)
    return teacher.eval().requires_grad_(False)


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """τ² KL(softmax(teacher / τ) ‖ softmax(student / τ)), the mean over the images.

    Example:
        >>> outputs = torch.tensor([[1.0, 2.0]])
        >>> float(distillation_loss(outputs, outputs, 4.0))
        0.0
    """
    soft = F.log_softmax(student.float() / temperature, dim=1)
    target = F.log_softmax(teacher.float() / temperature, dim=1)
    return F.kl_div(soft, target, reduction="batchmean", log_target=True) * temperature**2
