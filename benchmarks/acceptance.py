"""Try signwise on models from other people's packages: convert, train, save, pack, reload and compile each.

    python benchmarks/acceptance.py                       # every model whose package is installed; writes the record
    python benchmarks/acceptance.py timm/ bert --no-record

For each model, with small random weights:

    binarize_   with an example, and every weight of the model is in the report once
    latents     setting each latent to the weight that it deploys changes no output, in float64: nobody reads latents
    training    30 steps on one batch with the default method, SGDW and AdamW, to α = 1 and ζ = 12; the loss falls by a
                tenth where the float model's does, at once or over four times the steps
    state dict  loads into the float model, and the float model's into the binary one
    packing     the packed model computes what the binary one does, layer by layer and as a whole, also after a round
                trip through a file
    compile     gives a program that computes the same, or names what it cannot translate

``make render`` puts the record on docs/acceptance.md.
"""

from __future__ import annotations

import argparse
import copy
import functools
import importlib
import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import signwise as sw
from signwise.errors import SignwiseError
from signwise.layers import binary_layers
from signwise.observe import run_example
from signwise.provenance import revision, versions, write_record

sys.path.insert(0, str(Path(__file__).parent))
_other_models: Any = importlib.import_module("other_models")  # beside this script, which is no package
MODELS: dict[str, Callable[[], Any]] = _other_models.MODELS
Case: TypeAlias = Any

PACKAGES = ("transformers", "diffusers", "timm", "torchvision", "torch-geometric")
PACKAGES_OF_FEW = ("vit-pytorch", "x-transformers", "segmentation-models-pytorch")
STEPS = 30
CHECKS = ("train", "state", "pack", "compile")
OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "SGDW": lambda model: sw.SGDW(sw.param_groups(model, weight_decay=1e-3), lr=0.05, momentum=0.9),
    "AdamW": lambda model: torch.optim.AdamW(sw.param_groups(model, weight_decay=1e-2), lr=2e-3),
}


class Failed(Exception):  # noqa: N818
    """A check that did not hold."""


def seeded(build: Callable[[], Case]) -> Case:
    torch.manual_seed(0)
    return build()


def outputs_of(case: Case, model: nn.Module) -> Tensor:
    outputs: Tensor = _other_models.first_tensor(run_example(model, case.inputs))
    return outputs


