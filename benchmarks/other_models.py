"""Models from other people's packages, as small as their configurations allow, with random weights.

Each entry of ``MODELS`` builds a :class:`Case`: a model, a batch of inputs and its loss. Packages are imported when a
case is built, so a missing package costs only its own models.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES = 10
WORDS = 64


@dataclass
class Case:
    """A model with one batch: ``inputs`` by keyword, or positional in a tuple; ``skip`` names layers to keep float."""

    model: nn.Module
    inputs: Mapping[str, Any] | tuple[Any, ...]
    loss: Callable[[Any], Tensor] = field(default=lambda outputs: outputs.loss)
    skip: tuple[str, ...] = ()

    def run(self, model: nn.Module) -> Any:
        return model(**self.inputs) if isinstance(self.inputs, Mapping) else model(*self.inputs)


Build = Callable[[], Case]
MODELS: dict[str, Build] = {}


def _named(name: str) -> Callable[[Build], Build]:
    def enter(build: Build) -> Build:
        MODELS[name] = build
        return build

    return enter


_declared: list[torch.library.Library] = []  # a library's declarations last as long as it does


def package(name: str) -> Any:
    """An optional package, or a module of it.

    torchvision, which timm and others import, comes from PyPI with operators for CUDA, which do not load beside the
    CPU build of PyTorch. Its Python code then fails because two of them are unknown. No model here calls these, so that
    their names are enough.
    """
    if not _declared and importlib.util.find_spec("torchvision") and "torchvision" not in sys.modules:
        _load_operators()
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, operator):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(library)
    return importlib.import_module(name)


def _load_operators() -> None:
    """torchvision's own operators, where they load: these must come before any declaration of ours."""
    found = importlib.util.find_spec("torchvision")
    assert found is not None and found.origin is not None
    with contextlib.suppress(OSError):
        torch.ops.load_library(str(Path(found.origin).parent / "_C.so"))


def images(size: int, batch: int = 8, channels: int = 3) -> Tensor:
    return torch.randn(batch, channels, size, size)


def labels(batch: int = 8) -> Tensor:
    return torch.arange(batch) % CLASSES


def words(batch: int = 4, length: int = 16) -> Tensor:
    return torch.randint(1, WORDS, (batch, length))


def first_tensor(outputs: Any) -> Tensor:
    """The predictions among the outputs of a model: the first float tensor that is no loss."""
    return next(_floats(outputs))


def _floats(outputs: Any) -> Iterator[Tensor]:
    if isinstance(outputs, Tensor):
        if outputs.is_floating_point() and outputs.dim():
            yield outputs
    elif isinstance(outputs, Mapping):
        for value in outputs.values():
            yield from _floats(value)
    elif isinstance(outputs, (list, tuple)):
        for value in outputs:
            yield from _floats(value)
    elif hasattr(outputs, "sample"):
        yield from _floats(outputs.sample)


def classifier(model: nn.Module, size: int, batch: int = 8) -> Case:
    target = labels(batch)
    return Case(model, (images(size, batch),), lambda outputs: F.cross_entropy(first_tensor(outputs), target))


def regressor(model: nn.Module, inputs: Mapping[str, Any], target: Tensor) -> Case:
    return Case(model, inputs, lambda outputs: F.mse_loss(first_tensor(outputs), target))


# transformers

_VISION: dict[str, tuple[str, dict[str, Any], int]] = {
    "resnet": ("ResNet", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"}, 32),
    "regnet": ("RegNet", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8}, 32),
    "mobilenet_v2": ("MobileNetV2", {"depth_multiplier": 0.25, "image_size": 64}, 64),
    "mobilevit": ("MobileViT", {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 16, 16, 24, 32, 40, 48],
                                "image_size": 64, "num_attention_heads": 2}, 64),
    "convnext": ("ConvNext", {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 2}, 32),
    "vit": ("ViT", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
                    "image_size": 32, "patch_size": 8}, 32),
    "dinov2": ("Dinov2", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32,
                          "patch_size": 8, "mlp_ratio": 2}, 32),
    "deit": ("DeiT", {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
                      "image_size": 32, "patch_size": 8}, 32),
    "swin": ("Swin", {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "image_size": 32,
                      "patch_size": 4}, 32),
    "efficientnet": ("EfficientNet", {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320,
                                      "image_size": 64}, 64),
}  # fmt: skip


