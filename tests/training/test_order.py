"""Randomness is a function of the seed and the place, and of nothing else."""

from __future__ import annotations

import pytest
import torch
from signwise.training.order import derived_seed, epoch_order, seed_layers

CPU = torch.device("cpu")


def test_seeds_differ_in_every_argument_and_are_fixed_for_good() -> None:
    places = [(seed, purpose, index) for seed in (0, 1) for purpose in ("order", "layers") for index in range(50)]
    assert len({derived_seed(*place) for place in places}) == len(places)
    # Resumed runs depend on it: a change of this number breaks every checkpoint.
    assert derived_seed(0, "order", 0) == 3991725939186754870


def test_an_epochs_order_visits_every_image_once_whatever_was_drawn_before() -> None:
    first = epoch_order(3, 7, 100, CPU)
    torch.rand(5)
    assert torch.equal(first, epoch_order(3, 7, 100, CPU))
    assert sorted(first.tolist()) == list(range(100))
    assert not torch.equal(first, epoch_order(3, 8, 100, CPU))


def test_layers_on_the_cpu_draw_as_after_torch_manual_seed_and_no_accelerator_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = derived_seed(0, "layers", 1)
    torch.manual_seed(seed)
    expected = torch.randn(100)
    monkeypatch.setattr(torch, "get_device_module", pytest.fail)
    seed_layers(seed, CPU)
    assert torch.equal(torch.randn(100), expected)


@pytest.mark.parametrize(
    ("kind", "seeding"), [("cuda", "manual_seed_all"), ("xpu", "manual_seed_all"), ("mps", "manual_seed")]
)
def test_layers_on_an_accelerator_have_its_generator_seeded_too(
    kind: str, seeding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.get_device_module(kind), seeding, seeds.append)
    seed_layers(5, torch.device(kind, 0))
    assert seeds == [5] and torch.initial_seed() == 5
