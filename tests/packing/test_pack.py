from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import signwise as sw
from signwise.packing import PackedConv2d, PackedLinear, load_packed_, pack_


def float_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 36, 16), nn.ReLU(), nn.Linear(16, 4),
    )  # fmt: skip


def binary_model() -> Any:
    model = float_model()
    sw.binarize_(model, output_scale=sw.fan_in_scale)
    return model.eval()


def test_a_model_keeps_its_code_and_its_float_layers() -> None:
    model = binary_model()
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        expected = model(examples)
        report = pack_(model)
        torch.testing.assert_close(model(examples), expected, rtol=1e-4, atol=1e-4)
    assert report.layers == ("3", "6") and type(model[3]) is PackedConv2d and type(model[6]) is PackedLinear
    assert type(model[0]) is nn.Conv2d and type(model[8]) is nn.Linear
    assert report.weights == 8 * 72 + 16 * 288 and report.bytes_before == 4 * report.weights
    assert report.bytes_packed == report.weights // 8


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_latent_without_a_sign_is_refused_by_the_name_of_its_layer_and_nothing_is_packed(number: float) -> None:
    model = binary_model()
    with torch.no_grad():
        model[6].weight[1, 2] = number
    with pytest.raises(sw.SignwiseError, match=r"^6: a latent weight is NaN or infinite"):
        pack_(model)
    assert isinstance(model[3], sw.BinaryConv2d)


def test_a_subclass_with_code_of_its_own_is_refused() -> None:
    class Doubled(sw.BinaryLinear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * super().forward(input)

    with pytest.raises(sw.SignwiseError, match="0 is a Doubled with code of its own, which pack_ would lose"):
        pack_(nn.Sequential(Doubled(4, 4)))


@pytest.mark.parametrize("target", ["float", "binary", "packed", "meta"])
def test_a_packed_model_loads_into_any_form_of_the_model(target: str) -> None:
    packed = binary_model()
    with torch.no_grad():
        for tensor in packed.state_dict().values():
            if tensor.is_floating_point():
                tensor.normal_().abs_()
    expected_report = pack_(packed)
    with torch.device("meta" if target == "meta" else "cpu"):
        fresh: Any = float_model()
    if target in ("binary", "packed"):
        sw.binarize_(fresh, output_scale=sw.fan_in_scale)
    if target == "packed":
        pack_(fresh)
    report = load_packed_(fresh, packed.state_dict())
    assert report.layers == ("3", "6")
    if target != "packed":
        assert (report.weights, report.bytes_packed) == (expected_report.weights, expected_report.bytes_packed)
    examples = torch.randn(2, 3, 6, 6)
    assert torch.equal(fresh(examples), packed(examples))
    assert fresh.state_dict().keys() == packed.state_dict().keys()


def test_a_loaded_model_shares_no_memory_with_the_state_dict() -> None:
    packed, fresh = binary_model(), float_model()
    pack_(packed)
    state = packed.state_dict()
    load_packed_(fresh, state)
    examples = torch.randn(2, 3, 6, 6)
    expected = fresh(examples)
    state["3.bits"].bitwise_not_()
    state["0.weight"].zero_()
    assert torch.equal(fresh(examples), expected)


@pytest.mark.slow
def test_a_packed_model_loads_in_a_new_process_in_one_line(tmp_path: Path) -> None:
    model = sw.models.resnet20().eval()
    sw.binarize_(model)
    pack_(model)
    images = torch.randn(2, 3, 32, 32)
    save_file(model.state_dict(), tmp_path / "packed.safetensors")
    torch.save({"images": images, "expected": model(images)}, tmp_path / "expected.pt")
    code = """
import sys, torch, signwise as sw
model = sw.models.resnet20()
print(sw.load_packed_(model, sys.argv[1]))
saved = torch.load(sys.argv[2], weights_only=True)
assert torch.equal(model(saved["images"]), saved["expected"])
"""
    paths = [str(tmp_path / "packed.safetensors"), str(tmp_path / "expected.pt")]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("packed 18 layers with ")


def changed(**changes: Tensor | None) -> dict[str, Tensor]:
    """A packed model's state dict with some keys changed, or taken out; _ stands for the dot."""
    model = binary_model()
    pack_(model)
    named = {key.replace("_", ".", 1): tensor for key, tensor in changes.items()}
    state = {**model.state_dict(), **named}
    return {key: tensor for key, tensor in state.items() if tensor is not None}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"0_weight": None}, r"the state dict lacks 0\.weight"),
        ({"3_bits": None}, r"the state dict lacks 3\.weight"),
        ({"3_bias": None}, r"the state dict lacks 3\.bias"),
        ({"9_weight": torch.zeros(1)}, r"the state dict holds 9\.weight, which the model does not have"),
        (
            {"9_bits": torch.zeros(1, dtype=torch.uint8)},
            r"the state dict holds 9\.bits, but the model has no layer '9'",
        ),
        ({"1_bits": torch.zeros(1, dtype=torch.uint8)}, r"1\.bits belongs to a packed layer.*has a BatchNorm2d there"),
        ({"3_bits": torch.zeros(8, 8, dtype=torch.uint8)}, r"3\.bits has shape \[8, 8\].*needs \[8, 9\]"),
        ({"3_scale": torch.zeros(7)}, r"3\.scale has shape \[7\].*needs \[8\]"),
        ({"3_bits": torch.zeros(8, 9)}, r"3\.bits must hold bits in torch\.uint8, got torch\.float32"),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused_and_the_model_stays_as_it_was(
    state: dict[str, Tensor | None], message: str
) -> None:
    model = float_model()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with pytest.raises(sw.SignwiseError, match=message):
        load_packed_(model, changed(**state))
    assert type(model[3]) is nn.Conv2d and model.training
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())


