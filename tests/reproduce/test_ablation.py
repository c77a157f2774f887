"""The ablation: every choice trains, and the record becomes a table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from signwise import datasets
from signwise.errors import FormatError
from signwise.reproduce.ablation import FILE, ablation_markdown, choices, measure_ablation
from signwise.training import get_recipe
from signwise.training.data import standardized_data


@pytest.mark.slow
def test_every_choice_is_trained_and_recorded_once_per_seed(digits: Path, tmp_path: Path) -> None:
    said: list[str] = []
    path = measure_ablation(tmp_path, said.append, data=digits, epochs=1, images=20, test_images=20, seeds=2)
    assert path == tmp_path / FILE and len(said) == len(choices(get_recipe("lenet5-mnist")))
    text = ablation_markdown(tmp_path)
    assert "| all of them | as in the recipes here |" in text and "| input scaling | pixels from 0 to 1 |" in text
    assert "1 epochs of 20 images" in text


def test_pixels_from_0_to_1_undo_the_standardization(digits: Path) -> None:
    scaling = next(choice for choice in choices(get_recipe("lenet5-mnist")) if choice.question == "input scaling")
    raw = datasets.load("mnist", digits)
    scaled = scaling.data(standardized_data(raw, torch.device("cpu")))
    assert float(scaled.train.images.min()) == 0 and float(scaled.train.images.max()) == 1
    torch.testing.assert_close(scaled.train.images, torch.from_numpy(raw.train_images).float() / 255, atol=1e-3, rtol=0)


def test_a_missing_record_is_a_note_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert ablation_markdown(tmp_path) == "_Not measured yet._"
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FormatError, match="not a record of the ablation"):
        ablation_markdown(tmp_path)
