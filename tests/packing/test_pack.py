from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import signwise as sw
from signwise.packing import PackedConv2d, PackedLayer, PackedLinear, load_packed_, pack_

KINDS: list[tuple[type[nn.Module], tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    (nn.Linear, (7, 5), {}, (3, 7)),
    (nn.Linear, (19, 4), {"bias": False}, (2, 3, 19)),
    (nn.Conv1d, (4, 6, 3), {"padding": 1, "groups": 2}, (2, 4, 9)),
    (nn.Conv2d, (3, 5, 3), {"padding": 1, "stride": 2}, (2, 3, 8, 9)),
    (nn.Conv2d, (4, 6, (1, 5)), {"padding": "same", "dilation": (1, 2), "groups": 2, "bias": False}, (2, 4, 7, 9)),
    (nn.Conv2d, (3, 5, 4), {"padding": "same"}, (2, 3, 8, 9)),
    (nn.Conv2d, (3, 5, 3), {"padding": 1, "padding_mode": "circular"}, (2, 3, 8, 9)),
    (nn.Conv2d, (3, 5, 3), {}, (3, 8, 9)),
    (nn.Conv3d, (2, 3, 3), {"padding": 1}, (2, 2, 4, 5, 6)),
    (nn.ConvTranspose1d, (4, 6, 3), {"groups": 2}, (2, 4, 9)),
    (nn.ConvTranspose2d, (4, 6, 3), {"stride": 2, "groups": 2}, (2, 4, 5, 5)),
    (nn.ConvTranspose3d, (2, 3, 2), {}, (1, 2, 3, 3, 3)),
]


def binary(kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], **how: Any) -> Any:
    torch.manual_seed(0)
    layer = kind(*arguments, **options)
    sw.binarize_(layer, skip=None, **how)
    return layer.eval()


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


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_a_packed_layer_gives_the_outputs_of_the_binary_one(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...], scaled: bool
) -> None:
    how: dict[str, Any] = {"method": sw.ScaledSign(), "output_scale": 0.25} if scaled else {}
    layer = binary(kind, arguments, options, **how)
    examples = torch.randn(shape)
    with torch.no_grad():
        expected = layer(examples)
        pack_(layer)
        assert isinstance(layer, PackedLayer)
        torch.testing.assert_close(layer(examples), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_the_state_dict_holds_one_bit_per_weight_and_loads_into_a_fresh_model(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    layer, fresh = binary(kind, arguments, options), binary(kind, arguments, options)
    latents = torch.randn_like(layer.weight)
    layer.load_state_dict({**layer.state_dict(), "weight": latents})
    rows = latents.shape[0]
    pack_(layer)
    pack_(fresh)
    state = layer.state_dict()
    assert "weight" not in state and state["bits"].dtype == torch.uint8
    assert state["bits"].numel() == rows * -(-latents[0].numel() // 8)
    examples = torch.randn(shape)
    fresh(examples)
    fresh.load_state_dict(state)
    assert torch.equal(fresh(examples), layer(examples))


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


def test_training_mode_and_gradients_are_refused() -> None:
    model = binary_model()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    model(examples)
    with pytest.raises(sw.SignwiseError, match="packed layers are for inference and have no gradient"):
        model(examples).sum().backward()
    with pytest.raises(sw.SignwiseError, match=r"call model\.eval\(\) first"):
        model.train()(examples)


def test_an_input_of_the_wrong_size_is_named() -> None:
    model = binary_model()
    pack_(model)
    with pytest.raises(sw.SignwiseError, match="the input has 5 features, the layer takes 288"):
        model[6](torch.zeros(1, 5))
    with pytest.raises(sw.SignwiseError, match="the layer takes 8 channels"):
        model[3](torch.zeros(1, 5, 6, 6))


def test_copies_and_pickles_of_a_packed_model_give_the_same_outputs() -> None:
    model = binary_model()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    expected = model(examples)
    assert torch.equal(copy.deepcopy(model)(examples), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(examples), expected)


def test_bits_that_change_in_place_are_noticed() -> None:
    layer = binary(nn.Linear, (16, 4), {"bias": False})
    pack_(layer)
    examples = torch.randn(3, 16)
    before = layer(examples)
    layer.bits.bitwise_not_()
    torch.testing.assert_close(layer(examples), -before)


def test_other_precisions_work() -> None:
    model = binary_model()
    examples = torch.randn(2, 3, 6, 6)
    pack_(model)
    expected = model(examples)
    found = model.double()(examples.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-4)


def test_inference_mode_works() -> None:
    with torch.inference_mode():
        model = binary_model()
        pack_(model)
        examples = torch.randn(2, 3, 6, 6)
        assert torch.equal(model(examples), model(examples))


def test_operators_keep_their_promises_to_pytorch() -> None:
    layer = binary(nn.Conv2d, (3, 5, 3), {"padding": 1})
    pack_(layer)
    arguments = (torch.randn(2, 3, 6, 7), layer.bits, None, layer.bias, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1)
    torch.library.opcheck(torch.ops.signwise.packed_conv2d.default, arguments)
    layer = binary(nn.Linear, (9, 5), {})
    pack_(layer)
    torch.library.opcheck(torch.ops.signwise.packed_linear.default, (torch.randn(2, 9), layer.bits, None, layer.bias))


@pytest.mark.filterwarnings("ignore")
def test_export_sees_the_operators_with_a_free_batch_size() -> None:
    model = binary_model()
    pack_(model)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: batch},))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert "signwise.packed_conv2d.default" in targets and "signwise.packed_linear.default" in targets
    examples = torch.randn(5, 3, 6, 6)
    torch.testing.assert_close(exported.module()(examples), model(examples))


@pytest.mark.filterwarnings("ignore")
def test_compile_takes_the_whole_model_as_one_graph() -> None:
    model = binary_model()
    pack_(model)
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(examples), model(examples))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "options", "shape"), KINDS)
def test_a_packed_layer_loads_into_a_float_layer(
    kind: type[nn.Module], arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...], scaled: bool
) -> None:
    how: dict[str, Any] = {"method": sw.ScaledSign(), "output_scale": 0.25} if scaled else {}
    packed, fresh = binary(kind, arguments, options, **how), kind(*arguments, **options)
    pack_(packed)
    report = load_packed_(fresh, packed.state_dict())
    assert type(fresh) is type(packed) and report.layers == ("",) and not fresh.training
    examples = torch.randn(shape)
    assert torch.equal(fresh(examples), packed(examples))


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
