"""Generation with the runtime: the scores of every position are the model's, greedy and drawn continuations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import signwise as sw
from signwise import cli
from signwise.models import Llama, LlamaConfig, llama

SMALL = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, max_position_embeddings=24)


@pytest.fixture(scope="module")
def model() -> Llama:
    torch.manual_seed(0)
    made = llama(SMALL)
    sw.binarize_(made, method=sw.GroupTransform(scale="mean"))
    return made.eval()


@pytest.fixture(scope="module")
def path(model: Llama, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("generation") / "model.sw"
    sw.compile_decoder(model).save(target)
    return target


def test_the_scores_after_each_token_are_those_of_the_whole_text(model: Llama, path: Path) -> None:
    tokens = [3, 250, 17, 17, 0, 99, 42, 8, 120, 4]
    found = np.stack(list(sw.Generator(path).scores(tokens)))
    with torch.no_grad():
        expected = model(torch.tensor([tokens]))[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_the_likeliest_tokens_are_those_of_pytorch(model: Llama, path: Path) -> None:
    found = list(sw.Generator(path).generate(b"In the", 12))
    tokens = torch.tensor([list(b"In the")])
    with torch.no_grad():
        for _ in range(12):
            tokens = torch.cat((tokens, model(tokens)[:, -1:].argmax(-1)), dim=1)
    assert found == tokens[0, -12:].tolist()


def test_generation_ends_where_the_context_is_full(path: Path) -> None:
    assert len(list(sw.Generator(path).generate(b"In the", 1000))) == 24 - 6
    with pytest.raises(sw.SignwiseError, match="more than 24 tokens"):
        list(sw.Generator(path).scores([1] * 25))


def test_draws_follow_the_seed_and_the_top_tokens(path: Path) -> None:
    generator = sw.Generator(path)
    first = list(generator.generate(b"a", 10, temperature=2.0, seed=1))
    assert first == list(generator.generate(b"a", 10, temperature=2.0, seed=1))
    assert first != list(generator.generate(b"a", 10, temperature=2.0, seed=2))
    assert list(generator.generate(b"a", 10, temperature=2.0, top=1)) == list(generator.generate(b"a", 10))


def test_settings_that_make_no_sense_are_refused(path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match="at least one token"):
        list(sw.Generator(path).generate(b"", 1))
    with pytest.raises(sw.SignwiseError, match="temperature must be at least 0"):
        list(sw.Generator(path).generate(b"a", 1, temperature=-1))
    with pytest.raises(sw.SignwiseError, match="not a language model"):
        sw.Generator("lenet5-mnist-1bit")
    with pytest.raises(sw.SignwiseError, match="context must be from 2 to 24"):
        sw.compile_decoder(llama(SMALL), context=25)
    with pytest.raises(sw.SignwiseError, match="not a decoder"):
        sw.compile_decoder(torch.nn.Linear(2, 2))


def test_the_command_prints_the_continued_text(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["generate", str(path), "--prompt", "In the", "--count", "5"]) == 0
    printed = capfd.readouterr()
    made = bytes(sw.Generator(path).generate(b"In the", 5)).decode(errors="replace")
    assert printed.out == f"In the{made}\n"
    assert "5 bytes" in printed.err