def _vision(name: str) -> Case:
    transformers = package("transformers")

    kind, settings, size = _VISION[name]
    config = getattr(transformers, f"{kind}Config")(**settings, num_labels=CLASSES)
    model = getattr(transformers, f"{kind}ForImageClassification")(config)
    return Case(model, {"pixel_values": images(size), "labels": labels()})


for _name in _VISION:
    MODELS[f"transformers/{_name}"] = lambda name=_name: _vision(name)  # type: ignore[misc]


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def _language(kind: str, suffix: str, **settings: Any) -> Case:
    transformers = package("transformers")

    config = getattr(transformers, f"{kind}Config")(vocab_size=WORDS, **settings)
    tokens = words()
    return Case(getattr(transformers, kind + suffix)(config), {"input_ids": tokens, "labels": tokens})


_LANGUAGE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2", "LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32,
                                     "bos_token_id": 0, "eos_token_id": 0}),
    "llama": ("Llama", "ForCausalLM", _SMALL | {"tie_word_embeddings": False}),
    "llama, tied": ("Llama", "ForCausalLM", _SMALL | {"tie_word_embeddings": True}),
    "mistral": ("Mistral", "ForCausalLM", _SMALL | {"num_key_value_heads": 1}),
    "qwen2": ("Qwen2", "ForCausalLM", _SMALL | {"num_key_value_heads": 1}),
    "mixtral": ("Mixtral", "ForCausalLM", _SMALL | {"num_key_value_heads": 2, "num_local_experts": 4}),
    "mamba": ("Mamba", "ForCausalLM", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}),
    "bert": ("Bert", "ForMaskedLM", _SMALL | {"max_position_embeddings": 32}),
    "t5": ("T5", "ForConditionalGeneration", {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2,
                                              "decoder_start_token_id": 0}),
}  # fmt: skip

for _name in _LANGUAGE:
    MODELS[f"transformers/{_name}"] = (
        lambda name=_name: _language(_LANGUAGE[name][0], _LANGUAGE[name][1], **_LANGUAGE[name][2])  # type: ignore[misc]
    )


@_named("transformers/bert classifier")
def _() -> Case:
    transformers = package("transformers")

    settings = _SMALL | {"vocab_size": WORDS, "max_position_embeddings": 32, "num_labels": 3}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**settings))
    return Case(model, {"input_ids": words(8), "labels": torch.arange(8) % 3})


@_named("transformers/segformer")
def _() -> Case:
    transformers = package("transformers")

    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3],
        strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=5,
    )  # fmt: skip
    targets = torch.randint(0, 5, (4, 32, 32))
    model = transformers.SegformerForSemanticSegmentation(config)
    return Case(model, {"pixel_values": images(32, 4), "labels": targets})


_CLIP_TEXT: dict[str, Any] = _SMALL | {"vocab_size": WORDS, "max_position_embeddings": 32, "eos_token_id": 0}
_CLIP_VISION: dict[str, Any] = _SMALL | {"image_size": 32, "patch_size": 8}


@_named("transformers/clip")
def _() -> Case:
    transformers = package("transformers")

    text, vision = _CLIP_TEXT, _CLIP_VISION
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16))
    return Case(model, {"input_ids": words(), "pixel_values": images(32, 4), "return_loss": True})


@_named("transformers/clip text")
def _() -> Case:
    transformers = package("transformers")

    model = transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(**_CLIP_TEXT, projection_dim=16))
    return regressor(model, {"input_ids": words()}, torch.randn(4, 16))


@_named("transformers/clip vision")
def _() -> Case:
    transformers = package("transformers")

    model = transformers.CLIPVisionModelWithProjection(transformers.CLIPVisionConfig(**_CLIP_VISION, projection_dim=16))
    return regressor(model, {"pixel_values": images(32, 4)}, torch.randn(4, 16))


