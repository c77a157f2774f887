"""Each method against numbers that were computed independently, in float64, from its published definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.methods.method import Method, State, per_filter
from signwise.training.recipe import METHODS as RECIPE_METHODS

# Two filters of two inputs and two taps.
LATENT = ((0.5, -0.2, 0.1, -0.9), (0.05, 0.3, -0.6, 1.2))
INCOMING = ((1.0, -2.0, 0.5, 3.0), (-1.0, 0.25, 2.0, -0.5))
SIGNS = ((1.0, -1.0, 1.0, -1.0), (1.0, 1.0, -1.0, 1.0))
Rows = tuple[tuple[float, ...], tuple[float, ...]]


def filters(rows: Rows) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).view(2, 2, 2)


def scaled(rows: Rows, *factors: float) -> Rows:
    first, second = factors * 2 if len(factors) == 1 else factors
    return tuple(first * value for value in rows[0]), tuple(second * value for value in rows[1])


def state_of(method: Method, latent: Tensor, progress: float = 0.0, **values: float) -> dict[str, Tensor]:
    knobs = {"alpha": 1.0, "zeta": 1.0} | {name: knob(progress) for name, knob in method.knobs().items()} | values
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in knobs.items()} | method.extras(latent)


def forward_and_gradient(method: Method, state: State, latent: Tensor) -> tuple[Tensor, Tensor]:
    phi = latent.clone().requires_grad_()
    weight = method.weight(phi, state)
    weight.backward(filters(INCOMING))
    assert phi.grad is not None
    return weight.detach(), phi.grad


def check(found: Tensor, expected: Rows, tolerance: float = 2e-6) -> None:
    torch.testing.assert_close(found, filters(expected), rtol=0, atol=tolerance)


# method, state, forward, gradient
CASES: list[tuple[Method, dict[str, float], Rows, Rows]] = [
    (
        sw.GroupTransform(),
        {"alpha": 0.25, "zeta": 1.0},
        ((0.643394, -0.367811, 0.306606, -0.957189), (0.244581, 0.455073, -0.7, 1.212846)),
        ((0.772992, -1.729925, 0.352008, 2.479925), (-0.803649, 0.248813, 1.5, -0.382664)),
    ),
    (sw.BinaryConnect(), {}, SIGNS, INCOMING),
    (sw.StraightThrough(), {}, SIGNS, ((1.0, -2.0, 0.5, 3.0), (-1.0, 0.25, 2.0, 0.0))),
    (sw.ScaledSign(), {}, scaled(SIGNS, math.sqrt(0.5)), INCOMING),
    (sw.MeanSign(per="layer"), {}, scaled(SIGNS, 0.48125), INCOMING),
    (sw.MeanSign(per="filter"), {}, scaled(SIGNS, 0.425, 0.5375), INCOMING),
    (
        sw.MeanSign(per="layer", center="layer"),
        {},
        ((0.48125, -0.48125, 0.48125, -0.48125), (-0.48125, 0.48125, -0.48125, 0.48125)),
        INCOMING,
    ),
    (
        sw.IRNet(),
        {"temperature": 0.1},
        ((1, -1, 1, -1), (-0.5, 0.5, -0.5, 0.5)),
        ((2.061056, -4.585606, 0.324446, 2.200104), (-0.93861, 0.093024, 0.553156, 0.292431)),
    ),
    (
        sw.IRNet(),
        {"temperature": 1.0},
        ((1, -1, 1, -1), (-0.5, 0.5, -0.5, 0.5)),
        ((0.918685, -3.176726, 0.937549, 1.320492), (-0.646996, 0.201242, 0.312738, 0.133017)),
    ),
    (
        sw.IRNet(),
        {"temperature": 10.0},
        ((1, -1, 1, -1), (-0.5, 0.5, -0.5, 0.5)),
        ((1.878877, -6.843517, 2.160034, 2.804606), (-0.342385, 0.707517, -0.135012, -0.230119)),
    ),
    (
        sw.SelfBinarizing(),
        {"steepness": 1.0},
        ((0.462117, -0.197375, 0.099668, -0.716298), (0.049958, 0.291313, -0.53705, 0.833655)),
        ((0.786448, -1.922086, 0.495033, 1.460752), (-0.997504, 0.228784, 1.423156, -0.15251)),
    ),
    (
        sw.SelfBinarizing(),
        {"steepness": 10.0},
        ((0.999909, -0.964028, 0.761594, -1.0), (0.462117, 0.995055, -0.999988, 1.0)),
        ((0.001816, -1.413016, 2.099872, 0.000002), (-7.864477, 0.024665, 0.000492, 0.0)),
    ),
    (
        sw.PARQ(),
        {"slope": 1.0},
        ((0.48125, -0.2, 0.1, -0.48125), (0.05, 0.3, -0.48125, 0.48125)),
        INCOMING,
    ),
    (
        sw.PARQ(),
        {"slope": 0.5},
        ((0.48125, -0.4, 0.2, -0.48125), (0.1, 0.48125, -0.48125, 0.48125)),
        INCOMING,
    ),
    (sw.PARQ(), {"slope": 0.0}, scaled(SIGNS, 0.48125), INCOMING),
    (
        sw.BinaryRelax(),
        {"mix": 0.5},
        ((0.490625, -0.340625, 0.290625, -0.690625), (0.265625, 0.390625, -0.540625, 0.840625)),
        INCOMING,
    ),
    (sw.ProxQuant(), {"pull": 0.0}, LATENT, INCOMING),
    (sw.SQBWN(), {}, scaled(SIGNS, 0.425, 0.5375), INCOMING),
    (sw.LAB(), {}, scaled(SIGNS, 0.48125), INCOMING),
    (sw.Bop(), {}, SIGNS, INCOMING),
]


@pytest.mark.parametrize(
    ("method", "values", "weight", "gradient"), CASES, ids=[f"{type(m).__name__}-{v}" for m, v, _, _ in CASES]
)
def test_weight_and_gradient_equal_the_published_definition(
    method: Method, values: dict[str, float], weight: Rows, gradient: Rows
) -> None:
    latent = filters(LATENT)
    found_weight, found_gradient = forward_and_gradient(method, state_of(method, latent, **values), latent)
    check(found_weight, weight)
    check(found_gradient, gradient)


@pytest.mark.parametrize(("method", "values", "weight", "gradient"), CASES)
def test_a_gradient_that_is_wrong_by_one_percent_would_be_noticed(
    method: Method, values: dict[str, float], weight: Rows, gradient: Rows
) -> None:
    latent = filters(LATENT)
    _, found = forward_and_gradient(method, state_of(method, latent, **values), latent)
    with pytest.raises(AssertionError):
        check(1.01 * found, gradient)


@pytest.mark.parametrize(
    ("exact", "gradient"),
    [
        (False, ((0.2625, -0.525, 0.13125, 0.7875), (-0.31875, 0.079688, 0.6375, -0.159375))),
        (True, ((-0.425, -0.8375, 0.63125, 0.975), (-0.6625, 0.517188, 0.85625, -0.565625))),
    ],
)
def test_bwn_centers_its_latents_and_has_both_gradients(exact: bool, gradient: Rows) -> None:
    latent = filters(LATENT)
    method = sw.BWN(exact=exact, times_fan_in=False)
    method.after_step_(latent, {}, 0.1)
    check(latent, ((0.2, 0.35, -0.2, -0.35), (0.325, -0.45, -0.325, 0.45)))
    weight, found = forward_and_gradient(method, {}, latent)
    check(weight, ((0.275, 0.275, -0.275, -0.275), (0.3875, -0.3875, -0.3875, 0.3875)))
    check(found, gradient)
    _, times_fan_in = forward_and_gradient(sw.BWN(exact=exact), {}, latent)
    check(times_fan_in, scaled(gradient, 4.0), tolerance=8e-6)


def test_bwn_leaves_a_single_input_channel_uncentered() -> None:
    latent = torch.tensor([[[0.5, -2.0]]])
    sw.BWN().after_step_(latent, {}, 0.1)
    assert latent.tolist() == [[[0.5, -1.0]]]
    phi = latent.clone().requires_grad_()
    sw.BWN().weight(phi, {}).sum().backward()
    assert phi.grad is not None and bool((phi.grad != 0).all())


def test_lab_weighs_its_scale_by_the_second_moment_of_the_gradient() -> None:
    latent = filters(LATENT)
    method = sw.LAB()
    state = state_of(method, latent)
    method.before_step_(latent, filters(INCOMING), state)
    weight, gradient = forward_and_gradient(method, state, latent)
    check(weight, scaled(SIGNS, 0.543902))
    check(gradient, INCOMING)
    check(method.deploy(latent, state).dense(), scaled(SIGNS, 0.543902))


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        (0.05, ((0.55, -0.25, 0.15, -0.95), (0.1, 0.35, -0.65, 1.0))),
        (1.5e-4, ((0.50015, -0.20015, 0.10015, -0.90015), (0.05015, 0.30015, -0.60015, 1.0))),
    ],
)
def test_prox_quant_pulls_each_latent_towards_its_sign(rho: float, expected: Rows) -> None:
    latent = filters(LATENT)
    method = sw.ProxQuant()
    method.after_step_(latent, state_of(method, latent, pull=rho / 0.01), 0.01)
    check(latent, expected, tolerance=1e-12)


def test_prox_quant_rises_linearly_and_freezes_the_signs() -> None:
    method = sw.ProxQuant(strength=0.03, freeze_at=0.6)
    pull = method.knobs()["pull"]
    assert pull(0.0) == 0.0 and pull(0.3) == pytest.approx(0.015)
    assert not method.frozen(0.59) and method.frozen(0.6)
    latent = filters(LATENT)
    method.after_step_(latent, state_of(method, latent, progress=0.6), 0.01)
    check(latent, SIGNS)


def test_dsq_has_the_gradient_of_the_soft_step_and_trains_its_bound() -> None:
    latent = filters(LATENT)
    method = sw.DSQ()
    state = method.extras(latent)
    with torch.no_grad():
        state["bound"].fill_(0.6)
    weight, gradient = forward_and_gradient(method, state, latent)
    check(weight, scaled(SIGNS, 0.6))
    check(gradient, ((0.653897, -2.408797, 0.664117, 0.0), (-1.361819, 0.257487, 0.988751, 0.0)))


def test_dsq_trains_its_bound_and_its_softness_by_the_derivative_of_the_soft_step() -> None:
    latent = filters(LATENT)
    method = sw.DSQ()
    state = method.extras(latent)
    forward_and_gradient(method, state, latent)
    for name in ("bound", "softness"):
        found, sides, step = state[name].grad, [], 1e-6
        for sign in (1, -1):
            moved = {key: value.detach() + (sign * step if key == name else 0) for key, value in state.items()}
            sides.append((soft_step(latent, moved["bound"], moved["softness"]) * filters(INCOMING)).sum())
        assert found is not None
        assert float(found) == pytest.approx(float(sides[0] - sides[1]) / (2 * step), rel=1e-5)


def soft_step(x: Tensor, bound: Tensor, softness: Tensor) -> Tensor:
    k = torch.log(2 / softness - 1) / (2 * bound)
    inside = bound / (1 - softness) * torch.tanh(k * x)
    return torch.where(x > bound, bound, torch.where(x < -bound, -bound, inside))


def test_mpt_keeps_the_largest_scores_and_trains_them_alone() -> None:
    latent = filters(LATENT).requires_grad_()
    method = sw.MPT(keep=0.5)
    state = method.extras(latent)
    with torch.no_grad():
        state["scores"].copy_(filters(((0.3, -0.8, 0.05, 0.6), (-0.1, 0.9, 0.2, -0.4))))
    weight = method.weight(latent, state)
    check(weight.detach(), ((0.0, -0.65, 0.0, -0.65), (0.0, 0.65, 0.0, 0.65)))
    weight.backward(filters(INCOMING))
    assert latent.grad is None and state["scores"].grad is not None
    check(state["scores"].grad, ((0.5, -0.4, 0.05, -2.7), (0.05, 0.075, -1.2, 0.6)))


def test_reste_raises_its_order_and_follows_the_power_function() -> None:
    method = sw.ReSTE()
    order = method.knobs()["order"]
    assert [round(order(p), 6) for p in (0.0, 0.5, 1.0)] == [1.0, 1.585786, 3.0]
    latent = filters(LATENT)
    factor = method.gradient_factor(latent, torch.tensor(3.0, dtype=torch.float64))
    check(factor, ((0.529134, 0.974673, 4.641589, 0.357589), (4.641589, 0.743814, 0.468574, 0.295183)))
    # The scale is in the graph: m f G + sign(φ) mean(sign(φ) G), means over the layer.
    weight, gradient = forward_and_gradient(method, state_of(method, latent, order=3.0), latent)
    check(weight, scaled(SIGNS, 0.48125))
    signs, incoming = filters(SIGNS), filters(INCOMING)
    torch.testing.assert_close(gradient, 0.48125 * factor * incoming + signs * (signs * incoming).mean())


def test_bop_flips_where_the_gradient_has_pushed_against_the_weight() -> None:
    latent = filters(LATENT)
    method = sw.Bop(threshold=0.04, adaptivity=0.1)
    state = method.extras(latent)
    method.before_step_(latent, filters(INCOMING), state)
    check(latent, ((-1, 1, -1, -1), (1, 1, -1, 1)))
    assert method.frozen(0.0)


def test_binary_connect_scales_the_step_and_clips() -> None:
    latent = filters(LATENT)
    assert sw.BinaryConnect().step_factor(latent) == pytest.approx(2.309401, abs=1e-6)
    assert sw.BinaryConnect(power=2).step_factor(latent) == pytest.approx(5.333333, abs=1e-6)
    assert sw.BinaryConnect(power=0).step_factor(latent) == 1.0
    sw.BinaryConnect().after_step_(latent, {}, 0.1)
    check(latent, (LATENT[0], (0.05, 0.3, -0.6, 1.0)))


def test_stochastic_binary_connect_draws_in_proportion_to_the_latent() -> None:
    torch.manual_seed(0)
    latent = torch.full((1, 20000), 0.5)
    weight = sw.BinaryConnect(stochastic=True).weight(latent, {})
    assert set(weight.unique().tolist()) == {-1.0, 1.0}
    assert float((weight > 0).float().mean()) == pytest.approx(0.75, abs=0.02)


def test_sq_bwn_draws_float_filters_by_their_error() -> None:
    torch.manual_seed(0)
    latent = torch.ones(8, 4)
    latent[:4] = torch.tensor([0.1, 2.0, -0.1, 0.1])  # the first four have an error, the others none
    method = sw.SQBWN()
    state = {"binary_fraction": torch.tensor(0.5)} | method.extras(latent)
    for _ in range(20):
        method.after_step_(latent, state, 0.1)
        assert state["is_binary"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    weight = method.weight(latent, state)
    torch.testing.assert_close(weight[:4], latent[:4])
    fraction = method.knobs()["binary_fraction"]
    assert [fraction(p) for p in (0.0, 0.3, 0.6, 0.8, 1.0)] == [0.5, 0.75, 0.875, 1.0, 1.0]


def test_parq_slope_falls_along_the_sigmoid_and_levels_are_refreshed_every_tenth_step() -> None:
    slope = sw.PARQ(end=1.0).knobs()["slope"]
    found = [round(slope(p), 6) for p in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert found == [1.0, 0.929896, 0.5, 0.070104, 0.0]
    method, latent = sw.PARQ(), filters(LATENT)
    state = method.extras(latent)
    for step in range(10):
        assert state["level"].tolist() == pytest.approx([0.48125] * 2), step
        method.after_step_(2 * latent, state, 0.1)
    assert state["level"].tolist() == pytest.approx([0.9625] * 2)


def test_schedules_of_ir_net_and_self_binarizing_reach_their_published_values() -> None:
    temperature, steepness = sw.IRNet().knobs()["temperature"], sw.SelfBinarizing().knobs()["steepness"]
    assert [round(temperature(p), 9) for p in (0.0, 0.5, 1.0)] == [0.1, 1.0, 10.0]
    assert [round(steepness(p), 6) for p in (0.0, 0.5, 1.0)] == [1.0, 31.622777, 1000.0]


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_group_transform_at_the_mean_is_the_papers_transform_of_the_scaled_latent(alpha: float) -> None:
    latent = filters(LATENT)
    method = sw.GroupTransform(scale="mean")
    weight, gradient = forward_and_gradient(method, state_of(method, latent, alpha=alpha, zeta=1.5), latent)
    scale = torch.tensor([0.425, 0.5375], dtype=torch.float64).view(2, 1, 1)
    phi = latent.clone().requires_grad_()
    expected = scale * sw.group_transform(phi / scale, 1.5, 1.0)
    expected = alpha * expected + (1 - alpha) * phi
    expected.backward(filters(INCOMING))
    torch.testing.assert_close(weight, expected.detach())
    torch.testing.assert_close(gradient, phi.grad)
    torch.testing.assert_close(method.deploy(latent, {}).dense(), filters(scaled(SIGNS, 0.425, 0.5375)))


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.SelfBinarizing()])
def test_exact_methods_pass_gradcheck(method: Method) -> None:
    latent = filters(LATENT).requires_grad_()
    state = state_of(method, latent.detach(), progress=0.2, alpha=0.7, zeta=0.5)
    assert torch.autograd.gradcheck(lambda phi: method.weight(phi, state), (latent,))


# Settings with which 150 steps on a small task suffice.
LEARNERS: list[tuple[Method, float]] = [
    (sw.GroupTransform(), 0.02),
    (sw.GroupTransform(scale="mean"), 0.05),
    (sw.BinaryConnect(), 0.02),
    (sw.BWN(times_fan_in=False), 0.05),
    (sw.LAB(), 0.02),
    (sw.IRNet(), 0.05),
    (sw.ProxQuant(strength=20), 0.02),
    (sw.SQBWN(), 0.05),
    (sw.SelfBinarizing(), 0.02),
    (sw.MPT(), 0.5),
    (sw.DSQ(), 0.02),
    (sw.ScaledSign(), 0.02),
    (sw.StraightThrough(), 0.02),
    (sw.MeanSign(), 0.05),
    (sw.PARQ(), 0.05),
    (sw.BinaryRelax(), 0.05),
    (sw.ReSTE(), 0.05),
    (sw.Bop(threshold=1e-3, adaptivity=0.05), 0.02),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "rate"), LEARNERS, ids=[type(m).__name__ for m, _ in LEARNERS])
def test_each_method_learns_evaluates_what_it_deploys_and_packs_or_says_why_not(method: Method, rate: float) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(512, 16)
    targets = (inputs @ torch.randn(16, 4).sign()).argmax(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    sw.binarize_(model, skip=sw.last, method=method)
    optimizer = sw.SGDW(sw.param_groups(model, 1e-4), lr=rate)
    sw.attach(optimizer, model, sw.BinarizationSchedule(150, t_alpha=0.5))
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
    assert float((outputs.argmax(1) == targets).float().mean()) > 0.7  # chance is 0.25
    layer = model[0]
    assert isinstance(layer, sw.BinaryLayer)
    if isinstance(method, sw.MPT):
        with pytest.raises(sw.SignwiseError, match="three values"):
            sw.pack_(model)
        return
    deployed = layer.deployed()
    torch.testing.assert_close(layer.effective_weight(), deployed.dense())
    program = sw.compile(model, inputs[:1])
    torch.testing.assert_close(torch.from_numpy(program(inputs.numpy())), outputs, rtol=1e-4, atol=1e-4)
    sw.pack_(model)
    with torch.no_grad():
        torch.testing.assert_close(model(inputs), outputs, rtol=1e-4, atol=1e-4)


class Shifted(Method):
    """Two values that are not symmetric, as a user's own method might have."""

    def weight(self, latent: Tensor, state: State) -> Tensor:
        return latent

    def deploy(self, latent: Tensor, state: State) -> sw.Deployed:
        return sw.Deployed(sw.binary_sign(latent), offset=latent.mean(dim=1))


