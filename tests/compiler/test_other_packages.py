"""Models of transformers, timm and diffusers: binary, compiled, saved, loaded, equal to PyTorch; or refused by name."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
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
acceptance: Any = importlib.import_module("acceptance")

pytestmark = pytest.mark.slow

COMPILED = [
    "transformers/resnet", "transformers/mobilenet_v2", "transformers/convnext", "transformers/efficientnet",
    "transformers/vit", "transformers/bert", "transformers/bert classifier", "transformers/gpt2", "transformers/llama",
    "transformers/llama, tied", "transformers/mistral", "transformers/qwen2", "transformers/mamba", "transformers/swin",
    "transformers/clip text", "transformers/clip vision", "diffusers/unet2d", "diffusers/dit", "timm/resnet18",
    "timm/efficientnet_b0", "timm/mobilenetv3_small_050", "timm/convnext_atto", "timm/vit_tiny_patch16_224",
    "timm/swin_tiny_patch4_window7_224", "torchvision/swin",
]  # fmt: skip


def trained(name: str, steps: int = 4) -> Any:
    """The case of a model with binary layers after some steps, in evaluation mode, and its inputs without labels."""
    torch.manual_seed(0)
    try:
        case = other_models.MODELS[name]()
    except ModuleNotFoundError as error:
        pytest.skip(f"{error}; make test-models installs it")
    inputs = case.inputs
    sw.binarize_(case.model, [sw.first_and_last, *case.skip], example_input=case.inputs)
    optimizer = acceptance.OPTIMIZERS["AdamW"](case.model)
    sw.attach(optimizer, case.model, sw.BinarizationSchedule(total_steps=steps, t_alpha=0.5))
    case.model.train()
    for _ in range(steps):
        loss = case.loss(case.run(case.model))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.isfinite(loss)
    if isinstance(inputs, Mapping):
        inputs = {key: value for key, value in inputs.items() if key not in ("labels", "return_loss")}
    case.model.eval()
    return replace(case, inputs=inputs)


def built(name: str) -> tuple[torch.nn.Module, Any]:
    case = trained(name)
    return case.model, case.inputs


def outputs(model: torch.nn.Module, inputs: Any) -> Any:
    with torch.no_grad():
        found = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    return other_models.first_tensor(found).numpy()


@pytest.mark.parametrize("name", COMPILED)
def test_a_model_of_another_package_compiles_and_equals_pytorch_as_a_file(name: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages
        case = trained(name)
        model, inputs = case.model, case.inputs
        program = sw.compile(model, inputs)
        expected = outputs(model, inputs)
        # EfficientNet amplifies rounding: PyTorch's own outputs in float32 are as far from those in float64.
        bound = max(1e-4, 4 * acceptance.rounding(case))
    program.save(tmp_path / "net.sw")
    program = Program.load(tmp_path / "net.sw")
    assert any(isinstance(operation, ops.Weighted) and operation.bits == 1 for operation in program.ops)
    found: Any = program(*(part.numpy() for part in (inputs.values() if isinstance(inputs, Mapping) else inputs)))
    found = found[0] if isinstance(found, tuple) else found
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * np.abs(expected).max())


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


# Experts chosen by what the router computes, and texts compared with the images of other examples.
REFUSED = {"transformers/mixtral": "MixtralExperts", "transformers/clip": "compares examples with each other"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_named_with_a_way_out(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, inputs = built(name)
        with pytest.raises(sw.SignwiseError, match=r"signwise\.pack_") as refusal:
            sw.compile(model, inputs)
    assert REFUSED[name] in str(refusal.value)