@_named("transformers/wav2vec2")
def _() -> Case:
    transformers = package("transformers")

    config = transformers.Wav2Vec2Config(
        **_SMALL, vocab_size=32, conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, apply_spec_augment=False, layerdrop=0.0,
    )  # fmt: skip
    inputs = {"input_values": torch.randn(2, 1000), "labels": words(2, 5) % 31 + 1}
    # Its weight is under weight norm, which binarize_ refuses by name.
    return Case(transformers.Wav2Vec2ForCTC(config), inputs, skip=("wav2vec2.encoder.pos_conv_embed.conv",))


@_named("transformers/whisper")
def _() -> Case:
    transformers = package("transformers")

    config = transformers.WhisperConfig(
        vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=16,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    return Case(model, {"input_features": torch.randn(2, 8, 32), "labels": words(2, 12)})


# diffusers

_BLOCKS: dict[str, Any] = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}


@_named("diffusers/unet2d")
def _() -> Case:
    diffusers = package("diffusers")

    model = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), **_BLOCKS,
    )  # fmt: skip
    return regressor(model, {"sample": images(16, 4), "timestep": torch.arange(4)}, images(16, 4))


@_named("diffusers/unet2d condition")
def _() -> Case:
    diffusers = package("diffusers")

    model = diffusers.UNet2DConditionModel(
        sample_size=16, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=16, attention_head_dim=8, **_BLOCKS,
    )  # fmt: skip
    inputs = {"sample": images(16, 4, 4), "timestep": torch.arange(4), "encoder_hidden_states": torch.randn(4, 6, 16)}
    return regressor(model, inputs, images(16, 4, 4))


@_named("diffusers/dit")
def _() -> Case:
    diffusers = package("diffusers")

    model = diffusers.DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, num_layers=2, sample_size=16,
        patch_size=2, num_embeds_ada_norm=100, norm_num_groups=8,
    )  # fmt: skip
    inputs = {"hidden_states": images(16, 4, 4), "timestep": torch.arange(4), "class_labels": labels(4)}
    return regressor(model, inputs, images(16, 4, 4))


@_named("diffusers/vae")
def _() -> Case:
    diffusers = package("diffusers")

    model = diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4,
        sample_size=16, **_BLOCKS,
    )  # fmt: skip
    pictures = images(16, 4)
    return regressor(model, {"sample": pictures}, pictures)


# timm and torchvision

_TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet18": (32, {}),
    "resnet18d": (32, {}),
    "efficientnet_b0": (64, {}),
    "tf_efficientnet_lite0": (64, {}),
    "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small_050": (64, {}),
    "convnext_atto": (64, {}),
    "resnetv2_50x1_bit": (32, {}),
    "vit_tiny_patch16_224": (32, {"img_size": 32, "patch_size": 8, "depth": 3}),
    "swin_tiny_patch4_window7_224": (32, {"img_size": 32, "window_size": 4, "depths": (1, 1), "num_heads": (2, 4)}),
    "repvgg_a0": (32, {}),
    "nf_regnet_b0": (64, {}),
    "mixer_s32_224": (64, {"img_size": 64}),
}


def _timm(name: str) -> Case:
    timm = package("timm")

    size, settings = _TIMM[name]
    return classifier(timm.create_model(name, num_classes=CLASSES, **settings), size)


for _name in _TIMM:
    MODELS[f"timm/{_name}"] = lambda name=_name: _timm(name)  # type: ignore[misc]


_TORCHVISION: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet18": (32, {}),
    "mobilenet_v2": (64, {}),
    "mobilenet_v3_small": (64, {}),
    "efficientnet_b0": (64, {}),
    "densenet121": (32, {}),
    "shufflenet_v2_x0_5": (64, {}),
    "googlenet": (64, {"aux_logits": False, "init_weights": False}),
    "squeezenet1_1": (64, {}),
    "alexnet": (64, {}),
}


def _torchvision(name: str) -> Case:
    torchvision = package("torchvision")

    size, settings = _TORCHVISION[name]
    return classifier(getattr(torchvision.models, name)(num_classes=CLASSES, **settings), size)


for _name in _TORCHVISION:
    MODELS[f"torchvision/{_name}"] = lambda name=_name: _torchvision(name)  # type: ignore[misc]


