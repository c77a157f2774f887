"""The schedules as the paper writes them, and attach(), which drives them from the optimizer."""

from __future__ import annotations

import copy
import dataclasses
import gc
import io
import itertools
import math
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.optim import Optimizer

import signwise as sw
from signwise import binary_layer


@given(total=st.integers(1, 5000), t_alpha=st.floats(0, 1), step=st.integers(0, 6000))
def test_alpha_is_the_papers_formula(total: int, t_alpha: float, step: int) -> None:
    alpha = sw.BinarizationSchedule(total, t_alpha=t_alpha).alpha(step)
    assert alpha == (1 if t_alpha == 0 else min(step / (t_alpha * total), 1))


@given(total=st.integers(1, 3000), ramp=st.floats(0, 1), end=st.floats(1.5, 50))
def test_zeta_stays_then_rises_every_step_to_its_end(total: int, ramp: float, end: float) -> None:
    schedule = sw.BinarizationSchedule(total, zeta_range=(1.0, end), zeta_ramp=ramp)
    values = [schedule.zeta(step) for step in range(total)]
    assert values[-1] == end and schedule.zeta(total + 5) == end
    plateau = [step for step in range(total - 1) if step < (1 - ramp) * total]
    assert all(values[step] == 1.0 for step in plateau)
    rising = values[len(plateau) :]
    assert all(low < high for low, high in itertools.pairwise(rising))
    if len(rising) > 2:
        steps = [high - low for low, high in itertools.pairwise(rising)]
        assert max(steps) == pytest.approx(min(steps), rel=1e-6)


def test_the_papers_zeta_is_one_for_ninety_percent_and_ends_at_twelve() -> None:
    schedule = sw.BinarizationSchedule(1000)
    assert schedule.zeta(899) == 1.0
    assert schedule.zeta(900) == pytest.approx(1 + 11 / 100)
    assert schedule.zeta(999) == 12.0


def test_apply_sets_every_binary_layer_in_place() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    sw.binarize_(model, skip=sw.last)
    (_, first), _ = sw.binary_layers(model)
    alpha = first.alpha
    sw.BinarizationSchedule(100, t_alpha=1.0).apply_(model, 25)
    assert first.alpha is alpha, "a new tensor would leave compiled graphs with the old one"
    assert [float(layer.alpha) for _, layer in sw.binary_layers(model)] == [0.25, 0.25]


