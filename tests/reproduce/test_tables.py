"""Tables and sentences: our number beside the paper's, rows only for what exists, the rest in one sentence."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from signwise import datasets, models
from signwise.reproduce import tables
from signwise.reproduce.experiments import GPU, experiments, few_steps
from signwise.reproduce.records import Record
from signwise.reproduce.tables import Table
from signwise.training import Recipe, get_recipe
from signwise.training.recipe import METHODS

MadeUp = Callable[..., Record]


def _rows(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.csv())))


def test_table_1_shows_ours_beside_the_papers_with_difference_and_seeds(made_up: MadeUp) -> None:
    lenet5 = get_recipe("lenet5-mnist")
    records = [
        made_up(lenet5, best=0.50, last=0.60),
        made_up(lenet5.changed(seed=1), best=0.60, last=0.60),
        made_up(get_recipe("lenet5-mnist", 32), best=0.70, last=0.75),
    ]
    full, binary = _rows(tables.table1(records))
    assert binary["Experiment"] == "LeNet5 on MNIST"
    assert (binary["Paper, %"], binary["Ours, %"], binary["Difference"], binary["Seeds"]) == (
        "0.53",
        "0.55 ± 0.07",
        "+0.02",
        "2",
    )
    assert (full["Ours, %"], full["Difference"], full["Seeds"]) == ("0.70", "+0.06", "1")
    assert (binary["Gain, paper"], binary["Gain, ours"]) == ("+0.11", "+0.15")


def test_what_is_not_measured_has_no_row() -> None:
    assert not tables.table1([]).rows and not tables.alpha([]).rows
    assert "Ours, %" not in tables.comparison([]).headings


def test_a_shortened_run_does_not_enter_the_papers_tables(made_up: MadeUp) -> None:
    short = made_up(get_recipe("lenet5-mnist").changed(epochs=10))
    assert not tables.table1([short]).rows and not tables.alpha([short]).rows
    assert "Ours, %" not in tables.comparison([short]).headings
    assert [row["Epochs"] for row in _rows(tables.short([short]))] == ["10"]


def test_another_method_is_never_taken_for_this_one(made_up: MadeUp) -> None:
    other = made_up(get_recipe("lenet5-mnist").changed(method="binary_connect"))
    assert not tables.table1([other]).rows
    (row,) = _rows(tables.short([other]))
    assert (row["Method"], row["T_α"]) == ("BinaryConnect", "")


def test_methods_that_blend_the_latent_show_their_t_alpha(made_up: MadeUp) -> None:
    by_mean = made_up(get_recipe("lenet5-mnist").changed(method="group_transform_mean", t_alpha=0.3))
    (row,) = _rows(tables.short([by_mean]))
    assert (row["Method"], row["T_α"]) == ("this method, targets at ±mean", "0.3")


def test_a_run_that_starts_from_a_float_network_says_so(made_up: MadeUp) -> None:
    recipe = get_recipe("lenet5-mnist").changed(epochs=10)
    tuned = recipe.changed(init_from="lenet5-mnist-32bit")
    rows = _rows(tables.short([made_up(start) for start in (recipe, tuned, tuned.changed(distill=True))]))
    assert [row["Start"] for row in rows] == ["scratch", "float network", "float network that also teaches"]


def test_the_summary_has_a_line_per_float_network_that_became_binary(made_up: MadeUp) -> None:
    recipe = get_recipe("resnet20_fast-cifar10").changed(epochs=16, init_from="resnet20_fast-cifar10-32bit-0")
    shorter = recipe.changed(train_samples=100)
    assert tables.summary([made_up(recipe, best=11.0, last=11.5), made_up(shorter)]) == (
        "- **ResNet-20 on CIFAR-10, 1 bit, mean sign (DoReFa, LSBQ):** best 11.00 % in 16 epochs, 11.50 % after the "
        "last (1 seed); from a float network; not in the paper."
    )
    assert "from a float network that also teaches; not in" in tables.summary([made_up(recipe.changed(distill=True))])


def test_a_row_names_the_settings_that_were_changed_and_have_no_column(made_up: MadeUp) -> None:
    recipe = get_recipe("lenet5-mnist").changed(epochs=10, warmup_epochs=0.5, t_alpha=0.5)
    changed = recipe.changed(batch_norm_momentum=0.01, initialization="glorot", seed=3)
    rows = _rows(tables.short([made_up(recipe), made_up(changed)]))
    assert [row["Changed settings"] for row in rows] == ["", "initialization glorot, batch norm momentum 0.01"]


def test_each_t_alpha_has_its_own_row(made_up: MadeUp) -> None:
    vgg = get_recipe("vgg_small-cifar10")
    records = [made_up(vgg.changed(t_alpha=t_alpha), best=5 + t_alpha) for t_alpha in (0.0, 0.7)]
    assert {row["T_α"]: row["Difference"] for row in _rows(tables.alpha(records))} == {"0": "-1.42", "0.7": "-1.50"}


def test_only_this_method_is_measured_in_the_comparison(made_up: MadeUp) -> None:
    records = [made_up(get_recipe("resnet18-cifar10"), best=5.0), made_up(get_recipe("resnet20-cifar10"), best=8.0)]
    measured = [row for row in _rows(tables.comparison(records)) if row["Ours, %"]]
    assert [(row["Method"], row["Network"], row["Ours, %"]) for row in measured] == [
        ("this method", "ResNet-18", "5.00"),
        ("this method", "ResNet-20", "8.00"),
    ]


def test_a_few_steps_show_falling_loss_and_the_speed_of_a_step(made_up: MadeUp) -> None:
    recipe = few_steps("resnet18-cifar10")
    (row,) = _rows(tables.few_steps([made_up(recipe, total_steps=300)]))
    assert (row["Loss, first epoch"], row["Loss, last epoch"], row["Seconds per step"]) == ("2.000", "0.500", "0.05")
    assert float(row["GMAC/s"]) == round(3 * 2_293_000 * recipe.batch_size / 0.05 / 1e9)


def test_the_gpu_table_adds_up() -> None:
    runs = experiments("table1", "full")
    rows = _rows(tables.gpu(runs, {run.name: 10**9 for run in runs}))
    hours = [float(row[f"Hours, {GPU.name}"]) for row in rows]
    assert hours[-1] == pytest.approx(sum(hours[:-1]), abs=0.2) and len(hours) == 13


def test_sentences_list_what_is_measured_and_what_is_not(made_up: MadeUp) -> None:
    nothing, one = tables.not_measured([]), tables.not_measured([made_up(get_recipe("lenet5-mnist"))])
    assert "Of the 24 results in tables 1 and 5, 0 are measured" in nothing
    assert "1 are measured; not measured: LeNet5 on MNIST (32 bit), VGG-Small on CIFAR-10 (32 bit; 1 bit with" in one
    summary = tables.summary([made_up(get_recipe("lenet5-mnist"), best=0.5, last=0.6)])
    assert "best 0.50 % in 200 epochs, 0.60 % after the last (1 seed); paper: 0.53 % (table 1)" in summary


def test_provenance_names_hardware_versions_and_revision(made_up: MadeUp, small: Recipe) -> None:
    (row,) = _rows(tables.provenance([made_up(small)]))
    assert row["Hardware"] == "a processor, 1 thread" and row["Python, PyTorch"] == "3.11.7, 2.13.0"
    assert row["Revision"] == "`0123456789`" and row["Started (UTC)"] == "2026-01-02T03:04:05Z"


def test_a_table_refuses_a_row_of_another_width_and_escapes_bars() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        Table(headings=("a", "b"), rows=(("1",),), words=1)
    assert r"| x\|y |" in Table(headings=("a",), rows=(("x|y",),), words=1).markdown()


def test_every_network_and_data_set_has_a_title() -> None:
    assert set(tables.NETWORKS) == set(models.MODELS)
    assert all(tables.dataset_title(name) != name for name in datasets.DATASETS)


def test_titles_tell_methods_apart() -> None:
    assert len({tables.method_title(method) for method in METHODS}) == len(METHODS)


def test_an_unknown_name_is_its_own_title() -> None:
    assert tables.experiment_title("mine", "my_photos") == "mine on my_photos"
