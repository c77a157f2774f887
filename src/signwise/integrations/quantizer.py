"""Packed models of transformers: ``from_pretrained`` loads what ``save_pretrained`` wrote after ``pack_pretrained_``.

The configuration of the model names the packed layers and the shapes of their bits and scales, so that transformers can
build the layers before it loads the weights. Importing ``signwise.integrations.huggingface`` registers the format.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.quantizers.auto import (
    AUTO_QUANTIZATION_CONFIG_MAPPING,
    AUTO_QUANTIZER_MAPPING,
)
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from signwise.errors import SignwiseError
from signwise.packing import pack_
from signwise.packing.layers import PackedLayer, UnpackedLayer
from signwise.packing.pack import PackReport, become_packed_, packed_class

NAME = "signwise"


class SignwiseConfig(QuantizationConfigMixin):
    """The packed layers of a model, as its ``config.json`` stores them.

    Args:
        layers: the shapes of ``bits`` and ``scale`` by the name of each layer; ``scale`` may be ``None``.
    """

    def __init__(self, layers: dict[str, dict[str, list[int] | None]] | None = None, **kwargs: Any) -> None:
        self.quant_method = NAME
        self.layers = layers or {}


class SignwiseQuantizer(HfQuantizer):
    """Builds the packed layers of a model on transformers' way to load it."""

    requires_calibration = True  # only models that are packed already

    def _process_model_before_weight_loading(self, model: nn.Module, **kwargs: Any) -> None:
        for name, shapes in self.quantization_config.layers.items():
            try:
                layer = model.get_submodule(name)
            except AttributeError:
                raise SignwiseError(f"the packed file has a layer {name!r}, which the model lacks") from None
            kind = packed_class(type(layer))
            if kind is None or issubclass(kind, UnpackedLayer):
                raise SignwiseError(f"{name} is a {type(layer).__name__}, which from_pretrained cannot load packed")
            scale = shapes["scale"]
            with torch.device("meta"):
                bits = torch.empty(shapes["bits"], dtype=torch.uint8)
                become_packed_(layer, bits, None if scale is None else torch.empty(scale))

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return False


AUTO_QUANTIZATION_CONFIG_MAPPING.setdefault(NAME, SignwiseConfig)
AUTO_QUANTIZER_MAPPING.setdefault(NAME, SignwiseQuantizer)


def pack_pretrained_(model: Any) -> PackReport:
    """:func:`signwise.pack_` for a model of transformers; ``save_pretrained`` then stores one bit per weight.

    In a new process, ``import signwise.integrations.huggingface`` before ``from_pretrained``.

    Args:
        model: a trained ``PreTrainedModel`` with binary layers.

    Raises:
        SignwiseError: the model has no binary layer, or one that ``from_pretrained`` could not load packed.
    """
    unable = [name for name, layer in model.named_modules() if _loads_unpacked(layer)]
    if unable:
        raise SignwiseError(
            f"from_pretrained cannot load packed one-dimensional, three-dimensional and transposed convolutions: keep "
            f"{', '.join(unable)} float with skip"
        )
    report = pack_(model)
    layers: dict[str, dict[str, list[int] | None]] = {
        name: {"bits": list(layer.bits.shape), "scale": _shape(layer.scale)}
        for name, layer in model.named_modules()
        if isinstance(layer, PackedLayer)
    }
    model.config.quantization_config = SignwiseConfig(layers)
    model.hf_quantizer = SignwiseQuantizer(model.config.quantization_config)
    return report


def _shape(tensor: Tensor | None) -> list[int] | None:
    return None if tensor is None else list(tensor.shape)


def _loads_unpacked(layer: nn.Module) -> bool:
    if not hasattr(layer, "relaxed_weight"):  # a binary layer
        return False
    kind = packed_class(type(layer))
    return kind is not None and issubclass(kind, UnpackedLayer)