@_named("torchvision/swin")
def _() -> Case:
    found = package("torchvision.models.swin_transformer")

    model = found.SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=CLASSES
    )
    return classifier(model, 32)


@_named("torchvision/vit")
def _() -> Case:
    found = package("torchvision.models")

    model = found.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=CLASSES
    )
    return classifier(model, 32)


@_named("torchvision/convnext")
def _() -> Case:
    found = package("torchvision.models.convnext")

    return classifier(
        found.ConvNeXt([found.CNBlockConfig(16, 32, 1), found.CNBlockConfig(32, None, 1)], num_classes=CLASSES), 32
    )


@_named("torchvision/fcn head")
def _() -> Case:
    found = package("torchvision.models.segmentation.fcn")

    body = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(inplace=True), found.FCNHead(64, 5))
    targets = torch.randint(0, 5, (4, 16, 16))
    return Case(body, (images(32, 4),), lambda outputs: F.cross_entropy(outputs, targets))


# Smaller packages

_VIT = {"image_size": 32, "patch_size": 8, "num_classes": CLASSES, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 64}


@_named("vit-pytorch/ViT")
def _() -> Case:
    found = package("vit_pytorch")

    return classifier(found.ViT(**_VIT), 32)


@_named("vit-pytorch/SimpleViT")
def _() -> Case:
    found = package("vit_pytorch")

    return classifier(found.SimpleViT(**_VIT), 32)


@_named("vit-pytorch/CCT")
def _() -> Case:
    found = package("vit_pytorch.cct")

    model = found.CCT(
        img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2, num_heads=2, mlp_ratio=2.0, num_classes=CLASSES
    )
    return classifier(model, 32)


def _decoder(**settings: Any) -> Case:
    found = package("x_transformers")

    top = {"tie_embedding": settings.pop("tie_embedding", False)}
    layers = found.Decoder(dim=32, depth=2, heads=2, attn_dim_head=16, **settings)
    model = found.TransformerWrapper(num_tokens=WORDS, max_seq_len=32, attn_layers=layers, **top)
    tokens = words()
    return Case(model, (tokens,), lambda outputs: F.cross_entropy(outputs.transpose(1, 2), tokens))


@_named("x-transformers/decoder")
def _() -> Case:
    return _decoder()


@_named("x-transformers/decoder, gated, tied")
def _() -> Case:
    return _decoder(ff_glu=True, tie_embedding=True)


def _segmentation(kind: str) -> Case:
    segmentation_models_pytorch = package("segmentation_models_pytorch")

    model = getattr(segmentation_models_pytorch, kind)("resnet18", encoder_weights=None, classes=5)
    targets = torch.randint(0, 5, (2, 64, 64))
    return Case(model, (images(64, 2),), lambda outputs: F.cross_entropy(outputs, targets))


for _name in ("Unet", "DeepLabV3Plus"):
    MODELS[f"segmentation-models/{_name}"] = lambda name=_name: _segmentation(name)  # type: ignore[misc]


def _graph(kind: str) -> Case:
    layers = package("torch_geometric.nn")

    model = getattr(layers, kind)(16, 32, num_layers=3, out_channels=4)
    edges, target = torch.randint(0, 40, (2, 160)), torch.arange(40) % 4
    return Case(model, (torch.randn(40, 16), edges), lambda outputs: F.cross_entropy(outputs, target))


for _name in ("GCN", "GraphSAGE", "GIN"):
    MODELS[f"torch-geometric/{_name}"] = lambda name=_name: _graph(name)  # type: ignore[misc]


class LSTMTagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, 8)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.lstm(self.embedding(tokens))[0])
        return outputs


@_named("torch.nn/LSTM tagger")
def _() -> Case:
    tokens = words()
    return Case(LSTMTagger(), (tokens,), lambda outputs: F.cross_entropy(outputs.transpose(1, 2), tokens % 8))


@_named("torch.nn/TransformerEncoder")
def _() -> Case:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(160, CLASSES))
    target = labels()
    return Case(model, (torch.randn(8, 5, 8),), lambda outputs: F.cross_entropy(outputs, target))
