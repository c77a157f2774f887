"""The language model: causality, positions, and the names of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import signwise as sw
from signwise.models import LlamaConfig, llama
from signwise.models.llama import rotary_table, rotate

SMALL = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, max_position_embeddings=32)


def test_no_position_sees_a_later_token() -> None:
    torch.manual_seed(0)
    model = llama(SMALL).eval()
    tokens = torch.randint(256, (1, 12))
    changed = tokens.clone()
    changed[0, 7] = (changed[0, 7] + 1) % 256
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_scores_depend_on_the_distance_of_tokens_alone_not_on_where_they_stand() -> None:
    torch.manual_seed(0)
    cosine, sine = rotary_table(SMALL)
    query, key = torch.randn(1, 1, 1, SMALL.head_dim), torch.randn(1, 1, 1, SMALL.head_dim)

    def score(at: int, other: int) -> torch.Tensor:
        turned = rotate(query, cosine[at : at + 1], sine[at : at + 1])
        return (turned * rotate(key, cosine[other : other + 1], sine[other : other + 1])).sum()

    torch.testing.assert_close(score(5, 2), score(20, 17))
    assert not torch.isclose(score(5, 2), score(5, 3))


def test_embedding_and_head_stay_float() -> None:
    report = sw.binarize_(llama(SMALL))
    assert {row.name for row in report.layers if not row.binary} == {"model.embed_tokens", "lm_head"}


@pytest.mark.parametrize("sizes", [{"hidden_size": 65}, {"num_key_value_heads": 3}])
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(sw.SignwiseError, match="must be a"):
        LlamaConfig(**sizes)


def test_weights_move_to_transformers_and_give_the_same_scores() -> None:
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    ours = llama(SMALL).eval()
    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.load_state_dict(ours.state_dict())
    tokens = torch.randint(256, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, atol=1e-4, rtol=1e-4)