def difference(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest output; infinite where the outputs are not finite."""
    if not bool(torch.isfinite(wanted).all()):
        return math.inf
    return float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-12))


def doubled(case: Case) -> Case:
    """The case in float64, with a model of its own."""
    keyword = isinstance(case.inputs, Mapping)
    wide = [value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
            for value in (case.inputs.values() if keyword else case.inputs)]  # fmt: skip
    inputs = dict(zip(case.inputs, wide, strict=True)) if keyword else tuple(wide)
    return replace(case, model=copy.deepcopy(case.model).double(), inputs=inputs)


def rounding(case: Case) -> float:
    """How far float32 outputs are from float64 ones: some untrained networks amplify rounding ten thousand times."""
    double = doubled(case)
    try:
        return difference(outputs_of(case, case.model).double(), outputs_of(double, double.model))
    except RuntimeError:  # an operator without a kernel for float64, such as the grouped product of experts
        return 0.0


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Failed(message)


def convert(case: Case) -> dict[str, Any]:
    """binarize_, and whether its report holds every weight once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = sw.binarize_(case.model, [sw.first_and_last, *case.skip], example_input=case.inputs)
    weights = sum(weight.numel() for weight in case.model.parameters() if weight.dim() > 1)
    counted = report.binary_weights + report.float_weights
    require(counted == weights, f"the report counts {counted} weights, the model has {weights}")
    found: dict[str, Any] = {"weights": weights, "binary": report.binary_weights}
    if not report.binary_weights:
        said = [str(warning.message) for warning in caught if "made no layer binary" in str(warning.message)]
        require(bool(said), "no layer became binary, and nothing says so")
        found["says"] = said[0].splitlines()[0]
    return found


def check_latents(case: Case) -> None:
    """Replace each latent by the weight that it deploys: the same signs and scales, so the outputs must stay.

    In float64, where what a network makes of rounding stays far below what a read latent does.
    """
    double = doubled(case)
    try:
        before = outputs_of(double, double.model)
    except RuntimeError:  # an operator without a kernel for float64
        double = replace(case, model=copy.deepcopy(case.model))
        before = outputs_of(double, double.model)
    with torch.no_grad():
        for _, layer in binary_layers(double.model):
            layer.weight.copy_(layer.effective_weight())
    apart = difference(outputs_of(double, double.model), before)
    require(apart < 1e-4, f"the outputs move by {apart:.1e} with the latents: something reads them")


def train(
    case: Case, optimizer_of: Callable[[nn.Module], torch.optim.Optimizer], schedule: sw.BinarizationSchedule | None
) -> tuple[float, float]:
    """First and last loss on one batch, in training mode; of the float model where there is no schedule."""
    torch.manual_seed(1)
    optimizer = optimizer_of(case.model)
    if schedule is not None:
        sw.attach(optimizer, case.model, schedule)
    losses = []
    case.model.train()
    for _ in range(STEPS if schedule is None else schedule.total_steps):
        optimizer.zero_grad()
        loss = case.loss(case.run(case.model))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


def try_training(build: Callable[[], Case], case: Case, label: str) -> dict[str, Any]:
    """The losses of the binary model, and of what explains them where they do not fall.

    Thirty steps are few: ζ rises over the last three of them, and the last loss of a network of small filters is that
    of the shock. So such a model trains once more over four times the steps, with ζ rising over the second half, and
    the float model as before.
    """
    optimizer, start = OPTIMIZERS[label], copy.deepcopy(case.model.state_dict())
    schedule = sw.BinarizationSchedule(total_steps=STEPS, t_alpha=0.5)
    found: dict[str, Any] = {label: train(case, optimizer, schedule)}
    if not fell(found[label]):
        case.model.load_state_dict(start)
        found[f"{label}, slower"] = train(case, optimizer, replace(schedule, total_steps=4 * STEPS, zeta_ramp=0.5))
        found[f"{label}, float"] = train(seeded(build), optimizer, None)
    return found


def fell(losses: tuple[float, float]) -> bool:
    return losses[1] < 0.9 * losses[0]


def check_state(build: Callable[[], Case], case: Case) -> None:
    """State dicts load both ways without a missing or unexpected key."""
    plain = seeded(build).model
    plain.load_state_dict(case.model.state_dict())
    copy.deepcopy(case.model).load_state_dict(plain.state_dict())


def check_packed_layers(case: Case, packed: nn.Module) -> None:
    """Each packed layer on the input that the binary one gets: no later layer can hide or amplify a difference."""
    calls: dict[str, tuple[Any, Any, Tensor]] = {}

    def keep(name: str) -> Callable[..., None]:
        def entered(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
            calls[name] = (copy.deepcopy(args), kwargs, output.clone())

        return entered

    with ExitStack() as hooks:
        for name, layer in binary_layers(case.model):
            hooks.callback(layer.register_forward_hook(keep(name), with_kwargs=True).remove)
        outputs_of(case, case.model)
    with torch.no_grad():
        for name, (args, kwargs, wanted) in calls.items():
            apart = difference(packed.get_submodule(name)(*args, **kwargs), wanted)
            require(apart < 1e-5, f"the outputs of the packed {name} differ by {apart:.1e}")


def check_packed(build: Callable[[], Case], case: Case) -> dict[str, float]:
    """pack_, a file, and a newly built model; returns how far packed outputs are from binary ones, and float32 outputs
    of the binary model from float64 ones."""
    wanted = outputs_of(case, case.model)
    packed = copy.deepcopy(case.model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sw.pack_(packed)
    check_packed_layers(case, packed)
    found = outputs_of(case, packed)
    apart, rounded = difference(found, wanted), rounding(case)
    require(apart < max(1e-4, 10 * rounded), f"packed outputs differ by {apart:.1e}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packed.safetensors"
        save_file({name: tensor.clone().contiguous() for name, tensor in packed.state_dict().items()}, path)
        again = seeded(build).model
        sw.load_packed_(again, path)
    require(torch.equal(outputs_of(case, again), found), "reloaded outputs differ")
    return {"packed_difference": apart, "rounding": rounded}


class ByName(nn.Module):
    """A model whose inputs are passed by name: compile passes them by position."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True)))


def check_compile(case: Case) -> str:
    """ "ok", or the refusal; anything but a SignwiseError is a failure."""
    model, inputs = case.model, case.inputs
    if isinstance(inputs, Mapping):  # a program predicts: labels are for the loss
        given = {name: value for name, value in inputs.items() if name not in ("labels", "return_loss")}
        if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
            given.setdefault("decoder_input_ids", inputs["labels"])  # otherwise the model makes them from the labels
        model, inputs = (ByName(model, tuple(given)) if len(given) > 1 else model), tuple(given.values())
    try:
        sw.compile(model, inputs[0] if len(inputs) == 1 else inputs)
    except SignwiseError as error:
        return f"refused: {' '.join(line.strip() for line in str(error).splitlines()[:2])[:300]}"
    return "ok"


def attempt(name: str, steps: tuple[str, ...] = CHECKS) -> dict[str, Any]:
    """All checks of one model; a check that does not hold is described under "failures"."""
    build = MODELS[name]
    found: dict[str, Any] = {}
    failures: dict[str, str] = {}
    case = seeded(build)

    def check(step: str, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except Exception as error:
            failures[step] = f"{type(error).__name__}: {str(error)[:300]}"
            return None

    found |= check("binarize_", lambda: convert(case)) or {}
    if found.get("binary"):
        check("latents", lambda: check_latents(case))
        if "train" in steps:
            start = copy.deepcopy(case.model.state_dict())
            for label in OPTIMIZERS:
                case.model.load_state_dict(start)
                losses = check(f"train {label}", functools.partial(try_training, build, case, label))
                if losses is None:
                    continue
                found |= losses
                slower, plain = losses.get(f"{label}, slower"), losses.get(f"{label}, float")
                if slower is not None and not fell(slower) and fell(plain):
                    first, last = losses[label]
                    failures[f"train {label}"] = f"the loss goes from {first:.3g} to {last:.3g}"
            check("latents", lambda: check_latents(case))
        if "state" in steps:
            check("state dict", lambda: check_state(build, case))
        if "pack" in steps:
            for _, layer in binary_layers(case.model):
                layer.alpha.fill_(1.0)
            found |= check("pack_", lambda: check_packed(build, case)) or {"packed_difference": None}
        if "compile" in steps:
            found["compile"] = check("compile", lambda: check_compile(case))
    return found | {"failures": failures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="parts of names; all models by default")
    parser.add_argument("--out", type=Path, default=Path("results/acceptance.json"), help="the record")
    parser.add_argument("--no-record", action="store_true", help="print only")
    parser.add_argument("--steps", default=",".join(CHECKS), help="the checks, separated by commas")
    arguments = parser.parse_args()
    steps = tuple(arguments.steps.split(","))
    torch.set_num_threads(1)
    wanted = [name for name in MODELS if not arguments.models or any(part in name for part in arguments.models)]
    results: dict[str, Any] = {}
    for name in wanted:
        began = time.perf_counter()
        try:
            seeded(MODELS[name])
        except ImportError as error:
            print(f"{name}: skipped, {error}", flush=True)
            continue
        results[name] = attempt(name, steps)
        shown = {key: value for key, value in results[name].items() if key != "failures"}
        print(f"{name} ({time.perf_counter() - began:.0f} s): {shown}", flush=True)
        for step, failure in results[name]["failures"].items():
            print(f"    {step}: {failure}", flush=True)
        if not arguments.no_record:  # after each model: a run of some models or checks replaces only what it found
            before = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"models": {}, "versions": {}}
            recorded = before["models"]
            known = recorded.get(name, {})
            origin: dict[str, Any] = {"revision": revision()}
            if known and len(steps) < len(CHECKS):  # the other checks keep the row's revision
                origin = {"revisions": known.get("revisions", {}) | dict.fromkeys(steps, revision())}
            recorded[name] = known | results[name] | origin
            ordered = {known: recorded[known] for known in MODELS if known in recorded}
            used = before["versions"] | versions(*PACKAGES, *PACKAGES_OF_FEW)  # rows of other packages stay
            write_record(arguments.out, {"versions": used, "steps": STEPS, "models": ordered})
    raise SystemExit(any(found["failures"] for found in results.values()))


if __name__ == "__main__":
    main()
