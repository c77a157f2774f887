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
from torch import nn

import signwise as sw
from signwise.errors import SignwiseError
from signwise.training import Options, Outcome, Recipe, checkpoint
from signwise.training import run as run_module
from signwise.training.distributed import World
from signwise.training.loop import EpochRecord, Event, Reporter, Saved, Started
from signwise.training.run import train
from signwise.training.run_folder import evaluate_run, load_run, read_config, read_records
from signwise.training.step import DivergenceError

pytestmark = pytest.mark.slow

SmallOptions = Callable[..., Options]
Story = Callable[[Path], Any]


class Events(Reporter):
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.closed = False

    @property
    def started(self) -> Started:
        (event,) = (event for event in self.events if isinstance(event, Started))
        return event

    def report(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


def test_everything_about_a_run_is_recorded(small: Recipe, options: SmallOptions, tmp_path: Path) -> None:
    chosen = options(tensorboard=True, watch=("conv*",))
    outcome = train(small, tmp_path / "run", options=chosen)
    config = read_config(tmp_path / "run")
    assert Recipe.from_json(config["recipe"]) == small
    assert config["network"]["binary_weights"] == 425_500 and config["total_steps"] == 40
    assert {"torch", "python", "numpy", "signwise"} <= config["versions"].keys()
    assert {"revision", "hardware", "started", "finished", "threads", "processes"} <= config.keys()
    assert config["result"]["best_error"] == outcome.progress.best_error

    rows = read_records(tmp_path / "run" / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4] and [row["step"] for row in rows] == [10, 20, 30, 40]
    assert rows[-1]["alpha"] == 1 and rows[-1]["zeta"] == 12
    # At the end the relaxed weights are the signs, to e^-12: both predict the same.
    assert rows[-1]["error"] == rows[-1]["relaxed_error"] < 90 and rows[-1]["train_loss"] < rows[0]["train_loss"]
    assert rows[0]["weight_decay"] == pytest.approx(small.weight_decay * 0.3)

    states = read_records(tmp_path / "run" / "state.jsonl")
    assert [(state["epoch"], state["layer"]) for state in states] == [
        (epoch, layer) for epoch in range(5) for layer in ("conv1", "conv2")
    ]
    assert states[0]["latent"] == {name: states[0]["relaxed"][name] for name in ("low", "high", "counts")}
    assert sum(states[-1]["latent"]["counts"]) == sum(states[-1]["signs"].values()) == 25_000
    assert states[-1]["relaxed"]["max"] == pytest.approx(1, abs=1e-4)


def test_tensorboard_has_each_epoch_once_although_the_run_was_interrupted(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = options(tensorboard=True, resume=True)
    write = checkpoint.write

    def fail_after_the_second_epoch(folder: Path, state: checkpoint.Checkpoint) -> None:
        if state.record["progress"]["epochs"] == 2:
            raise SignwiseError("a crash after the second epoch's events and before its checkpoint")
        write(folder, state)

    monkeypatch.setattr(checkpoint, "write", fail_after_the_second_epoch)
    with pytest.raises(SignwiseError, match="a crash"):
        train(small, tmp_path / "run", options=chosen)
    monkeypatch.undo()
    train(small, tmp_path / "run", options=chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorBoard's own
        from tensorboard.backend.event_processing.event_accumulator import (
            EventAccumulator,
        )

        events = EventAccumulator(str(tmp_path / "run"), size_guidance={"histograms": 0}).Reload()  # 0 keeps all
    assert [event.step for event in events.Scalars("test/error")] == [10, 20, 30, 40]
    for form in ("latent", "relaxed", "sign"):
        assert [event.step for event in events.Histograms(f"conv2/{form}")] == [10, 20, 30, 40]
    signs = events.Histograms("conv2/sign")[-1].histogram_value
    assert (signs.min, signs.max, signs.num) == (-1, 1, 25_000)


@pytest.mark.parametrize("method", ["binary_connect", "scaled_sign", "straight_through"])
def test_the_other_methods_train_by_the_same_recipe(
    method: str, small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    chosen = options()
    train(small.changed(method=method), tmp_path / "run", options=chosen)
    rows = read_records(tmp_path / "run" / "metrics.jsonl")
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] and rows[-1]["error"] < 80


def test_the_saved_weights_give_the_recorded_errors(small: Recipe, options: SmallOptions, tmp_path: Path) -> None:
    chosen = options()
    train(small, tmp_path / "run", options=chosen)
    rows = read_records(tmp_path / "run" / "metrics.jsonl")
    for which, row in (("best", min(rows, key=lambda row: float(row["error"]))), ("last", rows[-1])):
        report = evaluate_run(tmp_path / "run", which, device=torch.device("cpu"), data=chosen.data)
        assert (report["error"], report["relaxed_error"]) == (row["error"], row["relaxed_error"])
        assert load_run(tmp_path / "run", which).step == row["step"]


def test_the_relaxed_weights_are_tested_as_often_as_asked_and_at_the_end(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    train(small.changed(epochs=3), tmp_path / "run", options=options(relaxed_every=2))
    rows = read_records(tmp_path / "run" / "metrics.jsonl")
    assert [row["relaxed_error"] is None for row in rows] == [True, False, False]
    with pytest.raises(SignwiseError, match="relaxed_every must be at least 1, got 0"):
        Options(relaxed_every=0)


def test_full_precision_learns_and_has_no_relaxed_error(small: Recipe, options: SmallOptions, tmp_path: Path) -> None:
    chosen = options()
    train(small.changed(bits=32, t_alpha=None), tmp_path / "run", options=chosen)
    rows = read_records(tmp_path / "run" / "metrics.jsonl")
    assert rows[-1]["relaxed_error"] is rows[-1]["alpha"] is None and rows[-1]["error"] < 50
    assert not (tmp_path / "run" / "state.jsonl").exists()


def test_two_runs_with_one_seed_are_the_same_and_another_seed_is_not(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        train(small.changed(seed=seed), tmp_path / name, options=options())
    one, two, other = (story(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two and one != other


def test_a_finished_run_that_is_resumed_stays_as_it_is(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    before = story(tmp_path / "run")
    train(small, tmp_path / "run", options=options(resume=True))
    assert story(tmp_path / "run") == before


def test_a_run_resumes_with_the_recipe_that_it_was_begun_with_only(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    with pytest.raises(SignwiseError, match="begun with seed 0, not 1"):
        train(small.changed(seed=1), tmp_path / "run", options=options(resume=True))
    with pytest.raises(SignwiseError, match="already holds a run"):
        train(small, tmp_path / "run", options=options())
    with pytest.raises(SignwiseError, match="there is no model 'resnet50': did you mean resnet20"):
        train(small.changed(model="resnet50"), tmp_path / "run", options=options())


def test_batch_norm_re_estimation_touches_what_is_evaluated_and_not_training(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    train(small, tmp_path / "plain", options=options())
    train(small.changed(reestimate_batch_norm=100), tmp_path / "again", options=options())
    plain, again = (read_records(tmp_path / name / "metrics.jsonl") for name in ("plain", "again"))
    assert [row["train_loss"] for row in plain] == [row["train_loss"] for row in again]
    assert [row["relaxed_error"] for row in plain] == [row["relaxed_error"] for row in again]
    # While α is small the running statistics belong to other weights than the signs: that is what it is for.
    assert again[0]["error"] < plain[0]["error"]
    report = evaluate_run(tmp_path / "again", "last", device=torch.device("cpu"), data=options().data)
    assert report["error"] == again[-1]["error"]


def test_a_full_disk_stops_the_run_and_the_checkpoint_before_it_resumes(
    small: Recipe, options: SmallOptions, story: Story, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train(small, tmp_path / "whole", options=options())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    write, written = checkpoint.write, list[int]()

    def fill_the_disk_after_twelve(folder: Path, state: checkpoint.Checkpoint) -> None:
        if len(written) == 12:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
        write(folder, state)
        written.append(state.record["progress"]["step"])

    monkeypatch.setattr(checkpoint, "write", fill_the_disk_after_twelve)
    try:
        with pytest.raises(SignwiseError, match=r"cannot write .*checkpoint.safetensors: File too large; .* is intact"):
            train(small, tmp_path / "run", options=options(checkpoint_minutes=0.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    monkeypatch.undo()
    found, complaints = checkpoint.read(tmp_path / "run")
    assert found is not None and found.record["progress"]["step"] == written[-1] == 12 and not complaints
    train(small, tmp_path / "run", options=options(resume=True))
    assert story(tmp_path / "run") == story(tmp_path / "whole")


def test_a_checkpoint_cut_short_is_skipped_and_the_run_ends_as_if_it_never_happened(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    train(small, tmp_path / "whole", options=options())
    chosen = options()
    train(small, tmp_path / "run", options=chosen)
    path = tmp_path / "run" / checkpoint.CURRENT
    path.write_bytes(path.read_bytes()[:1000])
    reporter = Events()
    train(small, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    (note,) = reporter.started.notes
    assert "checkpoint.safetensors is cut short" in note and reporter.started.step == 30
    assert story(tmp_path / "run") == story(tmp_path / "whole")


@pytest.fixture
def arithmetic() -> Iterator[None]:
    """Leaves PyTorch's threads and determinism as they were."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("arithmetic")
def test_a_resumed_run_computes_as_it_was_begun_unless_told_otherwise(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    short = small.changed(epochs=1)
    train(short, tmp_path / "run", options=options(threads=2, deterministic=True))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)

    reporter = Events()
    train(short, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    assert torch.get_num_threads() == 2 and torch.are_deterministic_algorithms_enabled()
    assert reporter.started.notes == ()

    reporter = Events()
    train(short, tmp_path / "run", options=options(resume=True, threads=1), reporters=[reporter])
    (note,) = reporter.started.notes
    assert torch.get_num_threads() == 1 and note.startswith("threads was 2 and is 1 now")
    # The attempt before counts, not the first one.
    reporter = Events()
    train(short, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    assert torch.get_num_threads() == 1 and reporter.started.notes == ()
    config = read_config(tmp_path / "run")
    assert [attempt["threads"] for attempt in (config, *config["resumed"])] == [2, 2, 1, 1]
    assert all(attempt["options"]["deterministic"] for attempt in (config, *config["resumed"]))


def test_another_number_of_processes_is_named(small: Recipe, options: SmallOptions, tmp_path: Path) -> None:
    short = small.changed(epochs=1)
    train(short, tmp_path / "run", options=options())
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps(read_config(tmp_path / "run") | {"processes": 2}))
    reporter = Events()
    train(short, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    (note,) = reporter.started.notes
    assert note.startswith("the run had 2 processes and has 1 now")


def test_without_config_json_the_checkpoint_itself_refuses_another_recipe(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    before = story(tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(SignwiseError, match="begun with seed 0, not 7"):
        train(small.changed(seed=7), tmp_path / "run", options=options(resume=True))
    reporter = Events()
    train(small, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    (note,) = reporter.started.notes
    assert "config.json is missing" in note and story(tmp_path / "run") == before


def test_without_config_json_a_checkpoint_that_names_no_recipe_is_refused(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    found, _ = checkpoint.read(tmp_path / "run")
    assert found is not None
    record = {name: value for name, value in found.record.items() if name != "recipe"}
    checkpoint.write(tmp_path / "run", checkpoint.Checkpoint(found.tensors, record))
    (tmp_path / "run" / "config.json").unlink()
    with pytest.raises(SignwiseError, match=r"nothing says which recipe .*: restore config.json"):
        train(small, tmp_path / "run", options=options(resume=True))


def test_a_damaged_line_of_the_metrics_does_not_refuse_an_intact_checkpoint(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    before = story(tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as file:
        file.write(bytes(40) + b"\n")
    reporter = Events()
    train(small, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    (note,) = reporter.started.notes
    assert "metrics.jsonl was damaged; dropped line 5" in note and story(tmp_path / "run") == before


def test_a_bit_flipped_in_the_step_of_a_checkpoint_does_not_change_the_run(
    small: Recipe, options: SmallOptions, story: Story, tmp_path: Path
) -> None:
    train(small, tmp_path / "run", options=options())
    before = story(tmp_path / "run")
    path = tmp_path / "run" / checkpoint.CURRENT
    content = path.read_bytes()
    assert content.count(b'\\"step\\":40') == 1
    path.write_bytes(content.replace(b'\\"step\\":40', b'\\"step\\":41'))
    reporter = Events()
    train(small, tmp_path / "run", options=options(resume=True), reporters=[reporter])
    (note,) = reporter.started.notes
    assert "is damaged" in note and reporter.started.step == 30 and story(tmp_path / "run") == before


def test_a_loss_that_is_not_finite_stops_the_run_with_step_layer_and_advice(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    diverging = small.changed(bits=32, t_alpha=None, learning_rate=1e38, warmup_epochs=0.0)
    with pytest.raises(
        DivergenceError, match=r"at step \d+ \(epoch 1\): .* layer \w+ is not finite; try a lower"
    ) as caught:
        train(diverging, tmp_path / "run", options=options(checkpoint_minutes=0.0))
    assert "`learning_rate` (now 1e+38)" in str(caught.value)
    found, _ = checkpoint.read(tmp_path / "run")
    if found is not None:
        assert all(bool(torch.isfinite(value).all()) for value in found.tensors.values())


def test_options_that_cannot_be_met_are_refused_and_leave_no_run_behind(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    with pytest.raises(SignwiseError, match="needs an accelerator"):
        train(small, tmp_path / "run", options=options(sync_batch_norm=True))
    with pytest.raises(SignwiseError, match="device 'nowhere' is not available"):
        train(small, tmp_path / "run", options=options(device="nowhere"))
    with pytest.raises(SignwiseError, match="matches no binary layer; there are conv1, conv2, dense1"):
        train(small, tmp_path / "other", options=options(watch=("fc*",)))
    # What is refused leaves no run behind that the corrected command would stumble over.
    train(small.changed(epochs=1), tmp_path / "other", options=options(watch=("conv1",)))


def test_a_restart_of_another_job_does_not_take_over_a_run_that_was_there(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    short, cpu = small.changed(epochs=1), torch.device("cpu")

    def attempt(job: str, restarts: int) -> None:
        world = World(rank=0, size=1, device=cpu, restarts=restarts, job=job)
        monkeypatch.setattr(run_module, "join_world", lambda device: contextlib.nullcontext(world))
        train(short, tmp_path / "run", options=options())

    attempt("mine", 0)
    attempt("mine", 1)
    with pytest.raises(SignwiseError, match="already holds a run"):
        attempt("yours", 1)


@pytest.mark.usefixtures("arithmetic")
def test_every_process_trains_the_recipe_of_rank_0_with_its_arithmetic(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(World):
        def broadcast_text(self, text: str) -> str:
            own = json.loads(text)
            return json.dumps(own | (small.changed(epochs=1).to_json() if "epochs" in own else {"threads": 2}))

    world = Other(rank=0, size=1, device=torch.device("cpu"))
    monkeypatch.setattr(run_module, "join_world", lambda device: contextlib.nullcontext(world))
    assert train(small, options=options()).progress.epochs == 1 and torch.get_num_threads() == 2


def test_ddp_is_gone_before_the_process_group(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrapped: list[weakref.ref[nn.Module]] = []

    class Watched(World):
        def wrap(self, model: nn.Module) -> nn.Module:
            wrapper = nn.Sequential(model)
            wrapped.append(weakref.ref(wrapper))
            return wrapper

    @contextlib.contextmanager
    def join_world(device: str) -> Iterator[World]:
        yield Watched(rank=0, size=1, device=torch.device(device))
        assert [wrapper() for wrapper in wrapped] == [None]

    monkeypatch.setattr(run_module, "join_world", join_world)
    train(small.changed(epochs=1), tmp_path / "run", options=options())


@pytest.mark.slow
def test_a_compiled_step_compiles_once_and_trains_as_the_eager_one(
    small: Recipe, options: SmallOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch.compiler.reset()  # what other tests compiled of the same wrapper would count as a first time
    compile_for_real = torch.compile
    # Tracing is what α, ζ or a changing batch could upset; generating code for it would take a minute more.
    monkeypatch.setattr(torch, "compile", lambda model: compile_for_real(model, backend="eager", fullgraph=True))
    with torch._dynamo.config.patch(error_on_recompile=True):
        train(small.changed(epochs=2), tmp_path / "compiled", options=options(compiled=True))
    monkeypatch.undo()
    train(small.changed(epochs=2), tmp_path / "plain", options=options())
    losses = [read_records(tmp_path / name / "metrics.jsonl")[-1]["train_loss"] for name in ("compiled", "plain")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.slow
def test_bfloat16_trains(small_command: list[str], tmp_path: Path) -> None:
    # Some virtual machines announce matrix tiles (AMX) that fault when they are used: oneDNN must not use them.
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    out = tmp_path / "run"
    command = [sys.executable, "-m", "signwise", *small_command, "--epochs", "1", "--out", str(out), "--bfloat16"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    (row,) = read_records(out / "metrics.jsonl")
    assert row["train_loss"] < 2.5


def test_without_a_folder_the_model_and_its_errors_come_back_and_nothing_is_written(
    small: Recipe, options: SmallOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = train(small, options=options())
    assert not list(tmp_path.iterdir())
    stored = train(small, tmp_path / "run", options=options())
    again = load_run(tmp_path / "run", "last").model
    for name, value in again.state_dict().items():
        assert torch.equal(outcome.model.state_dict()[name], value)
        assert torch.equal(stored.model.state_dict()[name], value)
    assert not outcome.model.training and outcome.folder is None
    assert outcome.progress.best_error == stored.progress.best_error
    with pytest.raises(SignwiseError, match="`resume` needs `out`"):
        train(small, options=options(resume=True))


def test_a_reporter_hears_each_epoch_before_the_checkpoint_that_counts_it_and_is_closed(
    small: Recipe, options: SmallOptions, tmp_path: Path
) -> None:
    reporter = Events()
    train(small, str(tmp_path / "run"), options=options(), reporters=[reporter])
    kinds = [type(event) for event in reporter.events]
    assert kinds == [Started] + 4 * [EpochRecord, Saved]
    assert reporter.started.folder == tmp_path / "run" and reporter.started.total_steps == 40
    records = [event for event in reporter.events if isinstance(event, EpochRecord)]
    assert [record.to_json() for record in records] == read_records(tmp_path / "run" / "metrics.jsonl")
    assert reporter.closed


def test_train_is_public_and_tells_how_a_run_ended(small: Recipe, options: SmallOptions) -> None:
    outcome = sw.training.train(small.changed(epochs=1), options=options())
    assert isinstance(outcome, Outcome) and outcome.signal is None and outcome.is_main
