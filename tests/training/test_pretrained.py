"""Starting from a trained float network, and learning from it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import signwise as sw
from signwise.cli import main
from signwise.errors import FormatError, SignwiseError
from signwise.training import Options, Recipe, get_recipe, train
from signwise.training.checkpoint import read_tensors
from signwise.training.loop import Event, Reporter, Saved
from signwise.training.pretrained import distillation_loss, load_pretrained_, read_pretrained
from signwise.training.run_folder import load_run, read_config, read_records

SmallOptions = Callable[..., Options]


@pytest.fixture(scope="module")
def float_run(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet5 with 32 bits, trained on the synthetic digits."""
    folder = tmp_path_factory.mktemp("float") / "run"
    recipe = get_recipe("lenet5-mnist", bits=32).changed(epochs=3, batch_size=20)
    train(recipe, folder, options=Options(data=digits, device="cpu", tensorboard=False))
    return folder


@pytest.fixture
def tuned(float_run: Path) -> Recipe:
    recipe = get_recipe("lenet5-mnist").changed(batch_size=20).fine_tuning(str(float_run))
    return recipe.changed(epochs=2)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_run(folder).model.state_dict()


def test_a_run_a_safetensors_file_and_a_state_dict_hold_the_same_weights(float_run: Path, tmp_path: Path) -> None:
    expected = weights_of(float_run)
    save_file(expected, tmp_path / "plain.safetensors")
    torch.save(expected, tmp_path / "plain.pt")
    wrapped = {f"module._orig_mod.{name}": value for name, value in expected.items()}
    torch.save({"epoch": 3, "state_dict": wrapped}, tmp_path / "trainer.ckpt")
    sources = [float_run, float_run / "best.safetensors", *(tmp_path / name for name in ("plain.pt", "trainer.ckpt"))]
    for source in [*sources, tmp_path / "plain.safetensors"]:
        found = read_pretrained(source).state
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.pt", None, "there is no such file"),
        ("noise.pt", b"noise", "is not a file of torch.save|Python objects"),
        ("noise.safetensors", b"noise", "is not a safetensors file"),
        ("object.pt", {"model": object}, "could run code"),
        ("number.pt", 3, "holds a int, not a state dict"),
        ("empty.pt", {"epoch": 3}, "holds no tensors"),
    ],
)
def test_a_file_without_weights_is_refused(name: str, content: Any, message: str, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        torch.save(content, tmp_path / name)
    with pytest.raises(FormatError, match=message):
        read_pretrained(tmp_path / name)


def test_names_and_shapes_that_differ_are_named(float_run: Path, tmp_path: Path) -> None:
    state = weights_of(float_run)
    state["dense3.weight"] = state.pop("dense2.weight")
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(SignwiseError, match=r"no dense2\.weight, dense3\.weight, which the model lacks"):
        load_pretrained_(sw.models.lenet5(), read_pretrained(tmp_path / "other.pt"))
    with pytest.raises(SignwiseError, match=r"dense2\.weight of shape \(10, 500\) instead of \(7, 500\)"):
        load_pretrained_(sw.models.lenet5(num_classes=7), read_pretrained(float_run))


def test_the_float_weights_become_the_latents(float_run: Path) -> None:
    for method in (sw.GroupTransform(), sw.LAB(), sw.MPT()):
        model = sw.models.lenet5()
        sw.binarize_(model, skip=sw.last, method=method)
        load_pretrained_(model, read_pretrained(float_run))
        assert torch.equal(model.get_parameter("conv2.weight"), weights_of(float_run)["conv2.weight"])


def test_fine_tuning_starts_where_the_float_network_ended(
    float_run: Path, tuned: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    train(tuned, tmp_path / "tuned", options=options())
    train(tuned.changed(init_from=None), tmp_path / "scratch", options=options())
    first = {name: read_records(tmp_path / name / "metrics.jsonl")[0]["train_loss"] for name in ("tuned", "scratch")}
    assert first["tuned"] < 0.5 * first["scratch"]
    recorded = read_config(tmp_path / "tuned")
    assert recorded["recipe"]["init_from"] == str(float_run)
    assert recorded["pretrained"]["path"] == str(float_run / "best.safetensors")
    assert len(recorded["pretrained"]["sha256"]) == 64


def test_the_teachers_share_of_the_loss_is_hintons() -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 5, 3, generator=generator)
    soft, target = (outputs.double().div(2.0).softmax(1) for outputs in (student, teacher))
    expected = 4 * (target * (target / soft).log()).sum(1).mean()
    assert float(distillation_loss(student, teacher, 2.0)) == pytest.approx(float(expected), rel=1e-5)


def test_a_student_of_weight_one_sees_no_labels(tuned: Recipe, options: SmallOptions) -> None:
    recipe = tuned.changed(epochs=1, distill=True, distill_weight=1.0)
    taught = train(recipe, options=options()).model
    smoothed = train(recipe.changed(label_smoothing=0.9), options=options()).model
    assert torch.equal(taught.get_parameter("conv2.weight"), smoothed.get_parameter("conv2.weight"))
    labelled = train(recipe.changed(distill=False), options=options()).model
    assert not torch.equal(taught.get_parameter("conv2.weight"), labelled.get_parameter("conv2.weight"))


class CrashesAfter(Reporter):
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def report(self, event: Event) -> None:
        if isinstance(event, Saved) and event.step >= self.steps:
            raise RuntimeError("crash")


@pytest.mark.parametrize("distill", [False, True])
def test_a_crashed_fine_tuning_resumes_bit_for_bit(
    distill: bool, tuned: Recipe, options: SmallOptions, tmp_path: Path, story: Callable[[Path], Any]
) -> None:
    recipe = tuned.changed(distill=distill)
    train(recipe, tmp_path / "whole", options=options())
    with pytest.raises(RuntimeError, match="crash"):
        train(recipe, tmp_path / "crashed", options=options(checkpoint_minutes=0), reporters=[CrashesAfter(7)])
    assert read_tensors(tmp_path / "crashed" / "checkpoint.safetensors").record["progress"]["step"] == 7
    train(recipe, tmp_path / "crashed", options=options(resume=True))
    assert story(tmp_path / "crashed") == story(tmp_path / "whole")


def test_a_run_that_crashed_before_its_first_checkpoint_starts_from_the_float_weights_again(
    tuned: Recipe, options: SmallOptions, tmp_path: Path, story: Callable[[Path], Any]
) -> None:
    train(tuned, tmp_path / "whole", options=options())
    (tmp_path / "early").mkdir()
    shutil.copy(tmp_path / "whole" / "config.json", tmp_path / "early")
    train(tuned, tmp_path / "early", options=options(resume=True))
    assert story(tmp_path / "early")[3] == story(tmp_path / "whole")[3]


def test_a_teacher_that_changed_or_is_binary_is_refused(
    float_run: Path, tuned: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    teacher = tmp_path / "teacher.safetensors"
    shutil.copy(float_run / "best.safetensors", teacher)
    recipe = tuned.changed(init_from=str(teacher), distill=True, epochs=1)
    train(recipe, tmp_path / "run", options=options())
    save_file({name: value + 1 for name, value in weights_of(float_run).items()}, teacher)
    with pytest.raises(SignwiseError, match="has changed since the run was begun"):
        train(recipe, tmp_path / "run", options=options(resume=True))
    with pytest.raises(SignwiseError, match="needs a float teacher"):
        train(recipe.changed(init_from=str(tmp_path / "run")), options=options())


def test_settings_of_distillation_are_checked(float_run: Path) -> None:
    recipe = get_recipe("lenet5-mnist")
    for wrong in ({"distill": True}, {"distill_temperature": 0.0}, {"distill_weight": 1.5}):
        with pytest.raises(SignwiseError, match=f"{next(iter(wrong))} must be"):
            recipe.changed(**wrong)


def test_the_command_line_fine_tunes_with_a_schedule_of_its_own(
    float_run: Path, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    start = ["--init-from", str(float_run), "--distill", "--batch-size", "20", "--epochs", "1"]
    where = ["--data", str(digits), "--device", "cpu", "--no-tensorboard"]
    assert main(["train", "lenet5-mnist", *start, *where]) == 0
    config = json.loads((tmp_path / "runs" / "lenet5-mnist-tuned" / "config.json").read_text())
    recipe = Recipe.from_json(config["recipe"])
    assert (recipe.t_alpha, recipe.warmup_epochs, recipe.decay, recipe.distill) == (0.5, 0, "cosine", True)
    capsys.readouterr()
    assert main(["train", "lenet5-mnist", "--init-from", str(tmp_path / "nothing"), "--out", "x", *where]) == 2
    assert "there is no such file" in capsys.readouterr().err
