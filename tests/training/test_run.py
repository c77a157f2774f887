"""A run from beginning to end: what it records, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from signwise.training.divergence import DivergenceError
from signwise.training.trained import evaluate_run, load_run
from torch import nn

from signwise.errors import SignwiseError
from signwise.training import Options, Recipe, checkpoint
from signwise.training import run as run_module
from signwise.training.distributed import World
from signwise.training.run import train
from signwise.training.run_folder import read_config, read_records

SmallOptions = Callable[..., Options]
Story = Callable[[Path], Any]


def test_everything_about_a_run_is_recorded(small: Recipe, options: SmallOptions) -> None:
    chosen = options(tensorboard=True, watch=("conv*",))
    outcome = train(small, chosen)
    config = read_config(chosen.out)
    assert Recipe.from_json(config["recipe"]) == small
    assert config["network"]["binary_weights"] == 425_500 and config["total_steps"] == 40
    assert {"torch", "python", "numpy", "signwise"} <= config["versions"].keys()
    assert {"revision", "hardware", "started", "finished", "threads", "processes"} <= config.keys()
    assert config["result"]["best_error"] == outcome.progress.best_error

    rows = read_records(chosen.out / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4] and [row["step"] for row in rows] == [10, 20, 30, 40]
    assert rows[-1]["alpha"] == 1 and rows[-1]["zeta"] == 12
    # At the end the relaxed weights are the signs, to e^-12: the two networks answer alike.
    assert rows[-1]["error"] == rows[-1]["relaxed_error"] < 90 and rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert rows[0]["weight_decay"] == pytest.approx(small.weight_decay * 0.3)

    states = read_records(chosen.out / "state.jsonl")
    assert [(state["epoch"], state["layer"]) for state in states] == [
        (epoch, layer) for epoch in range(5) for layer in ("conv1", "conv2")
    ]
    assert states[0]["latent"] == {name: states[0]["relaxed"][name] for name in ("low", "high", "counts")}
    assert sum(states[-1]["latent"]["counts"]) == sum(states[-1]["signs"].values()) == 25_000
    assert states[-1]["relaxed"]["max"] == pytest.approx(1, abs=1e-4)


def test_tensorboard_has_each_epoch_once_although_the_run_was_interrupted(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(tensorboard=True, resume=True)
    write = checkpoint.write

    def fail_after_the_second_epoch(folder: Path, state: checkpoint.Checkpoint) -> None:
        if state.record["progress"]["epochs"] == 2:
            raise SignwiseError("a crash after the second epoch's events and before its checkpoint")
        write(folder, state)

    monkeypatch.setattr(checkpoint, "write", fail_after_the_second_epoch)
    with pytest.raises(SignwiseError, match="a crash"):
        train(small, chosen)
    monkeypatch.undo()
    train(small, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(chosen.out), size_guidance={"histograms": 0}).Reload()  # 0 keeps all
    assert [event.step for event in events.Scalars("error")] == [10, 20, 30, 40]
    for form in ("latent", "relaxed", "sign"):
        assert [event.step for event in events.Histograms(f"conv2/{form}")] == [10, 20, 30, 40]
    signs = events.Histograms("conv2/sign")[-1].histogram_value
    assert (signs.min, signs.max, signs.num) == (-1, 1, 25_000)


@pytest.mark.parametrize("method", ["binary_connect", "scaled_sign", "straight_through"])
def test_the_other_methods_train_by_the_same_recipe(method: str, small: Recipe, options: SmallOptions) -> None:
    chosen = options()
    train(small.changed(method=method), chosen)
    rows = read_records(chosen.out / "metrics.jsonl")
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] and rows[-1]["error"] < 80


def test_the_saved_weights_give_the_recorded_errors(small: Recipe, options: SmallOptions) -> None:
    chosen = options()
    train(small, chosen)
    rows = read_records(chosen.out / "metrics.jsonl")
    for which, row in (("best", min(rows, key=lambda row: float(row["error"]))), ("last", rows[-1])):
        report = evaluate_run(chosen.out, which, device=torch.device("cpu"), data=chosen.data)
        assert (report["error"], report["relaxed_error"]) == (row["error"], row["relaxed_error"])
        assert load_run(chosen.out, which).step == row["step"]


def test_full_precision_learns_and_has_no_relaxed_error(small: Recipe, options: SmallOptions) -> None:
    chosen = options()
    train(small.changed(bits=32, t_alpha=None), chosen)
    rows = read_records(chosen.out / "metrics.jsonl")
    assert rows[-1]["relaxed_error"] is rows[-1]["alpha"] is None and rows[-1]["error"] < 50
    assert not (chosen.out / "state.jsonl").exists()


def test_two_runs_with_one_seed_are_the_same_and_another_seed_is_not(
    small: Recipe, options: SmallOptions, story: Story
) -> None:
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        train(small.changed(seed=seed), options(name))
    one, two, other = (story(options(name).out) for name in ("one", "two", "other"))
    assert one == two and one != other


def test_a_finished_run_that_is_resumed_stays_as_it_is(small: Recipe, options: SmallOptions, story: Story) -> None:
    train(small, options())
    before = story(options().out)
    train(small, options(resume=True))
    assert story(options().out) == before


def test_a_run_goes_on_with_the_recipe_that_it_was_begun_with(small: Recipe, options: SmallOptions) -> None:
    train(small, options())
    with pytest.raises(SignwiseError, match="begun with seed 0, not 1"):
        train(small.changed(seed=1), options(resume=True))
    with pytest.raises(SignwiseError, match="already holds a run"):
        train(small, options())


def test_batch_norm_re_estimation_touches_what_is_evaluated_and_not_training(
    small: Recipe, options: SmallOptions
) -> None:
    train(small, options("plain"))
    train(small.changed(reestimate_batch_norm=100), options("again"))
    plain, again = (read_records(options(name).out / "metrics.jsonl") for name in ("plain", "again"))
    assert [row["train_loss"] for row in plain] == [row["train_loss"] for row in again]
    assert [row["relaxed_error"] for row in plain] == [row["relaxed_error"] for row in again]
    # While α is small the running statistics belong to other weights than the signs: that is what it is for.
    assert again[0]["error"] < plain[0]["error"]
    report = evaluate_run(options("again").out, "last", device=torch.device("cpu"), data=options().data)
    assert report["error"] == again[-1]["error"]


def test_a_full_disk_stops_the_run_with_its_name_and_the_checkpoint_before_still_goes_on(
    small: Recipe, options: SmallOptions, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(small, options("whole"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    write, written = checkpoint.write, []

    def fill_the_disk_after_twelve(folder: Path, state: checkpoint.Checkpoint) -> None:
        if len(written) == 12:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
        write(folder, state)
        written.append(state.record["progress"]["step"])

    monkeypatch.setattr(checkpoint, "write", fill_the_disk_after_twelve)
    try:
        with pytest.raises(SignwiseError, match=r"cannot write .*checkpoint.safetensors: File too large; .* is intact"):
            train(small, options(checkpoint_minutes=0.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    found, complaints = checkpoint.read(options().out)
    assert found is not None and found.record["progress"]["step"] == written[-1] == 12 and not complaints
    train(small, options(resume=True))
    assert story(options().out) == story(options("whole").out)


def test_a_checkpoint_cut_short_is_passed_over_and_the_run_ends_as_if_it_never_happened(
    small: Recipe, options: SmallOptions, story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    train(small, options("whole"))
    chosen = options()
    train(small, chosen)
    path = chosen.out / checkpoint.CURRENT
    path.write_bytes(path.read_bytes()[:1000])
    train(small, options(resume=True))
    assert "going on from the checkpoint before it" in capsys.readouterr().out
    assert story(chosen.out) == story(options("whole").out)


def test_a_loss_that_is_not_finite_stops_the_run_with_step_layer_and_advice(
    small: Recipe, options: SmallOptions
) -> None:
    diverging = small.changed(bits=32, t_alpha=None, learning_rate=1e38, warmup_epochs=0.0)
    with pytest.raises(
        DivergenceError, match=r"at step \d+ \(epoch 1\): .* layer \w+ is not finite; try a lower"
    ) as caught:
        train(diverging, options(checkpoint_minutes=0.0))
    assert "--lr, now 1e+38" in str(caught.value)
    found, _ = checkpoint.read(options().out)
    if found is not None:
        assert all(bool(torch.isfinite(value).all()) for value in found.tensors.values())


def test_processes_that_do_not_divide_the_batch_or_the_sync_that_needs_a_gpu_are_refused(
    small: Recipe, options: SmallOptions
) -> None:
    with pytest.raises(SignwiseError, match="needs an accelerator"):
        train(small, options(sync_batch_norm=True))
    with pytest.raises(SignwiseError, match="device 'nowhere' is not available"):
        train(small, options(device="nowhere"))
    with pytest.raises(SignwiseError, match="matches no binary layer; there are conv1, conv2, dense1"):
        train(small, options("other", watch=("fc*",)))
    # What is refused leaves no run behind that the corrected command would stumble over.
    train(small.changed(epochs=1), options("other", watch=("conv1",)))


def test_a_restart_of_another_job_does_not_take_over_a_run_that_was_there(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, cpu = small.changed(epochs=1), torch.device("cpu")

    def attempt(job: str, restarts: int) -> None:
        world = World(rank=0, size=1, device=cpu, restarts=restarts, job=job)
        monkeypatch.setattr(run_module, "join_world", lambda device: contextlib.nullcontext(world))
        train(short, options())

    attempt("mine", 0)
    attempt("mine", 1)
    with pytest.raises(SignwiseError, match="already holds a run"):
        attempt("yours", 1)


def test_the_network_is_gone_when_the_processes_part(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped: list[weakref.ref[nn.Module]] = []

    class Watched(World):
        def wrapped(self, model: nn.Module) -> nn.Module:
            wrapped.append(weakref.ref(model))
            return model

    @contextlib.contextmanager
    def join_world(device: str) -> Iterator[World]:
        yield Watched(rank=0, size=1, device=torch.device(device))
        assert [network() for network in wrapped] == [None]

    monkeypatch.setattr(run_module, "join_world", join_world)
    train(small.changed(epochs=1), options())


def test_a_compiled_step_is_compiled_once_and_trains_alike(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()  # what other tests compiled of the same wrapper would count as a first time
    compile_for_real = torch.compile
    # Tracing is what α, ζ or a changing batch could upset; generating code for it would take a minute more.
    monkeypatch.setattr(torch, "compile", lambda model: compile_for_real(model, backend="eager", fullgraph=True))
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(small.changed(epochs=2), options("compiled", compiled=True))
    monkeypatch.undo()
    train(small.changed(epochs=2), options("plain"))
    losses = [read_records(options(name).out / "metrics.jsonl")[-1]["train_loss"] for name in ("compiled", "plain")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_bfloat16_trains(small_command: list[str], tmp_path: Path) -> None:
    # Some virtual machines announce matrix tiles (AMX) that fault when they are used: oneDNN is told to go without.
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    out = tmp_path / "run"
    command = [sys.executable, "-m", "signwise", *small_command, "--epochs", "1", "--out", str(out), "--bfloat16"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    (row,) = read_records(out / "metrics.jsonl")
    assert row["train_loss"] < 2.5


def test_a_run_without_weights_cannot_be_evaluated(small: Recipe, options: SmallOptions) -> None:
    chosen = options()
    chosen.out.mkdir()
    record = {"recipe": small.to_json(), "network": {"classes": list("0123456789")}}
    (chosen.out / "config.json").write_text(json.dumps(record))
    with pytest.raises(SignwiseError, match="has no weights yet"):
        load_run(chosen.out)
    with pytest.raises(SignwiseError, match="which must be best or last"):
        load_run(chosen.out, "first")
