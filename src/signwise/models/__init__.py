"""The models of the paper, a VGG that a CPU trains, a CNN for microcontrollers and a small language model.

They are ordinary float models; `signwise.binarize_` makes them binary. Each consists of plain ``torch.nn`` layers
without data-dependent control flow, so that ``torch.fx``, ``torch.export`` and the compiler can trace it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from signwise.models.imported import imported_model
from signwise.models.lenet import lenet5
from signwise.models.llama import Llama, LlamaConfig, llama
from signwise.models.resnet import resnet8, resnet18, resnet20, wrn28_10
from signwise.models.standardize import Standardize
from signwise.models.tiny_cnn import tiny_cnn
from signwise.models.vgg import vgg_small
from signwise.models.vgg_fast import PatchWhitening, fit_to_images_, vgg_fast

MODELS: dict[str, Callable[..., nn.Module]] = {
    "lenet5": lenet5,
    "vgg_small": vgg_small,
    "vgg_fast": vgg_fast,
    "resnet8": resnet8,
    "resnet18": resnet18,
    "resnet20": resnet20,
    "wrn28_10": wrn28_10,
    "tiny_cnn": tiny_cnn,
}
"""The image classifiers by the names that commands and recipes use; each takes ``num_classes`` (default 10)."""

NAMES = MODELS

__all__ = [
    "MODELS",
    "Llama",
    "LlamaConfig",
    "PatchWhitening",
    "Standardize",
    "fit_to_images_",
    "imported_model",
    "lenet5",
    "llama",
    "resnet8",
    "resnet18",
    "resnet20",
    "tiny_cnn",
    "vgg_fast",
    "vgg_small",
    "wrn28_10",
]