@given(total=st.integers(2, 2000), warmup=st.integers(0, 500), factor=st.floats(0.01, 1))
def test_decay_factor_counts_the_milestones_passed(total: int, warmup: int, factor: float) -> None:
    warmup = min(warmup, total - 1)
    milestones = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
    decay = sw.StepDecay(total_steps=total, warmup_steps=warmup, factor=factor, milestones=milestones)
    for step in {0, warmup, total // 2, total - 1}:
        passed = sum((step - warmup) >= fraction * (total - warmup) - 1e-9 for fraction in milestones)
        assert decay.weight_decay_factor(step) == pytest.approx(factor**passed)
        assert decay.learning_rate_factor(step) == pytest.approx(factor**passed * min((step + 1) / max(warmup, 1), 1))


def test_weight_decay_is_not_warmed_up() -> None:
    decay = sw.StepDecay(total_steps=100, warmup_steps=10)
    assert decay.weight_decay_factor(0) == 1.0 and decay.learning_rate_factor(0) == pytest.approx(0.1)
    assert decay.learning_rate_factor(9) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sw.BinarizationSchedule(0), "total_steps must be at least 1, got 0"),
        (lambda: sw.BinarizationSchedule(10, t_alpha=1.5), r"t_alpha must be in \[0, 1\], got 1.5"),
        (lambda: sw.BinarizationSchedule(10, t_alpha=math.nan), "t_alpha must be"),
        (lambda: sw.BinarizationSchedule(10, zeta=(-1, 2)), "zeta must be"),
        (lambda: sw.BinarizationSchedule(10, zeta_ramp=2), "zeta_ramp must be"),
        (lambda: sw.StepDecay(total_steps=10, warmup_steps=11), "warmup_steps must be"),
        (lambda: sw.StepDecay(total_steps=10, factor=0), "factor must be"),
        (lambda: sw.StepDecay(total_steps=10, milestones=(1.2,)), "milestones must be"),
    ],
)
def test_schedule_settings_outside_their_range_are_refused_by_name(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(sw.SignwiseError, match=message):
        make()


def test_the_schedule_is_a_function_of_the_step_alone() -> None:
    schedule = sw.BinarizationSchedule(50)
    forwards = [schedule.zeta(step) for step in range(50)]
    backwards = [schedule.zeta(step) for step in reversed(range(50))][::-1]
    assert forwards == backwards


def test_schedules_are_values_and_the_keyword_zeta_still_works() -> None:
    schedule = sw.BinarizationSchedule(50, zeta=(2.0, 5.0))
    assert schedule == sw.BinarizationSchedule(50, zeta_range=(2.0, 5.0)) and schedule.zeta(0) == 2.0
    assert hash(schedule) == hash(sw.BinarizationSchedule(50, 0.9, (2.0, 5.0)))
    assert dataclasses.replace(schedule, total_steps=60).zeta_range == (2.0, 5.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.t_alpha = 0.5  # type: ignore[misc]  # that is the claim
    decay = sw.StepDecay(total_steps=10, warmup_steps=5)
    assert decay.learning_rate(1) == decay.learning_rate_factor(1) and decay.weight_decay(1) == 1.0


STEPS = 12
SCHEDULE = sw.BinarizationSchedule(STEPS, t_alpha=0.6, zeta_ramp=0.3)
DECAY = sw.StepDecay(total_steps=STEPS, warmup_steps=3, factor=0.5, milestones=(0.3, 0.7))
MakeOptimizer = Callable[[nn.Module], Optimizer]


def sgdw(model: nn.Module) -> Optimizer:
    return sw.SGDW(sw.param_groups(model, weight_decay=1e-2), lr=0.1)


def adamw(model: nn.Module) -> Optimizer:
    return torch.optim.AdamW(sw.param_groups(model, weight_decay=0.1), lr=0.05)


def make_model(method: sw.Method | None = None) -> nn.Sequential:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that some latents are beyond 1, where BWN clips
    sw.binarize_(model, skip=sw.last, method=method or sw.GroupTransform())
    return model


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, 6, generator=generator), torch.randint(0, 3, (16,), generator=generator)


def loss_of(model: nn.Module, step: int) -> Tensor:
    images, labels = batch(step)
    return F.cross_entropy(model(images), labels)


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    """An ordinary loop, without a line about binarization."""
    for step in steps:
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()


def train_by_hand(model: nn.Module, optimizer: Optimizer, steps: range, *, scale_weight_decay: bool) -> None:
    initial = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    for step in steps:
        SCHEDULE.apply_(model, step)
        for group, (rate, decay) in zip(optimizer.param_groups, initial, strict=True):
            group["lr"] = rate * DECAY.learning_rate_factor(step)
            if scale_weight_decay:
                group["weight_decay"] = decay * DECAY.weight_decay_factor(step)
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        sw.after_step_(model)


def assert_same(first: nn.Module, second: nn.Module) -> None:
    for (name, value), other in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(value, other), name


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.BWN()])
@pytest.mark.parametrize(("make", "scaled"), [(sgdw, True), (adamw, False)])
def test_attach_trains_as_the_loop_written_by_hand_bit_for_bit(
    make: MakeOptimizer, scaled: bool, method: sw.Method
) -> None:
    attached, by_hand = make_model(method), make_model(method)
    optimizer = make(attached)
    attachment = sw.attach(optimizer, attached, SCHEDULE, DECAY)
    train(attached, optimizer, range(STEPS))
    train_by_hand(by_hand, make(by_hand), range(STEPS), scale_weight_decay=scaled)
    assert_same(attached, by_hand)
    assert attachment.step == STEPS


@pytest.mark.parametrize("attach_first", [True, False])
@pytest.mark.parametrize("make", [sgdw, adamw])
def test_a_run_resumed_from_its_checkpoint_continues_bit_for_bit(make: MakeOptimizer, attach_first: bool) -> None:
    whole, interrupted = make_model(sw.BWN()), make_model(sw.BWN())
    for model, steps in ((whole, STEPS), (interrupted, 5)):
        optimizer = make(model)
        sw.attach(optimizer, model, SCHEDULE, DECAY)
        train(model, optimizer, range(steps))
    file = io.BytesIO()
    torch.save({"model": interrupted.state_dict(), "optimizer": optimizer.state_dict()}, file)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = make_model(sw.BWN())
    resumed.load_state_dict(saved["model"])
    optimizer = make(resumed)
    if attach_first:
        attachment = sw.attach(optimizer, resumed, SCHEDULE, DECAY)
        optimizer.load_state_dict(saved["optimizer"])
    else:
        optimizer.load_state_dict(saved["optimizer"])
        attachment = sw.attach(optimizer, resumed, SCHEDULE, DECAY)
    # Already before the next forward pass the layers and groups must be at step 5.
    assert attachment.step == 5
    assert [float(layer.alpha) for _, layer in sw.binary_layers(resumed)] == pytest.approx(2 * [SCHEDULE.alpha(5)])
    train(resumed, optimizer, range(5, STEPS))
    assert_same(resumed, whole)


