"""Language models as GGUF files, which llama.cpp and everything built on it run.

Matrices of binary layers become Q1_0: blocks of 128 inputs of one output row, each a half-precision scale followed by
16 bytes of bits, the first weight lowest, 1 for +scale. That is the layout of packed rows with a scale before every 16
bytes. A scale per output row is repeated in its blocks. Other matrices become Q8_0 (8 bits, blocks of 32) where their
rows allow it and half precision otherwise; vectors stay float32.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from signwise.atomic import atomic_write
from signwise.errors import SignwiseError
from signwise.export.gguf_tokenizer import Tokenizer, byte_tokenizer, tokenizer_of
from signwise.layers import BinaryLayer
from signwise.methods import Deployed
from signwise.packing.layers import PackedLinear
from signwise.packing.operators import pack_signs
from signwise.packing.pack import deployed_layers

BLOCK = 128  # weights per scale in Q1_0

# Names of transformers' parameters -> names in the file; {} is the number of the block.
_OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_INNER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_ARCHITECTURES = ("llama", "qwen2", "qwen3")

Rows = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class GGUFReport:
    """What the file holds; printing it gives one line."""

    path: str
    bytes: int
    binary_weights: int
    other_weights: int

    def __str__(self) -> str:
        weights = f"{self.binary_weights:,} weights at 1 bit, {self.other_weights:,} others"
        return f"{self.path}: {self.bytes:,} bytes, {weights}"


def gguf(
    model: nn.Module,
    path: str | PathLike[str],
    *,
    tokenizer: object | None = None,
    name: str | None = None,
    embeddings: str = "Q8_0",
) -> GGUFReport:
    """Write a language model as a GGUF file: llama.cpp runs it with one bit per weight of its binary layers (Q1_0).

    Args:
        model: a trained ``signwise.models.llama``, or a Llama, Qwen2 or Qwen3 model of ``transformers``, binarized or
            not. Binary layers need a multiple of 128 inputs, and a scale per output or per block of 128 inputs.
        path: the file, which should end in ``.gguf``.
        tokenizer: the fast, byte-level tokenizer of ``transformers`` that the model was trained with; ``None`` for a
            model of bytes.
        name: the model's name in the file.
        embeddings: the type of float matrices: ``"Q8_0"`` (8 bits), ``"F16"`` or ``"F32"``.

    Returns:
        What the file holds.

    Raises:
        SignwiseError: the model has another shape, a layer does not fit the format, or the ``gguf`` package is missing.
    """
    library = _library()
    if embeddings not in ("Q8_0", "F16", "F32"):
        raise SignwiseError(f"embeddings must be 'Q8_0', 'F16' or 'F32', got {embeddings!r}")
    config = _config(model)
    words = byte_tokenizer(config.vocab_size) if tokenizer is None else tokenizer_of(tokenizer, config.vocab_size)
    tensors = list(_tensors(model, config, embeddings))
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model.gguf"
        writer = library.GGUFWriter(written, config.architecture)
        _write_metadata(writer, config, words, name or type(model).__name__, library)
        for tensor in tensors:
            writer.add_tensor(tensor.name, tensor.rows, raw_dtype=library.GGMLQuantizationType[tensor.type])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        try:
            with written.open("rb") as source, atomic_write(path) as target:
                shutil.copyfileobj(source, target)
        except OSError as error:
            raise SignwiseError(f"cannot write {fspath(path)!r}: {error.strerror}") from None
        size = written.stat().st_size
    binary = sum(tensor.weights for tensor in tensors if tensor.type == "Q1_0")
    return GGUFReport(
        path=fspath(path),
        bytes=size,
        binary_weights=binary,
        other_weights=sum(tensor.weights for tensor in tensors) - binary,
    )


def _library() -> Any:
    try:
        import gguf
    except ModuleNotFoundError:
        raise SignwiseError("exporting to GGUF needs the gguf package: pip install 'signwise[gguf]'") from None
    return gguf


@dataclass(frozen=True, kw_only=True)
class _Config:
    """What llama.cpp must know of the model."""

    architecture: str
    vocab_size: int
    width: int
    hidden: int
    blocks: int
    heads: int
    shared_heads: int
    head_width: int
    context: int
    rope_base: float
    epsilon: float
    tied: bool


def _config(model: nn.Module) -> _Config:
    found: Any = getattr(model, "config", None)
    needed = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    if found is None or not all(hasattr(found, name) for name in needed):
        raise SignwiseError(
            f"{type(model).__name__} is not a decoder in the shape of Llama: export.gguf takes signwise.models.llama "
            "and the Llama, Qwen2 and Qwen3 models of transformers"
        )
    architecture = getattr(found, "model_type", "llama")
    if architecture not in _ARCHITECTURES:
        listed = ", ".join(_ARCHITECTURES)
        raise SignwiseError(f"export.gguf knows the model types {listed}, got {architecture!r}")
    rope: dict[str, Any] = getattr(found, "rope_parameters", None) or getattr(found, "rope_scaling", None) or {}
    if rope.get("rope_type", "default") != "default":
        raise SignwiseError(f"export.gguf writes plain rotary positions, got rope_type {rope['rope_type']!r}")
    heads = int(found.num_attention_heads)
    return _Config(
        architecture=architecture,
        vocab_size=int(found.vocab_size),
        width=int(found.hidden_size),
        hidden=int(found.intermediate_size),
        blocks=int(found.num_hidden_layers),
        heads=heads,
        shared_heads=int(getattr(found, "num_key_value_heads", None) or heads),
        head_width=int(getattr(found, "head_dim", None) or found.hidden_size // heads),
        context=int(found.max_position_embeddings),
        rope_base=float(rope.get("rope_theta", getattr(found, "rope_theta", 10000.0))),
        epsilon=float(found.rms_norm_eps),
        tied=bool(getattr(found, "tie_word_embeddings", False)),
    )


def _write_metadata(writer: Any, config: _Config, tokenizer: Tokenizer, name: str, gguf: Any) -> None:
    writer.add_name(name)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.blocks)
    writer.add_feed_forward_length(config.hidden)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.shared_heads)
    writer.add_key_length(config.head_width)
    writer.add_value_length(config.head_width)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_layer_norm_rms_eps(config.epsilon)
    writer.add_file_type(int(gguf.LlamaFileType.MOSTLY_Q1_0))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tokenizer.splitting)
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(tokenizer.types)
    writer.add_token_merges(tokenizer.merges)
    writer.add_eos_token_id(tokenizer.end)
    writer.add_bos_token_id(tokenizer.end if tokenizer.begin is None else tokenizer.begin)
    writer.add_add_bos_token(tokenizer.begin is not None)


# Tensors


@dataclass(frozen=True, kw_only=True)
class _Tensor:
    """A tensor of the file: its rows as numbers, or as bytes where the type packs blocks."""

    name: str
    type: str
    rows: Rows
    weights: int


def _tensors(model: nn.Module, config: _Config, embeddings: str) -> Iterator[_Tensor]:
    modules = dict(model.named_modules())
    binary = {name: deployed for name, _, deployed in deployed_layers(model, "export.gguf")}
    for key, tensor in _weights(model):
        module_name, _, parameter = key.rpartition(".")
        if config.tied and module_name == "lm_head":
            continue  # llama.cpp takes the embedding where there is no output matrix
        name = f"{_translated(module_name)}.{parameter}"
        order = _row_order(module_name, config)
        module = modules[module_name]
        if parameter == "weight" and module_name in binary:
            rows = q1_0_rows(module_name, binary[module_name], order)
            yield _Tensor(name=name, type="Q1_0", rows=rows, weights=tensor.numel())
        elif isinstance(module, BinaryLayer | PackedLinear) and parameter != "bias":
            raise SignwiseError(f"{module_name} is packed: export.gguf takes the model before pack_")
        elif tensor.dim() < 2:
            yield _Tensor(name=name, type="F32", rows=order(_array(tensor)), weights=tensor.numel())
        else:
            yield _float_matrix(name, order(_array(tensor)), embeddings)


def _weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    learned = {f"{name}.magnitude" for name, module in model.named_modules() if isinstance(module, BinaryLayer)}
    for key, tensor in model.state_dict().items():
        if key not in learned:  # scales are part of the deployed form
            yield key, tensor


def _translated(module_name: str) -> str:
    if module_name in _OUTER:
        return _OUTER[module_name]
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", module_name)
    if found is None or found[2] not in _INNER:
        raise SignwiseError(f"{module_name} has no place in a GGUF file of the Llama family")
    return f"blk.{found[1]}.{_INNER[found[2]]}"


def _row_order(module_name: str, config: _Config) -> Callable[[Rows], Rows]:
    """How llama.cpp orders the rows: for Llama it turns neighbours (2i, 2i + 1) instead of (i, i + width / 2)."""
    projection = module_name.rpartition(".")[2]
    heads = {"q_proj": config.heads, "k_proj": config.shared_heads}.get(projection)
    if config.architecture != "llama" or heads is None:
        return lambda rows: rows

    def reordered(rows: Rows) -> Rows:
        halves = rows.reshape(heads, 2, config.head_width // 2, *rows.shape[1:])
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)

    return reordered


def q1_0_rows(
    name: str, deployed: Deployed, order: Callable[[Rows], Rows] = lambda rows: rows
) -> npt.NDArray[np.uint8]:
    """The bytes of a matrix of binary weights, one row per output: per block a scale and 16 bytes of bits.

    Args:
        name: of the layer, for messages.
        deployed: signs of shape (outputs, inputs), and a scale per output or per block of 128 inputs.
        order: rearranges the rows.

    Example:
        >>> ones = Deployed(torch.ones(2, 128), torch.tensor([1.0, 0.5]))
        >>> q1_0_rows("layer", ones)[:, :4].tolist()
        [[0, 60, 255, 255], [0, 56, 255, 255]]
    """
    outputs, inputs = deployed.signs.shape
    if inputs % BLOCK:
        raise SignwiseError(
            f"{name} has {inputs} inputs, but GGUF's 1-bit rows are made of blocks of {BLOCK}: choose widths that are "
            f"multiples of {BLOCK}, or keep the layer float"
        )
    blocks = inputs // BLOCK
    scale = torch.ones(outputs) if deployed.scale is None else deployed.scale.detach().float().cpu()
    per_row = 1 if scale.dim() == 1 else scale.shape[1]
    if blocks % per_row:
        raise SignwiseError(
            f"{name} has a scale per {inputs // per_row} inputs, but GGUF has one per block of {BLOCK}: use a block of "
            f"{BLOCK} inputs or a multiple"
        )
    scales = order(scale.reshape(outputs, per_row).repeat_interleave(blocks // per_row, dim=1).numpy())
    limits = np.finfo(np.float16)
    if not ((scales >= limits.smallest_subnormal) & (scales <= limits.max)).all():
        found = f"{scales.min():.3g} to {scales.max():.3g}"
        raise SignwiseError(f"{name} has scales from {found}, which half precision cannot hold")
    halves = scales.astype("<f2")
    bits = order(pack_signs(deployed.signs).cpu().numpy()).reshape(outputs, blocks, BLOCK // 8)
    packed = np.concatenate((halves[..., None].view(np.uint8), bits), axis=2)
    return packed.reshape(outputs, -1)


def _float_matrix(name: str, rows: npt.NDArray[np.float32], embeddings: str) -> _Tensor:
    kind = "F16" if embeddings == "Q8_0" and rows.shape[1] % 32 else embeddings
    gguf = _library()
    packed = gguf.quants.quantize(rows, gguf.GGMLQuantizationType[kind])
    return _Tensor(name=name, type=kind, rows=packed, weights=rows.size)


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    return tensor.detach().float().cpu().numpy()