def test_a_deployed_offset_is_evaluated_and_refused_by_the_packer() -> None:
    layer = sw.BinaryLinear(4, 2, method=Shifted()).eval()
    expected = sw.binary_sign(layer.weight) + per_filter(layer.weight.detach().mean(dim=1), layer.weight)
    torch.testing.assert_close(layer.effective_weight(), expected)
    with pytest.raises(sw.SignwiseError, match="not symmetric around zero"):
        sw.pack_(nn.Sequential(layer))


@pytest.mark.parametrize("method", [sw.LAB(), sw.PARQ(), sw.Bop(), sw.DSQ(), sw.MPT(), sw.SQBWN()])
def test_extras_are_saved_and_a_float_checkpoint_still_loads(method: Method) -> None:
    plain = nn.Sequential(nn.Linear(8, 4))
    names = list(method.extras(torch.ones(4, 8)))
    model = nn.Sequential(nn.Linear(8, 4))
    sw.binarize_(model, skip=None, method=method)
    model.load_state_dict(plain.state_dict())
    torch.testing.assert_close(model[0].weight, plain[0].weight)
    with torch.no_grad():
        for name in names:
            getattr(model[0], name).add_(0.25)
    again = nn.Sequential(nn.Linear(8, 4))
    sw.binarize_(again, skip=None, method=method)
    again.load_state_dict(model.state_dict())
    for name in names:
        torch.testing.assert_close(getattr(again[0], name), getattr(model[0], name))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sw.StraightThrough(clip=0.0), "clip must be positive"),
        (lambda: sw.StraightThrough(clip=math.nan), "clip must be positive"),
        (lambda: sw.BinaryConnect(power=3), "power must be 0, 1 or 2"),
        (lambda: sw.GroupTransform(scale="max"), "scale must be None, 'mean', 'learned' or a positive number"),  # type: ignore[arg-type]
        (lambda: sw.MeanSign(per="row"), "per must be 'layer' or 'filter'"),  # type: ignore[arg-type]
        (lambda: sw.MPT(keep=0.0), "keep must be in"),
        (lambda: sw.ProxQuant(freeze_at=1.5), "freeze_at must be in"),
        (lambda: sw.SelfBinarizing(end=1.0), "end must be greater than 1"),
        (lambda: sw.PARQ(refresh=0), "refresh must be at least 1"),
        (lambda: sw.ReSTE(end=0.5), "end must be at least 1"),
        (lambda: sw.Bop(adaptivity=0.0), "adaptivity must be in"),
    ],
)
def test_a_setting_outside_its_range_is_refused_by_name(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(sw.SignwiseError, match=message):
        make()


def test_methods_with_hooks_say_what_they_need() -> None:
    assert not sw.GroupTransform().has_hooks and not sw.MeanSign().has_hooks
    assert sw.BWN().has_hooks and not sw.BWN().needs_attach
    assert all(method.needs_attach for method in (sw.BinaryConnect(), sw.LAB(), sw.ProxQuant(), sw.Bop(), sw.MPT()))
    model = nn.Sequential(nn.Linear(4, 4))
    sw.binarize_(model, skip=None, method=sw.LAB())
    with pytest.raises(sw.SignwiseError, match="LAB needs more than after_step_"):
        sw.after_step_(model)


def test_groups_are_filters_unless_a_method_has_others() -> None:
    assert sw.BinaryConnect().groups == sw.GroupTransform().groups == 0
    assert sw.GroupTransform(partition=(0, 1)).groups == (0, 1)


def test_recipes_know_every_method_by_its_name() -> None:
    assert tuple(sw.methods.METHODS) == RECIPE_METHODS
