"""Models, programs and runs in folders of the hub's form, with huggingface_hub and transformers themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.training import Options, get_recipe, train
from signwise.training.run_folder import read_config

pytest.importorskip("huggingface_hub")

from signwise.integrations.hub import BinaryModelHubMixin, HubProgram, save_run

pytestmark = pytest.mark.filterwarnings("ignore:::(torch|transformers|huggingface_hub)")


class Net(nn.Module, BinaryModelHubMixin):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 3))
        sw.binarize_(self.layers, skip=sw.last)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs)
        return outputs


def test_a_trainable_model_comes_back_with_its_latents_and_arguments(tmp_path: Path) -> None:
    model: Any = Net(width=24)
    model.save_pretrained(tmp_path)
    again: Any = Net.from_pretrained(tmp_path)
    assert torch.equal(again.layers[0].weight, model.layers[0].weight)
    assert [type(layer).__name__ for _, layer in sw.binary_layers(again)] == ["BinaryLinear"]
    assert json.loads((tmp_path / "config.json").read_text()) == {"width": 24}
    assert "library_name: signwise" in (tmp_path / "README.md").read_text()


def test_a_packed_model_takes_one_bit_per_weight_in_the_file_and_computes_the_same(tmp_path: Path) -> None:
    model: Any = Net(width=64).eval()
    expected = model(torch.ones(2, 12))
    model.save_pretrained(tmp_path / "float")
    sw.pack_(model)
    model.save_pretrained(tmp_path / "packed")
    again: Any = Net.from_pretrained(tmp_path / "packed")
    torch.testing.assert_close(again(torch.ones(2, 12)), expected)
    assert again.layers[0].bits.dtype == torch.uint8
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("float", "packed")]
    assert sizes[0] - sizes[1] > 12 * 64 * 3


def test_a_program_comes_back_and_a_folder_without_one_is_named(tmp_path: Path) -> None:
    program = sw.compile(Net().eval(), torch.zeros(1, 12))
    HubProgram(program).save_pretrained(tmp_path)
    inputs = np.ones((2, 12), np.float32)
    assert np.array_equal(HubProgram.from_pretrained(tmp_path).program.run(inputs), program.run(inputs))
    (tmp_path / "empty").mkdir()
    with pytest.raises(sw.SignwiseError, match=r"empty has no program\.sw"):
        HubProgram.from_pretrained(tmp_path / "empty")


@pytest.mark.filterwarnings("ignore:compile. α is below 1")
def test_a_run_is_saved_with_a_card_that_shows_its_record(digits: Path, tmp_path: Path) -> None:
    recipe = get_recipe("lenet5-mnist").changed(epochs=2, batch_size=20)
    options = Options(data=digits, device="cpu", tensorboard=False)
    train(recipe, tmp_path / "run", options=options)
    save_run(tmp_path / "run", tmp_path / "hub")
    card = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    config = read_config(tmp_path / "run")
    assert f"| test error | {config['result']['best_error']:.2f} % after epoch" in card
    assert "425,500 take one bit" in card and str(config["revision"]) in card
    assert (tmp_path / "hub" / "errors.png").stat().st_size > 1000
    program = HubProgram.from_pretrained(tmp_path / "hub").program
    assert program.run(np.zeros((1, 1, 28, 28), np.float32)).shape == (1, 10)
    train(recipe.changed(init_from=str(tmp_path / "hub" / "model.safetensors"), epochs=1), options=options)
    unfinished = config.copy()
    del unfinished["finished"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(unfinished))
    with pytest.raises(sw.SignwiseError, match="has not finished"):
        save_run(tmp_path / "run", tmp_path / "other")


def language_model(kind: str) -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=2, n_positions=16)
        return transformers.GPT2LMHeadModel(config).eval()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlamaConfig(vocab_size=40, num_key_value_heads=2, max_position_embeddings=16, **sizes)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_from_pretrained_loads_a_packed_model_of_transformers(kind: str, tmp_path: Path) -> None:
    model = language_model(kind)
    from signwise.integrations.huggingface import pack_pretrained_

    sw.binarize_(model, skip="lm_head")
    tokens = torch.arange(8)[None]
    report = pack_pretrained_(model)
    with torch.no_grad():
        expected = model(tokens).logits
    model.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    assert stored["quant_method"] == "signwise" and len(stored["layers"]) == len(report.layers)
    again = type(model).from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, expected)
    assert not any("weight" in dict(layer.named_parameters()) for layer in again.modules() if hasattr(layer, "bits"))
    again.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").stat().st_size == (tmp_path / "model.safetensors").stat().st_size


def test_a_float_model_is_not_packed_for_transformers() -> None:
    model = language_model("llama")
    from signwise.integrations.huggingface import pack_pretrained_

    with pytest.raises(sw.SignwiseError, match="no binary layer"):
        pack_pretrained_(model)