def test_accumulated_gradients_count_as_one_step() -> None:
    model = make_model()
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    for step in range(4):
        optimizer.zero_grad()
        for part in range(3):
            assert attachment.step == step
            assert float(next(sw.binary_layers(model))[1].alpha) == pytest.approx(SCHEDULE.alpha(step))
            loss_of(model, 3 * step + part).backward()
        optimizer.step()
    assert attachment.step == 4


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_the_grad_scaler_skips_does_not_count(fused: bool) -> None:
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=fused)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step, expected in ((0, 1), (1, 1), (2, 2)):
        optimizer.zero_grad()
        scaler.scale(loss_of(model, step) * (math.inf if step == 1 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        assert attachment.step == expected
        assert optimizer.param_groups[0]["lr"] == 0.05 * DECAY.learning_rate_factor(expected)


@pytest.mark.parametrize(
    ("make", "scaled"),
    [
        (sgdw, True),
        (adamw, False),
        (lambda model: torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-2), False),
    ],
)
def test_weight_decay_is_scaled_only_where_the_optimizer_does_not_multiply_it_by_lr(
    make: MakeOptimizer, scaled: bool
) -> None:
    model = make_model()
    optimizer = make(model)
    before = optimizer.param_groups[0]["weight_decay"]
    DECAY.apply_(optimizer, STEPS - 1)
    assert optimizer.param_groups[0]["weight_decay"] == (before * 0.25 if scaled else before)
    DECAY.apply_(optimizer, STEPS - 1, scale_weight_decay=not scaled)
    DECAY.apply_(optimizer, 0, scale_weight_decay=True)
    assert optimizer.param_groups[0]["weight_decay"] == before, "factors apply to the initial value, not to each other"


def test_the_decay_of_adamw_falls_by_the_factor_and_not_by_its_square() -> None:
    weight = nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.5)
    DECAY.apply_(optimizer, STEPS - 1)  # a factor of 0.25
    weight.grad = torch.zeros(4, 4)
    optimizer.step()
    torch.testing.assert_close(weight.detach(), torch.full((4, 4), 1 - 0.25 * 0.1 * 0.5))


def test_without_decay_lr_and_weight_decay_belong_to_a_scheduler_of_pytorch() -> None:
    model = make_model()
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, DECAY.learning_rate_factor)
    for step in range(5):
        assert optimizer.param_groups[0]["lr"] == 0.1 * DECAY.learning_rate_factor(step)
        train(model, optimizer, range(step, step + 1))
        scheduler.step()
    assert attachment.step == 5 and optimizer.param_groups[0]["weight_decay"] == 1e-2


def test_initial_values_that_another_scheduler_recorded_are_respected() -> None:
    model = make_model()
    optimizer = sgdw(model)
    for group in optimizer.param_groups:  # as timm leaves them
        group.update(initial_lr=0.4, initial_weight_decay=0.08)
    DECAY.apply_(optimizer, STEPS - 1)
    assert optimizer.param_groups[0]["lr"] == 0.1 and optimizer.param_groups[0]["weight_decay"] == 0.02


def test_a_group_added_later_follows_the_schedule_from_its_own_values() -> None:
    model, more = make_model(), nn.Parameter(torch.ones(3))
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    train(model, optimizer, range(6))
    optimizer.add_param_group({"params": [more], "lr": 1.0})
    train(model, optimizer, range(6, 7))
    assert optimizer.param_groups[-1]["lr"] == DECAY.learning_rate_factor(7) and attachment.step == 7


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"]
)
def test_a_duplicate_of_the_optimizer_carries_the_step_and_drives_nothing(
    duplicate: Callable[[Optimizer], Optimizer],
) -> None:
    model = make_model()
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    train(model, optimizer, range(3))
    other = duplicate(optimizer)
    other.step()
    assert attachment.step == 3
    again = sw.attach(other, make_model(), SCHEDULE, DECAY)
    assert again.step == 3 and other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def test_a_detached_optimizer_drives_nothing_and_can_be_attached_again() -> None:
    model = make_model()
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    with pytest.raises(sw.SignwiseError, match="already drives a model"):
        sw.attach(optimizer, model, SCHEDULE)
    train(model, optimizer, range(2))
    attachment.detach()
    train(model, optimizer, range(2, 4))
    assert float(next(sw.binary_layers(model))[1].alpha) == pytest.approx(SCHEDULE.alpha(2))
    assert sw.attach(optimizer, model, SCHEDULE, DECAY).step == 2


