"""Models of transformers, timm and diffusers: binary, compiled, saved, loaded, equal to PyTorch; or refused by name."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import signwise as sw
from signwise.program import Program
from signwise.program import operations as ops

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
other_models: Any = importlib.import_module("other_models")

pytestmark = pytest.mark.slow

COMPILED = [
    "transformers/resnet", "transformers/mobilenet_v2", "transformers/convnext", "transformers/efficientnet",
    "transformers/vit", "transformers/bert", "transformers/bert classifier", "transformers/gpt2", "transformers/llama",
    "transformers/llama, tied", "transformers/mistral", "transformers/qwen2", "diffusers/unet2d", "timm/resnet18",
    "timm/efficientnet_b0", "timm/mobilenetv3_small_050", "timm/convnext_atto", "timm/vit_tiny_patch16_224",
]  # fmt: skip


def built(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor] | tuple[torch.Tensor, ...]]:
    """The model with binary layers in evaluation mode, and its inputs without labels."""
    torch.manual_seed(0)
    try:
        case = other_models.MODELS[name]()
    except Exception as error:  # the package, or one that it needs, is missing or does not load
        pytest.skip(f"{name} cannot be built here: {str(error).splitlines()[0][:80]}")
    inputs = case.inputs
    if isinstance(inputs, Mapping):
        inputs = {key: value for key, value in inputs.items() if key not in ("labels", "return_loss")}
    sw.binarize_(case.model, [sw.first_and_last, *case.skip])
    case.model.train()
    with torch.no_grad():
        for _ in range(3):  # batch-norm statistics to match
            case.run(case.model)
    return case.model.eval(), inputs


def outputs(model: torch.nn.Module, inputs: Any) -> Any:
    with torch.no_grad():
        found = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    return other_models.first_tensor(found).numpy()


@pytest.mark.parametrize("name", COMPILED)
def test_a_model_of_another_package_compiles_and_equals_pytorch_as_a_file(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages
        model, inputs = built(name)
        program = sw.compile(model, inputs)
        expected = outputs(model, inputs)
    program.save(tmp_path / "net.sw")
    program = Program.load(tmp_path / "net.sw")
    assert any(isinstance(operation, ops.Weighted) and operation.bits == 1 for operation in program.ops)
    found: Any = program(*(part.numpy() for part in (inputs.values() if isinstance(inputs, Mapping) else inputs)))
    found = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["transformers/bert", "transformers/gpt2", "transformers/llama"])
def test_a_padding_mask_is_an_input_of_the_program(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = built(name)
        assert isinstance(inputs, dict)
        mask = torch.ones_like(inputs["input_ids"])
        program = sw.compile(model, {"input_ids": inputs["input_ids"], "attention_mask": mask})
        mask[:, -5:] = 0  # other than the example's
        expected = outputs(model, {"input_ids": inputs["input_ids"], "attention_mask": mask})
    found: Any = program(inputs["input_ids"].numpy(), mask.numpy())
    found = found[0] if isinstance(found, tuple) else found
    seen = found[:, :-5] - expected[:, :-5]
    assert np.abs(seen).max() < 1e-4 * np.abs(expected).max()


REFUSED = {"transformers/mamba": "mixer", "transformers/mixtral": ""}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_named_with_a_way_out(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = built(name)
        with pytest.raises(sw.SignwiseError, match=r"signwise\.pack_") as refusal:
            sw.compile(model, inputs)
    assert REFUSED[name] in str(refusal.value)
