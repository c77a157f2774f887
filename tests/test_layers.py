"""Binary layers are their float layers in every respect but the weight that they use."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import signwise as sw

LayerClass = type[Any]
LAYERS: list[tuple[LayerClass, LayerClass, Any, Any, Any]] = [
    (nn.Linear, sw.BinaryLinear, (12, 8), {}, (3, 12)),
    (nn.Conv1d, sw.BinaryConv1d, (4, 6, 3), {"padding": 1, "stride": 2}, (2, 4, 9)),
    (nn.Conv2d, sw.BinaryConv2d, (4, 6, 3), {"groups": 2, "dilation": 2}, (2, 4, 9, 8)),
    (nn.Conv2d, sw.BinaryConv2d, (4, 6, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 4, 9, 8)),
    (nn.Conv3d, sw.BinaryConv3d, (4, 6, 3), {"padding": "same"}, (2, 4, 5, 6, 7)),
    (nn.ConvTranspose1d, sw.BinaryConvTranspose1d, (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 9)),
    (nn.ConvTranspose2d, sw.BinaryConvTranspose2d, (4, 6, 3), {"groups": 2, "stride": 2}, (2, 4, 5, 6)),
    (nn.ConvTranspose3d, sw.BinaryConvTranspose3d, (4, 6, 2), {"groups": 2, "bias": False}, (2, 4, 3, 4, 5)),
]
IDS = [f"{binary.__name__}-{'-'.join(options) or 'plain'}" for _, binary, _, options, _ in LAYERS]


def pair(plain: LayerClass, binary: LayerClass, arguments: Any, options: Any) -> tuple[Any, Any]:
    """A binary layer, and the float layer that has its signs as weights."""
    layer = binary(*arguments, **options)
    reference = plain(*arguments, **options)
    reference.load_state_dict(layer.state_dict(), strict=True)
    return layer, reference


@pytest.mark.parametrize(("plain", "binary", "arguments", "options", "shape"), LAYERS, ids=IDS)
def test_evaluation_is_the_float_layer_with_signs(
    plain: LayerClass, binary: LayerClass, arguments: Any, options: Any, shape: Any
) -> None:
    layer, reference = pair(plain, binary, arguments, options)
    with torch.no_grad():
        reference.weight.copy_(torch.where(reference.weight > 0, 1.0, -1.0))
    inputs = torch.randn(shape)
    torch.testing.assert_close(layer.eval()(inputs), reference(inputs), rtol=0, atol=0)


@pytest.mark.parametrize(("plain", "binary", "arguments", "options", "shape"), LAYERS, ids=IDS)
def test_training_with_alpha_zero_is_the_float_layer(
    plain: LayerClass, binary: LayerClass, arguments: Any, options: Any, shape: Any
) -> None:
    layer, reference = pair(plain, binary, arguments, options)
    layer.alpha.fill_(0)
    inputs = torch.randn(shape)
    torch.testing.assert_close(layer(inputs), reference(inputs))
    layer(inputs).square().sum().backward()
    reference(inputs).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, reference.weight.grad)


@pytest.mark.parametrize(("plain", "binary", "arguments", "options", "shape"), LAYERS, ids=IDS)
def test_groups_are_the_weights_of_one_output_filter(
    plain: LayerClass, binary: LayerClass, arguments: Any, options: Any, shape: Any
) -> None:
    """A weight belongs to the group of the output channel that it feeds, found by tracing ones through the layer."""
    layer, reference = pair(plain, binary, arguments, {**options, "bias": False})
    outputs = (arguments[1],)
    groups = torch.full_like(reference.weight, -1)
    probe = torch.ones(shape).requires_grad_()
    out = reference(probe)
    for channel in range(outputs[0]):
        selected = out[..., channel] if plain is nn.Linear else out[:, channel]
        (gradient,) = torch.autograd.grad(selected.sum(), reference.weight, retain_graph=True)
        groups[gradient != 0] = channel
    assert int(groups.min()) >= 0
    expected = sw.group_transform(layer.weight, 1.0, partition=groups.long())
    torch.testing.assert_close(layer.relaxed_weight(), expected)


@pytest.mark.parametrize(("plain", "binary", "arguments", "options", "shape"), LAYERS, ids=IDS)
def test_filters_first_is_undone_by_filters_back(
    plain: LayerClass, binary: LayerClass, arguments: Any, options: Any, shape: Any
) -> None:
    layer = binary(*arguments, **options)
    assert layer.filters_first(layer.weight).shape[0] == arguments[1]
    torch.testing.assert_close(layer.filters_back(layer.filters_first(layer.weight)), layer.weight)


def make_model() -> Any:  # nn.Sequential, whose items mypy does not know
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(6 * 4 * 4, 3)
    )


def make_binary_model() -> Any:
    model = make_model()
    sw.binarize_(model, skip=sw.last, method=sw.GroupTransform())
    return model


INPUTS = torch.randn(5, 2, 8, 8, generator=torch.Generator().manual_seed(2))


def test_state_dicts_match_the_float_model_both_ways() -> None:
    plain, binary = make_model(), make_binary_model()
    before = {key: value.shape for key, value in plain.state_dict().items()}
    assert {key: value.shape for key, value in binary.state_dict().items()} == before
    assert list(binary.state_dict()) == list(plain.state_dict())
    binary.load_state_dict(plain.state_dict(), strict=True)
    plain.load_state_dict(binary.state_dict(), strict=True)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_a_duplicate_computes_the_same_and_shares_nothing(duplicate: Callable[[nn.Module], Any]) -> None:
    model = make_binary_model()
    sw.BinarizationSchedule(10, t_alpha=1.0).apply_(model, 4)
    other = duplicate(model)
    torch.testing.assert_close(other(INPUTS), copy.deepcopy(model)(INPUTS), rtol=0, atol=0)
    sw.BinarizationSchedule(10, t_alpha=1.0).apply_(other, 9)
    with torch.no_grad():
        other[0].weight.neg_()
    assert float(model[0].alpha) == pytest.approx(0.4) and float(other[0].alpha) == pytest.approx(0.9)
    assert not torch.equal(model[0].weight, other[0].weight)


def test_a_shallow_copy_computes_the_same_with_the_same_weights() -> None:
    layer = sw.BinaryLinear(6, 4)
    other = copy.copy(layer)
    assert other.weight is layer.weight and other.method is layer.method
    torch.testing.assert_close(other(torch.ones(2, 6)), layer(torch.ones(2, 6)), rtol=0, atol=0)


def test_torch_save_round_trips_through_the_state_dict_alone() -> None:
    model, other = make_binary_model(), make_binary_model()
    with torch.no_grad():
        model[0].weight.neg_()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other.eval()(INPUTS), model.eval()(INPUTS), rtol=0, atol=0)


def test_a_moving_average_averages_latents_and_deploys_their_signs() -> None:
    model = make_binary_model()
    average: Any = AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
    average.update_parameters(model)
    with torch.no_grad():
        model[3].weight.mul_(-3)
    before = average.module[3].weight.clone()
    average.update_parameters(model)
    torch.testing.assert_close(average.module[3].weight, 0.5 * before + 0.5 * model[3].weight)
    assert bool((average.module.eval()[3].effective_weight().abs() == 1).all())


def test_compiled_whole_and_once_while_alpha_and_zeta_change() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    model = make_binary_model()
    compiled: Any = torch.compile(model, fullgraph=True, backend=count)
    schedule = sw.BinarizationSchedule(6, t_alpha=0.5)
    for step in range(6):
        schedule.apply_(model, step)
        torch.testing.assert_close(compiled(INPUTS), model(INPUTS))
    assert len(graphs) == 1


@pytest.mark.slow
def test_inductor_trains_like_eager() -> None:
    model, reference = make_binary_model(), make_binary_model()
    sw.BinarizationSchedule(10).apply_(model, 4)
    sw.BinarizationSchedule(10).apply_(reference, 4)
    compiled: Any = torch.compile(model, fullgraph=True)
    compiled(INPUTS).square().mean().backward()
    reference(INPUTS).square().mean().backward()
    for (name, got), (_, expected) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        torch.testing.assert_close(got.grad, expected.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_bfloat16_autocast_trains_and_leaves_float32_latents() -> None:
    model = make_binary_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(INPUTS)
    assert out.dtype == torch.bfloat16
    out.float().square().mean().backward()
    gradient = model[0].weight.grad
    assert gradient.dtype == torch.float32 and bool(gradient.isfinite().all()) and bool((gradient != 0).any())


def test_export_gives_the_deployed_model() -> None:
    model = make_binary_model().eval()
    program = torch.export.export(model, (INPUTS,))
    torch.testing.assert_close(program.module()(INPUTS), model(INPUTS))


def test_relaxed_evaluates_with_the_training_weights_inside_its_block_only() -> None:
    model = make_binary_model().eval()
    deployed = model(INPUTS)
    with sw.relaxed(model):
        weight = model[3].effective_weight()
        torch.testing.assert_close(weight, sw.group_transform(model[3].weight, 1.0))
        assert not torch.equal(model(INPUTS), deployed)
    torch.testing.assert_close(model(INPUTS), deployed, rtol=0, atol=0)


def test_half_precision_models_keep_alpha_and_zeta_in_float32() -> None:
    model = make_binary_model()
    sw.BinarizationSchedule(1000, t_alpha=1.0).apply_(model, 333)
    model.to(torch.bfloat16)
    assert model[0].weight.dtype == torch.bfloat16
    assert model[0].alpha.dtype == torch.float32 and float(model[0].alpha) == pytest.approx(0.333, abs=1e-7)
    assert model(INPUTS.bfloat16()).dtype == torch.bfloat16


def test_layers_made_on_the_meta_device_start_like_new_ones() -> None:
    with torch.device("meta"):
        layer = sw.BinaryLinear(8, 4)
    layer.to_empty(device="cpu")
    layer.reset_parameters()
    assert float(layer.alpha) == 1 and float(layer.zeta) == 1
    assert bool(layer(torch.ones(1, 8)).isfinite().all())


@pytest.mark.parametrize("gain", [1, 2])
def test_output_scale_preserves_the_size_of_activations_and_is_deployed(gain: float) -> None:
    model: Any = nn.Sequential(*[nn.Linear(256, 256, bias=False) for _ in range(4)])
    sw.binarize_(model, skip=None, output_scale=lambda layer: sw.fan_in_scale(layer, gain))
    assert model[0].output_scale == pytest.approx(math.sqrt(gain / 256))
    deployed = model[0].deployed()
    torch.testing.assert_close(deployed.scale, torch.full((256,), math.sqrt(gain / 256)))
    layer, inputs = model[0].eval(), torch.randn(1000, 256)
    torch.testing.assert_close(layer(inputs), inputs @ deployed.signs.T * deployed.scale)
    assert float(layer(inputs).std()) == pytest.approx(math.sqrt(gain), rel=0.1)


def test_with_a_scale_alpha_zero_is_still_the_float_layer() -> None:
    plain = nn.Linear(16, 4)
    scaled = [sw.BinaryLinear(16, 4, output_scale=0.1), sw.BinaryLinear(16, 4, method=sw.GroupTransform(scale="mean"))]
    for layer in scaled:
        layer.load_state_dict(plain.state_dict(), strict=False)
        layer.alpha.fill_(0)
        inputs = torch.randn(5, 16)
        torch.testing.assert_close(layer(inputs), plain(inputs))


@pytest.mark.parametrize("layer_class", [nn.ConvTranspose2d, nn.Conv2d])
def test_fan_in_counts_the_weights_of_one_filter_whatever_the_layout(layer_class: LayerClass) -> None:
    layer = layer_class(8, 12, 3, groups=4)
    assert sw.fan_in_scale(layer) == pytest.approx(1 / math.sqrt(2 * 9))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_an_output_scale_that_is_not_positive_is_refused(scale: float) -> None:
    with pytest.raises(sw.SignwiseError, match="output_scale must be positive"):
        sw.BinaryLinear(4, 4, output_scale=scale)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_not_deployed_and_the_layer_is_named(value: float) -> None:
    model = make_binary_model()
    with torch.no_grad():
        model[3].weight[0, 0, 0, 0] = value
    with pytest.raises(sw.SignwiseError, match="NaN or infinite"):
        model[3].deployed()
    with pytest.raises(sw.SignwiseError, match=r"3\.weight holds NaN"):
        sw.refuse_nonfinite(model)


def test_the_representation_names_the_method() -> None:
    assert "method=ScaledSign" in repr(sw.BinaryConv2d(2, 3, 3, method=sw.ScaledSign()))


def test_a_backward_pass_in_evaluation_mode_says_that_latents_get_no_gradient() -> None:
    model = make_binary_model().eval()
    with pytest.warns(UserWarning, match=r"gives the latents of binary layers no gradient.*model\.train\(\)"):
        model(INPUTS).sum().backward()
    assert model[3].weight.grad is None and model[5].weight.grad is not None


def test_gradients_of_inputs_in_evaluation_mode_need_no_warning() -> None:
    model, inputs = make_binary_model().eval(), INPUTS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs).sum(), inputs)
    assert bool(gradient.any())


def test_fusing_a_batch_norm_into_a_binary_layer_is_refused() -> None:
    conv, norm = sw.BinaryConv2d(2, 4, 3).eval(), nn.BatchNorm2d(4).eval()
    with pytest.raises(sw.SignwiseError, match="a BinaryConv2d cannot be fused with a batch norm in PyTorch"):
        torch.nn.utils.fusion.fuse_conv_bn_eval(conv, norm)


@pytest.mark.parametrize("way", ["to_empty", "assign", "from_pretrained"])
@pytest.mark.parametrize(
    "method", [sw.GroupTransform(), sw.IRNet(), sw.SelfBinarizing()], ids=lambda m: type(m).__name__
)
def test_a_layer_from_the_meta_device_has_its_initial_knobs(way: str, method: sw.Method) -> None:
    expected = sw.BinaryLinear(6, 4, method=method)
    with torch.device("meta"):
        layer = sw.BinaryLinear(6, 4, method=method)
    if way == "to_empty":
        layer.to_empty(device="cpu")
        layer.load_state_dict(expected.state_dict())
    elif way == "assign":
        layer.load_state_dict(expected.state_dict(), assign=True)
    else:  # it sets parameters one by one, and buffers outside of the state dict to uninitialized memory
        for name, buffer in list(layer.named_buffers()):
            setattr(layer, name, torch.full_like(buffer, 7e-16, device="cpu"))
        for name, value in expected.state_dict(keep_vars=True).items():
            setattr(layer, name, value)
    assert {name: float(value) for name, value in layer.named_buffers() if value.dim() == 0} == {
        name: float(value) for name, value in expected.named_buffers() if value.dim() == 0
    }
    inputs = torch.randn(3, 6)
    torch.testing.assert_close(layer.train()(inputs), expected.train()(inputs))
    torch.testing.assert_close(layer.eval()(inputs), expected.eval()(inputs))


@pytest.mark.parametrize("marked", [False, True], ids=["missing", "loaded"])
@pytest.mark.parametrize("method", [sw.PARQ(), sw.DSQ()], ids=["buffers", "parameters"])
def test_extras_that_a_loader_leaves_uninitialized_start_like_new_ones(method: sw.Method, marked: bool) -> None:
    # As transformers' from_pretrained does with a float checkpoint: it marks what it loads, the rest is torch.empty.
    with torch.device("meta"):
        layer = sw.BinaryLinear(8, 4, method=method)
    torch.manual_seed(0)
    layer.weight = nn.Parameter(torch.randn(4, 8))
    wanted = method.extras(layer.weight.detach())
    assert wanted
    for name, fresh in wanted.items():
        brought: torch.Tensor = torch.full_like(fresh, 7)
        if isinstance(fresh, nn.Parameter):
            brought = nn.Parameter(brought)
        brought._is_hf_initialized = marked  # type: ignore[attr-defined]
        setattr(layer, name, brought)
        torch.testing.assert_close(
            getattr(layer, name).detach(), torch.full_like(fresh, 7) if marked else fresh.detach()
        )
        assert isinstance(getattr(layer, name), nn.Parameter) == isinstance(fresh, nn.Parameter)


def test_extras_of_a_checkpoint_survive_assign_from_the_meta_device() -> None:
    trained = sw.BinaryLinear(8, 4, method=sw.PARQ())
    trained.level.fill_(0.25)  # type: ignore[operator]
    with torch.device("meta"):
        layer = sw.BinaryLinear(8, 4, method=sw.PARQ())
    layer.load_state_dict(trained.state_dict(), assign=True)
    assert torch.equal(layer.level, trained.level)  # type: ignore[arg-type]