def test_a_wrapped_optimizer_is_attached_inside() -> None:
    class Wrapper(Optimizer):
        """As accelerate's: an optimizer by type that never ran its constructor."""

        def __init__(self, optimizer: Optimizer) -> None:
            self.optimizer = optimizer

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    model = make_model()
    wrapper = Wrapper(sgdw(model))
    attachment = sw.attach(wrapper, model, SCHEDULE, DECAY)
    loss_of(model, 0).backward()
    wrapper.step()
    assert attachment.step == 1


def test_setting_the_step_moves_schedule_and_factors() -> None:
    model = make_model()
    optimizer = sgdw(model)
    sw.attach(optimizer, model, SCHEDULE, DECAY).step = 9
    assert float(next(sw.binary_layers(model))[1].zeta) == pytest.approx(SCHEDULE.zeta(9))
    assert optimizer.param_groups[0]["lr"] == 0.1 * DECAY.learning_rate_factor(9)


def test_an_optimizer_state_saved_without_attach_is_pointed_out() -> None:
    plain = make_model()
    saved = sgdw(plain).state_dict()
    model = make_model()
    optimizer = sgdw(model)
    attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
    with pytest.warns(UserWarning, match="saved without attach and has no step: continuing at step 0"):
        optimizer.load_state_dict(saved)
    assert attachment.step == 0


@pytest.mark.parametrize("make", [sgdw, adamw])
def test_distributed_checkpoints_carry_the_step_and_change_no_weight(make: MakeOptimizer) -> None:
    def attached(steps: int) -> tuple[nn.Module, Optimizer, sw.Attachment]:
        model = make_model()
        optimizer = make(model)
        attachment = sw.attach(optimizer, model, SCHEDULE, DECAY)
        train(model, optimizer, range(steps))
        return model, optimizer, attachment

    trained, optimizer, _ = attached(5)
    saved = get_optimizer_state_dict(trained, optimizer)
    model, optimizer, attachment = attached(0)
    # To have a state to load into, PyTorch takes a step with lr 0; with SGDW it must not decay.
    get_optimizer_state_dict(model, optimizer)
    assert_same(model, make_model())
    assert attachment.step == 0 and optimizer.param_groups[0]["lr"] == optimizer.defaults["lr"] / 3
    set_optimizer_state_dict(model, optimizer, saved)
    assert attachment.step == 5
    model.load_state_dict(trained.state_dict())
    whole, _, _ = attached(STEPS)
    train(model, optimizer, range(5, STEPS))
    assert_same(model, whole)


def test_attach_keeps_neither_model_nor_optimizer_alive() -> None:
    model = make_model()
    optimizer = sgdw(model)
    sw.attach(optimizer, model, SCHEDULE, DECAY)
    references = weakref.ref(model), weakref.ref(optimizer)
    del model, optimizer
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_forgotten_after_step_is_pointed_out_once() -> None:
    model = make_model(sw.BWN())
    optimizer = sgdw(model)
    train(model, optimizer, range(1))
    with pytest.warns(UserWarning, match=r"BWN changes the latent weights .* use signwise\.attach") as caught:
        train(model, optimizer, range(1, 8))
    assert len(caught) == 2, "once per layer"


def test_a_forgotten_after_step_is_pointed_out_with_a_fused_optimizer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_layer, "_LARGEST_ACCUMULATION", 5)
    model = make_model(sw.BWN())
    # PyTorch does not count the changes that fused steps make.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    train(model, optimizer, range(4))
    with pytest.warns(UserWarning, match="BWN changes the latent weights") as caught:
        train(model, optimizer, range(4, 12))
    assert len(caught) == 2, "once per layer"


def careful_loop(model: nn.Module, optimizer: Optimizer) -> None:
    """Everything that changes weights or runs forward passes between steps, and after_step_ after each step."""
    for step in range(4):
        for part in range(3):
            loss_of(model, 3 * step + part).backward()
        optimizer.step()
        sw.after_step_(model)
        optimizer.zero_grad()
        saved = copy.deepcopy(model.state_dict())
        model.load_state_dict(saved)
        model.eval()
        loss_of(model, step)
        model.train()


