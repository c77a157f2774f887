"""Recipes and options check themselves and record every setting; a recipe changes as a whole."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from signwise.errors import SignwiseError
from signwise.training import RECIPES, Options, Recipe, get_recipe


def test_a_shorter_run_shortens_its_warm_up_in_proportion() -> None:
    assert get_recipe("lenet5-mnist").changed(epochs=20).warmup_epochs == 0.5
    assert get_recipe("lenet5-mnist").changed(epochs=20, warmup_epochs=3).warmup_epochs == 3
    assert get_recipe("lenet5-mnist").changed(epochs=400).warmup_epochs == 5


def test_fewer_training_images_limit_the_test_images_unless_they_are_given() -> None:
    assert get_recipe("lenet5-mnist").changed(train_samples=512).test_samples == 512
    assert get_recipe("lenet5-mnist").changed(train_samples=512, test_samples=10).test_samples == 10


def test_a_recipe_survives_its_record() -> None:
    for name in RECIPES:
        for bits in (1, 32):
            original = get_recipe(name, bits).changed(seed=3)
            assert Recipe.from_json(original.to_json()) == original


def test_a_record_that_is_older_than_a_setting_takes_its_default() -> None:
    record = get_recipe("lenet5-mnist").to_json()
    del record["reestimate_batch_norm"]
    assert Recipe.from_json(record | {"of_the_future": 1}) == get_recipe("lenet5-mnist")


def test_a_record_without_what_it_needs_is_refused() -> None:
    record = get_recipe("lenet5-mnist").to_json()
    del record["epochs"]
    with pytest.raises(SignwiseError, match="incomplete"):
        Recipe.from_json(record)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bits", 2),
        ("epochs", 0),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("weight_decay", -1e-3),
        ("momentum", 1.0),
        ("warmup_epochs", 201),
        ("decay_factor", -1),
        ("decay_at", (0.5, 0.4)),
        ("decay_at", (0.5, 1.4)),
        ("t_alpha", 1.5),
        ("t_alpha", None),
        ("zeta_start", 13),
        ("skip", "conv1,"),
        ("method", "magic"),
        ("translate", -1),
        ("train_samples", 0),
        ("seed", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(SignwiseError, match=f"{name} must be .*, got "):
        dataclasses.replace(get_recipe("lenet5-mnist"), **{name: value})  # type: ignore[arg-type]  # wrong on purpose


def test_full_precision_has_no_t_alpha() -> None:
    with pytest.raises(SignwiseError, match="t_alpha must be left out with 32 bits"):
        get_recipe("lenet5-mnist", bits=32).changed(t_alpha=0.5)


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(SignwiseError, match="has no setting epoch"):
        get_recipe("lenet5-mnist").changed(epoch=1)


@pytest.mark.parametrize(("name", "value"), [("threads", 0), ("checkpoint_minutes", -1.0)])
def test_an_option_outside_its_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SignwiseError, match=f"{name} must be .*, got {value}"):
        Options(**{name: value})


def test_the_record_of_options_is_json_without_resume() -> None:
    record = json.loads(json.dumps(Options(data=Path("data"), resume=True, watch=("conv*",)).to_json()))
    assert record["data"] == "data" and record["watch"] == ["conv*"] and "resume" not in record


def test_a_resumed_run_keeps_the_recorded_arithmetic_and_names_each_setting_given_otherwise() -> None:
    recorded = {"threads": 3, "options": Options(bfloat16=True, compiled=True, deterministic=True).to_json()}
    options, notes = Options(resume=True, device="cpu").as_begun(recorded)
    assert (options.threads, options.bfloat16, options.compiled, options.deterministic) == (3, True, True, True)
    assert options.sync_batch_norm is False and options.device == "cpu" and not notes

    options, notes = Options(threads=2, bfloat16=False, compiled=True).as_begun(recorded)
    assert (options.threads, options.bfloat16, options.compiled) == (2, False, True)
    assert [note.partition(":")[0] for note in notes] == [
        "threads was 3 and is 2 now",
        "bfloat16 was True and is False now",
    ]


def test_skip_takes_name_globs_and_refuses_empty_ones() -> None:
    assert get_recipe("lenet5-mnist").changed(skip="conv1,fc*").skip == "conv1,fc*"
    with pytest.raises(SignwiseError, match=r"skip must be one of .* or name globs such as"):
        get_recipe("lenet5-mnist").changed(skip="conv1,")
