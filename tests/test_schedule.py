"""The schedules as the paper writes them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import signwise as sw


@given(total=st.integers(1, 5000), t_alpha=st.floats(0, 1), step=st.integers(0, 6000))
def test_alpha_is_the_papers_formula(total, t_alpha, step):
    alpha = sw.BinarizationSchedule(total, t_alpha=t_alpha).alpha(step)
    assert alpha == (1 if t_alpha == 0 else min(step / (t_alpha * total), 1))


@given(total=st.integers(1, 3000), ramp=st.floats(0, 1), end=st.floats(1.5, 50))
def test_zeta_stays_then_rises_every_step_to_its_end(total, ramp, end):
    schedule = sw.BinarizationSchedule(total, zeta=(1.0, end), zeta_ramp=ramp)
    values = [schedule.zeta(step) for step in range(total)]
    assert values[-1] == end and schedule.zeta(total + 5) == end
    plateau = [step for step in range(total - 1) if step < (1 - ramp) * total]
    assert all(values[step] == 1.0 for step in plateau)
    rising = values[len(plateau) :]
    assert all(low < high for low, high in itertools.pairwise(rising))
    if len(rising) > 2:
        steps = [high - low for low, high in itertools.pairwise(rising)]
        assert max(steps) == pytest.approx(min(steps), rel=1e-6)


def test_the_papers_zeta_is_one_for_ninety_percent_and_ends_at_twelve():
    schedule = sw.BinarizationSchedule(1000)
    assert schedule.zeta(899) == 1.0
    assert schedule.zeta(900) == pytest.approx(1 + 11 / 100)
    assert schedule.zeta(999) == 12.0


def test_apply_sets_every_binary_layer_in_place():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    sw.binarize_(model, skip=sw.last)
    alpha = model[0].alpha
    sw.BinarizationSchedule(100, t_alpha=1.0).apply_(model, 25)
    assert model[0].alpha is alpha, "a new tensor would leave compiled graphs with the old one"
    assert [float(layer.alpha) for _, layer in sw.binary_layers(model)] == [0.25, 0.25]


@given(total=st.integers(2, 2000), warmup=st.integers(0, 500), factor=st.floats(0.01, 1))
def test_decay_factor_counts_the_milestones_passed(total, warmup, factor):
    warmup = min(warmup, total - 1)
    milestones = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
    decay = sw.StepDecay(total_steps=total, warmup_steps=warmup, factor=factor, milestones=milestones)
    for step in {0, warmup, total // 2, total - 1}:
        passed = sum((step - warmup) >= fraction * (total - warmup) - 1e-9 for fraction in milestones)
        assert decay.weight_decay(step) == pytest.approx(factor**passed)
        assert decay.learning_rate(step) == pytest.approx(factor**passed * min((step + 1) / max(warmup, 1), 1))


def test_weight_decay_is_not_warmed_up():
    decay = sw.StepDecay(total_steps=100, warmup_steps=10)
    assert decay.weight_decay(0) == 1.0 and decay.learning_rate(0) == pytest.approx(0.1)
    assert decay.learning_rate(9) == 1.0


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
def test_settings_outside_their_range_are_refused_by_name(make, message):
    with pytest.raises(sw.SignwiseError, match=message):
        make()


def test_the_schedule_is_a_function_of_the_step_alone():
    schedule = sw.BinarizationSchedule(50)
    forwards = [schedule.zeta(step) for step in range(50)]
    backwards = [schedule.zeta(step) for step in reversed(range(50))][::-1]
    assert forwards == backwards
