"""The stock llama.cpp loads exported models and computes with them what PyTorch does; ``make test-llama`` installs it.

llama.cpp rounds what a matrix reads to 8 bits, in blocks of 32 numbers with a scale each. ``rounded_scores`` does the
same in PyTorch, which shows how far the scores move by that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from tools.llama_cpp import LlamaCpp, available
from torch import Tensor, nn

import signwise as sw
from signwise.models import Llama, LlamaConfig, llama

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not available(), reason="make test-llama sets NODE_LLAMA_CPP"),
]

TEXT = b"In the beginning God created the heaven and the earth. And the earth was without form, and void; "
PROMPTS = ["In the beginning God", "And the earth was", "created the heaven", "without form, and"]
METHODS = {
    "learned scales per block": sw.GroupTransform(scale="learned", block=128),
    "a mean per row": sw.GroupTransform(scale="mean"),
    "straight-through, a mean per block": sw.MeanSign(block=128),
}


def train(model: nn.Module, tokens: Tensor, method: sw.Method, steps: int = 120) -> None:
    """Until the model knows the text by heart, so that the best next token is clear."""
    sw.binarize_(model, method=method)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.0)
    sw.attach(optimizer, model, sw.BinarizationSchedule(steps, t_alpha=0.4, zeta=(1.0, 6.0), zeta_ramp=0.5))
    for step in range(steps):
        starts = (torch.arange(8) * 11 + step % 11) % (len(tokens) - 65)
        windows = torch.stack([tokens[start : start + 65] for start in starts])
        loss = F.cross_entropy(scores_of(model, windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.7
    model.eval()


def scores_of(model: nn.Module, tokens: Tensor) -> Tensor:
    found: Any = model(tokens)
    scores: Tensor = found if isinstance(found, Tensor) else found.logits
    return scores


@pytest.fixture(scope="module", params=METHODS)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Llama, LlamaCpp]]:
    torch.manual_seed(0)
    model = llama(LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, max_position_embeddings=128))
    train(model, torch.tensor(list(TEXT * 3)), METHODS[request.param])
    path = tmp_path_factory.mktemp("llama") / "model.gguf"
    sw.export.gguf(model, path)
    with LlamaCpp(path) as process:
        yield model, process


@torch.no_grad()
def continued_by_torch(model: nn.Module, prompt: list[int], count: int) -> list[int]:
    tokens = torch.tensor([prompt])
    for _ in range(count):
        tokens = torch.cat((tokens, scores_of(model, tokens)[:, -1:].argmax(-1)), dim=1)
    made: list[int] = tokens[0, -count:].tolist()
    return made


@torch.no_grad()
def rounded_scores(model: nn.Module, tokens: list[int]) -> npt.NDArray[np.float32]:
    """The model's scores if every matrix read 8-bit numbers."""

    def rounded(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        blocks = arguments[0].unflatten(-1, (-1, 32))
        step = (blocks.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-12)
        return (((blocks / step).round() * step).flatten(-2),)

    hooks = [part.register_forward_pre_hook(rounded) for part in model.modules() if isinstance(part, nn.Linear)]
    try:
        found: npt.NDArray[np.float32] = scores_of(model, torch.tensor([tokens]))[0].numpy()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def assert_scores_agree(model: nn.Module, process: LlamaCpp, tokens: list[int]) -> None:
    with torch.no_grad():
        exact = scores_of(model, torch.tensor([tokens]))[0]
    found = process.scores(tokens)
    assert found.shape == exact.shape
    by_rounding = rounded_scores(model, tokens) - exact.numpy()
    difference = found - exact.numpy()
    # The 8-bit embedding and half-precision scales move the scores, too, but less.
    assert np.square(difference).mean() ** 0.5 < 1.5 * np.square(by_rounding).mean() ** 0.5
    assert np.abs(difference).max() < 3 * np.abs(by_rounding).max()
    probabilities = torch.from_numpy(found).softmax(-1) - exact.softmax(-1)
    assert float(probabilities.abs().max()) < 0.1


def test_greedy_continuations_of_50_tokens_agree(trained: tuple[Llama, LlamaCpp]) -> None:
    model, process = trained
    found = [process.continued(prompt, 50) for prompt in PROMPTS]
    assert [entry.tokens for entry in found] == [list(prompt.encode()) for prompt in PROMPTS]
    expected = [continued_by_torch(model, list(prompt.encode()), 50) for prompt in PROMPTS]
    agreeing = sum(entry.made == tokens for entry, tokens in zip(found, expected, strict=True))
    # llama.cpp rounds activations to 8 bits: most prompts, not all, must agree to the last token.
    assert agreeing >= len(PROMPTS) - 1, [bytes(entry.made) for entry in found]


def test_the_scores_of_every_next_token_agree_within_the_error_of_8_bits(trained: tuple[Llama, LlamaCpp]) -> None:
    for prompt in (TEXT[:60], TEXT[30:90]):
        assert_scores_agree(*trained, list(prompt))


def test_our_runtime_gives_the_scores_of_pytorch_for_the_same_blocks(trained: tuple[Llama, LlamaCpp]) -> None:
    model, _ = trained
    tokens = list(TEXT[:40])
    found = np.stack(list(sw.Generator(sw.compile_decoder(model, context=64)).scores(tokens)))
    with torch.no_grad():
        expected = model(torch.tensor([tokens]))[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-3 * float(np.abs(expected).max()))


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_the_recipe_works_on_models_of_transformers(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config, causal = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    }[kind]
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "max_position_embeddings": 128}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    model = causal(config(vocab_size=256, tie_word_embeddings=False, **sizes, **heads))
    train(model, torch.tensor(list(TEXT * 3)), sw.GroupTransform(scale="learned", block=128))
    assert sw.export.gguf(model, tmp_path / "model.gguf").binary_weights > 0
    with LlamaCpp(tmp_path / "model.gguf") as process:
        assert_scores_agree(model, process, list(TEXT[:60]))
        found = [process.continued(prompt, 50).made for prompt in PROMPTS]
    expected = [continued_by_torch(model, list(prompt.encode()), 50) for prompt in PROMPTS]
    assert sum(made == tokens for made, tokens in zip(found, expected, strict=True)) >= len(PROMPTS) - 1