def test_files_of_other_kinds_are_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(sw.SignwiseError, match=r"reads \.safetensors files.*torch\.load\(path, weights_only=True\)"):
        load_packed_(float_model(), tmp_path / "packed.pt")
    with pytest.raises(sw.SignwiseError, match=r"cannot read .*absent\.safetensors"):
        load_packed_(float_model(), tmp_path / "absent.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"no tensors at all")
    with pytest.raises(sw.SignwiseError, match=r"cannot read .*broken\.safetensors"):
        load_packed_(float_model(), tmp_path / "broken.safetensors")


def test_a_layer_with_two_names_is_packed_once() -> None:
    def shared() -> nn.Sequential:
        layer = nn.Linear(8, 8)
        return nn.Sequential(layer, nn.ReLU(), layer)

    model, fresh = shared(), shared()
    sw.binarize_(model, skip=None)
    pack_(model)
    report = load_packed_(fresh, model.state_dict())
    assert fresh[0] is fresh[2] and report.weights == 64
    examples = torch.randn(2, 8)
    assert torch.equal(fresh(examples), model(examples))


def test_a_float_model_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"found no binary layer: call signwise\.binarize_"):
        pack_(float_model())


def test_packing_again_packs_nothing() -> None:
    model = binary_model()
    pack_(model)
    assert pack_(model).layers == ()


def test_an_unfinished_binarization_is_named_with_its_alpha() -> None:
    model = binary_model()
    sw.BinarizationSchedule(100, t_alpha=0.5).apply_(model, 10)
    with pytest.warns(UserWarning, match=r"pack_: α is below 1 in 3 \(α = 0\.2\), 6 \(α = 0\.2\)"):
        pack_(model)


def test_a_model_without_values_is_refused_by_the_name_of_its_layer() -> None:
    with torch.device("meta"):
        model = float_model()
        sw.binarize_(model)
    with pytest.raises(sw.SignwiseError, match="3 is on the meta device and has no values"):
        pack_(model)