@pytest.mark.parametrize(
    ("method", "run"),
    [
        (sw.BWN(), careful_loop),
        (sw.BWN(), lambda model, optimizer: [loss_of(model, step).backward() for step in range(5)]),
        (sw.GroupTransform(), lambda model, optimizer: train(model, optimizer, range(6))),
        (sw.StraightThrough(), lambda model, optimizer: train(model, optimizer, range(6))),
    ],
    ids=["after_step_ called", "no optimizer step", "paper's method", "straight-through"],
)
def test_no_warning_without_reason(method: sw.Method, run: Callable[[nn.Module, Optimizer], object]) -> None:
    model = make_model(method)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(model, sgdw(model))


@pytest.mark.parametrize("decay", [sw.LinearDecay, sw.CosineDecay])
def test_curves_fall_from_one_to_nearly_zero_after_the_warm_up(decay: type[sw.Decay]) -> None:
    curve = decay(total_steps=1000, warmup_steps=100)
    rates = [curve.learning_rate_factor(step) for step in range(1001)]
    assert rates[:3] == [0.01, 0.02, 0.03] and rates[99] == 1.0
    assert rates[100:] == sorted(rates[100:], reverse=True)
    assert rates[550] == pytest.approx(0.5) and 0 < rates[999] < 0.002 and rates[1000] == pytest.approx(0)
    assert [curve.weight_decay_factor(step) for step in (0, 50, 100)] == [1.0, 1.0, 1.0]


def test_a_schedule_saves_its_settings_and_takes_them_over() -> None:
    saved, loaded = sw.BinarizationSchedule(100, 0.5, (1.0, 6.0), 0.2), sw.BinarizationSchedule(7)
    loaded.load_state_dict(saved.state_dict())
    assert loaded == saved
    with pytest.raises(sw.SignwiseError, match="t_alpha must be in"):
        loaded.load_state_dict({**saved.state_dict(), "t_alpha": 2.0})
    assert loaded == saved


def test_negative_steps_are_refused_and_steps_past_the_end_warn() -> None:
    model = nn.Linear(4, 4)
    sw.binarize_(model, skip=None)
    schedule, decay = sw.BinarizationSchedule(10), sw.LinearDecay(total_steps=10)
    with pytest.raises(sw.SignwiseError, match="steps count from 0, got step -1"):
        schedule.apply_(model, -1)
    with pytest.raises(sw.SignwiseError, match="steps count from 0, got step -1"):
        decay.apply_(sw.SGDW(model.parameters(), lr=0.1), -1)
    schedule.apply_(model, 10)  # where a training ends, without a word
    with pytest.warns(UserWarning, match="after the 10 steps of the schedule"):
        schedule.apply_(model, 11)
    assert model.get_buffer("alpha") == 1


def test_a_model_without_binary_layers_is_refused() -> None:
    with pytest.raises(sw.SignwiseError, match=r"no binary layer to schedule: call signwise\.binarize_"):
        sw.BinarizationSchedule(10).apply_(nn.Linear(4, 4), 0)


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.LAB(), sw.Bop()], ids=lambda one: type(one).__name__)
def test_a_closure_with_the_backward_pass_trains_as_a_plain_step(method: sw.Method) -> None:
    plain, closed = make_model(method), make_model(method)
    for model in (plain, closed):
        optimizer = sgdw(model)
        sw.attach(optimizer, model, sw.BinarizationSchedule(STEPS, t_alpha=0.5))
        for step in range(6):

            def closure(model: nn.Module = model, optimizer: Optimizer = optimizer, step: int = step) -> float:
                optimizer.zero_grad()
                loss = loss_of(model, step)
                loss.backward()
                return loss.item()

            if model is closed:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
    assert_same(plain, closed)


def test_weight_decay_follows_the_lr_of_a_scheduler_if_asked_and_never_rises_above_its_initial_value() -> None:
    model = make_model()
    optimizer = sw.SGDW(model.parameters(), lr=0.1, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: [1.0, 0.5, 2.0, 0.0][step])
    sw.attach(optimizer, model, sw.BinarizationSchedule(4), scale_weight_decay=True)
    seen = []
    for step in range(3):
        loss_of(model, step).backward()
        optimizer.step()
        seen.append(optimizer.param_groups[0]["weight_decay"])
        scheduler.step()
    assert seen == pytest.approx([0.01, 0.005, 0.01])
    assert optimizer.param_groups[0]["initial_weight_decay"] == 0.01
