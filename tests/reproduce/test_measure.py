"""Measured steps: taken once, remembered, and as large as the network needs."""

from __future__ import annotations

from pathlib import Path

import torch
from signwise.reproduce.measure import _measured_images, seconds_per_image
from signwise.reproduce.step_times import remembered

from signwise.reproduce.launch import Slot
from signwise.training import Recipe, recipe


def test_a_step_takes_time_and_leaves_the_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    assert 0 < seconds_per_image(recipe("lenet5-mnist"), "cpu", threads=1, images=10) < 10
    assert torch.get_num_threads() == before


def test_small_networks_are_measured_on_a_full_batch_and_wide_ones_on_a_few_images() -> None:
    cpu = torch.device("cpu")
    images = {
        name: _measured_images(recipe(name), cpu) for name in ("lenet5-mnist", "resnet18-cifar10", "wrn28_10-cifar10")
    }
    assert images["lenet5-mnist"] == 100 and images["wrn28_10-cifar10"] == 4
    assert 4 < images["resnet18-cifar10"] < 128


def test_a_time_is_measured_once_for_each_recipe_and_place(tmp_path: Path) -> None:
    measured: list[str] = []

    def measure(wanted: Recipe) -> float:
        measured.append(wanted.name)
        return 0.25

    lenet5 = recipe("lenet5-mnist")
    for slot in (Slot(device="cpu", threads=1), Slot(device="cpu", threads=1), Slot(device="cpu", threads=2)):
        assert remembered(tmp_path, slot, measure, print)(lenet5.changed(seed=3)) == 0.25
    assert measured == ["lenet5-mnist"] * 2
    (tmp_path / "step-times.json").write_text("damaged")
    assert remembered(tmp_path, Slot(device="cpu"), measure, print)(lenet5) == 0.25 and len(measured) == 3
