"""GGUF files against an independent reader, and the spelling of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

import signwise as sw
from signwise.export.gguf_file import q1_0_rows
from signwise.export.gguf_tokenizer import byte_alphabet, byte_tokenizer, tokenizer_of
from signwise.methods import Deployed
from signwise.models import LlamaConfig, llama

gguf: Any = pytest.importorskip("gguf")

SMALL = LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, max_position_embeddings=32)


def decoded(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Q1_0 by the definition of the format: 18 bytes per block, a half-precision scale and 128 bits."""
    blocks = rows.reshape(-1, 18)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    signs = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(np.float32) * 2 - 1
    weights: npt.NDArray[np.float32] = (scale * signs).reshape(len(rows), -1)
    return weights


def model_of(method: sw.Method) -> nn.Module:
    torch.manual_seed(0)
    model = llama(SMALL)
    sw.binarize_(model, method=method)
    return model.eval()


def tensors_of(path: Path) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize(
    "method",
    [
        *(sw.GroupTransform(scale=scale, block=block) for scale in (0.25, "mean", "learned") for block in (None, 128)),
        sw.MeanSign(block=128),
    ],
    ids=str,
)
def test_the_matrices_of_the_file_are_the_deployed_weights(method: sw.Method, tmp_path: Path) -> None:
    model = model_of(method)
    report = sw.export.gguf(model, tmp_path / "model.gguf")
    found = tensors_of(tmp_path / "model.gguf")
    for name, stored in (("mlp.down_proj", "ffn_down"), ("self_attn.v_proj", "attn_v")):
        layer = model.get_submodule(f"model.layers.1.{name}")
        assert isinstance(layer, sw.BinaryLayer)
        matrix = found[f"blk.1.{stored}.weight"]
        assert matrix.tensor_type.name == "Q1_0"
        expected = layer.effective_weight().detach().half().float().numpy()
        np.testing.assert_array_equal(decoded(np.asarray(matrix.data)), expected)
    assert report.binary_weights == 2 * (128 * 128 * 3 + 128 * 256 * 3)
    assert report.bytes == (tmp_path / "model.gguf").stat().st_size


def test_rows_of_queries_and_keys_are_in_the_order_of_llama_cpp(tmp_path: Path) -> None:
    model = model_of(sw.GroupTransform(scale="mean"))
    sw.export.gguf(model, tmp_path / "model.gguf")
    found = decoded(np.asarray(tensors_of(tmp_path / "model.gguf")["blk.0.attn_q.weight"].data))
    layer = model.get_submodule("model.layers.0.self_attn.q_proj")
    assert isinstance(layer, sw.BinaryLayer)
    ours = layer.effective_weight().detach().half().float().numpy()
    width = SMALL.head_dim
    for head in range(SMALL.num_attention_heads):
        for i in range(width // 2):  # pair i of ours is rows i and i + width / 2, of theirs rows 2i and 2i + 1
            np.testing.assert_array_equal(found[head * width + 2 * i], ours[head * width + i])
            np.testing.assert_array_equal(found[head * width + 2 * i + 1], ours[head * width + i + width // 2])


def test_what_llama_cpp_must_know_of_the_model_is_in_the_file(tmp_path: Path) -> None:
    sw.export.gguf(model_of(sw.GroupTransform(scale="mean")), tmp_path / "model.gguf", name="small")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    read = {key: field.contents() for key, field in reader.fields.items()}
    assert read["general.architecture"] == "llama" and read["general.name"] == "small"
    assert read["llama.block_count"] == 2 and read["llama.attention.head_count_kv"] == 2
    assert read["llama.rope.freq_base"] == 10000 and read["llama.context_length"] == 32
    assert read["tokenizer.ggml.tokens"][ord(" ")] == "Ġ" and len(read["tokenizer.ggml.tokens"]) == 256
    types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert types["token_embd.weight"] == types["output.weight"] == "Q8_0"
    assert types["blk.0.attn_norm.weight"] == "F32"


def test_a_layer_whose_inputs_are_no_whole_blocks_is_refused_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = llama(LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=1))
    sw.binarize_(model)
    with pytest.raises(sw.SignwiseError, match=r"self_attn.q_proj has 64 inputs.*blocks of 128"):
        sw.export.gguf(model, tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


def test_scales_that_are_no_whole_number_of_blocks_are_refused() -> None:
    with pytest.raises(sw.SignwiseError, match="scale per 64 inputs"):
        q1_0_rows("layer", Deployed(torch.ones(1, 128), torch.ones(1, 2)))
    with pytest.raises(sw.SignwiseError, match="half precision cannot hold"):
        q1_0_rows("layer", Deployed(torch.ones(1, 128), torch.tensor([1e6])))


def test_a_model_of_another_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match="not a decoder in the shape of Llama"):
        sw.export.gguf(nn.Linear(2, 2), tmp_path / "model.gguf")


def test_three_values_per_weight_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match="three values"):
        sw.export.gguf(model_of(sw.Ternary()), tmp_path / "model.gguf")


def test_every_byte_has_a_character_of_its_own() -> None:
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256 and all(len(character) == 1 and character.isprintable() for character in alphabet)
    assert bytes(range(33, 127)).decode() == "".join(alphabet[33:127])


def test_a_model_of_words_needs_its_tokenizer() -> None:
    with pytest.raises(sw.SignwiseError, match="1000 tokens needs tokenizer="):
        byte_tokenizer(1000)


class Stored:
    """The part of a transformers tokenizer that the export reads."""

    def __init__(self, kind: str = "BPE", splitter: str = "ByteLevel") -> None:
        self.kind, self.splitter = kind, splitter
        self.eos_token_id = 3

    def to_str(self) -> str:
        vocab = '{"a": 0, "b": 1, "ab": 2}'
        added = '[{"id": 3, "content": "<end>"}]'
        return (
            f'{{"model": {{"type": "{self.kind}", "vocab": {vocab}, "merges": [["a", "b"]]}}, '
            f'"pre_tokenizer": {{"type": "{self.splitter}"}}, "added_tokens": {added}}}'
        )


def test_tokens_merges_and_unused_rows_of_a_byte_level_tokenizer() -> None:
    read = tokenizer_of(Stored(), 5)
    assert read.tokens == ["a", "b", "ab", "<end>", "[unused4]"]
    assert read.merges == ["a b"] and read.types == [1, 1, 1, 3, 5] and read.end == 3


def test_other_tokenizers_are_refused() -> None:
    with pytest.raises(sw.SignwiseError, match="byte-level BPE"):
        tokenizer_of(Stored(kind="Unigram"), 5)
    with pytest.raises(sw.SignwiseError, match="byte-level BPE"):
        tokenizer_of(Stored(splitter="Whitespace"), 5)
    with pytest.raises(sw.SignwiseError, match="has 4 tokens, but the model only 3"):
        tokenizer_of(Stored(), 3)
