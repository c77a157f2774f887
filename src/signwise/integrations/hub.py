"""Models and programs on Hugging Face's hub, and in folders of the same form: save_pretrained and from_pretrained.

    class Net(nn.Module, BinaryModelHubMixin): ...     a trainable model, or a packed one with one bit per weight
    HubProgram(program)                                a compiled program: one .sw file that runs without PyTorch
    save_run("runs/first", "first")                    a finished run: program, latents and a card with its figures

Nothing here needs the network unless you name a repository of the hub.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from safetensors.torch import save as encode_tensors
from torch import nn

from signwise.compiler import compile as compile_model
from signwise.errors import SignwiseError
from signwise.figures import save
from signwise.figures.curves import error_curves_figure
from signwise.packing import load_packed_
from signwise.program import Program
from signwise.program.file import write_file
from signwise.training.run_folder import Run, load_run, read_records

try:
    from huggingface_hub import ModelHubMixin, PyTorchModelHubMixin, hf_hub_download
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] != "huggingface_hub":
        raise
    message = "signwise.integrations.hub needs huggingface_hub: pip install 'signwise[integrations]'"
    raise ImportError(message) from error

_PROGRAM = "program.sw"
_TAGS = ("signwise", "binary-weights", "1-bit")
_ABOUT: dict[str, Any] = {"library_name": "signwise", "tags": [*_TAGS]}  # the head of the cards that the mixins write

AnyModel = TypeVar("AnyModel", bound=nn.Module)


class BinaryModelHubMixin(PyTorchModelHubMixin, **_ABOUT):
    """huggingface_hub's mixin for a model class of yours that calls :func:`signwise.binarize_` in its ``__init__``.

    ``save_pretrained`` before :func:`signwise.pack_` stores the latents, to train on; after it, one bit per weight.
    ``from_pretrained`` builds the model from the arguments in ``config.json`` and loads either.

    Example:
        >>> import contextlib, io, signwise as sw, tempfile
        >>> class Net(nn.Module, BinaryModelHubMixin):
        ...     def __init__(self, width: int = 8) -> None:
        ...         super().__init__()
        ...         self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))
        ...         sw.binarize_(self.layers, skip=sw.last)
        >>> model = Net(width=16)
        >>> _ = sw.pack_(model)
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     model.save_pretrained(folder)
        ...     again = Net.from_pretrained(folder)
        >>> bool(torch.equal(again.layers[0].bits, model.layers[0].bits))
        True
    """

    @classmethod
    def _load_as_safetensor(cls, model: AnyModel, model_file: str, map_location: str, strict: bool) -> AnyModel:
        state = load_file(model_file, device=str(map_location))
        if any(name.split(".")[-1] == "bits" for name in state):
            load_packed_(model, state)
            return model.to(map_location)
        loaded: AnyModel = super()._load_as_safetensor(model, model_file, map_location, strict)
        return loaded


class HubProgram(ModelHubMixin, **_ABOUT):
    """A compiled program with ``save_pretrained``, ``from_pretrained`` and ``push_to_hub``: one ``.sw`` file.

    Args:
        program: what :func:`signwise.compile` returns.

    Example:
        >>> import signwise as sw, tempfile
        >>> program = sw.compile(nn.Sequential(nn.Linear(4, 2)), torch.zeros(1, 4))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     HubProgram(program).save_pretrained(folder)
        ...     again = HubProgram.from_pretrained(folder).program
        >>> again.input_shape
        (4,)
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @classmethod
    def _is_jsonable(cls, value: Any) -> bool:
        # A program is a dataclass, which the mixin would copy into config.json.
        return not isinstance(value, Program) and bool(super()._is_jsonable(value))

    def _save_pretrained(self, save_directory: Path) -> None:
        self.program.save(save_directory / _PROGRAM)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> HubProgram:
        folder = Path(model_id)
        if folder.is_dir():
            path = folder / _PROGRAM
            if not path.exists():
                raise SignwiseError(f"{folder} has no {_PROGRAM}: save a program there with HubProgram.save_pretrained")
            return cls(Program.load(path))
        passed = ("revision", "cache_dir", "force_download", "token", "local_files_only")
        chosen = {name: options[name] for name in passed if name in options}
        return cls(Program.load(Path(hf_hub_download(repo_id=model_id, filename=_PROGRAM, **chosen))))


def save_run(run: Path | str, folder: Path | str) -> None:
    """Write a finished run in the form of a repository of the hub.

    The folder holds ``program.sw``, which takes raw pixels and which :class:`HubProgram` loads; ``model.safetensors``,
    the latents; and ``README.md``, the model card with the run's figures. To publish it, call
    ``huggingface_hub.upload_folder``.

    Args:
        run: the run's folder; its best weights are taken.
        folder: where to write; created if it does not exist.

    Raises:
        SignwiseError: the folder holds no run, or the run has not finished.
    """
    trained = load_run(run, "best")
    if "finished" not in trained.config:
        raise SignwiseError(f"the run in {run} has not finished: train it to the end before publishing it")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_records(Path(run) / "metrics.jsonl")
    curves = {name: [row[name] for row in rows] for name in ("error", "relaxed_error", "train_error")}
    save(error_curves_figure(curves, f"{trained.recipe.name}, {trained.recipe.bits} bit"), folder / "errors.png")
    write_file(folder / "README.md", model_card(trained).encode())
    state = {name: value.contiguous() for name, value in trained.model.state_dict().items()}
    write_file(folder / "model.safetensors", encode_tensors(state, metadata={"format": "pt"}))
    shape = trained.config["network"]["input_shape"]
    HubProgram(compile_model(trained.on_raw_pixels(), torch.zeros(1, *shape))).save_pretrained(folder)


def model_card(run: Run) -> str:
    """The model card of a finished run, in the form that the hub reads, from the run's record alone."""
    config, recipe = run.config, run.recipe
    network, result, hardware = config["network"], config["result"], config["hardware"]
    best = f"{result['best_error']:.2f}"
    shape = "x".join(str(size) for size in network["input_shape"])
    facts = {
        "model": f"`{recipe.model}`",
        "data": f"{recipe.dataset}, images of {shape}, {len(network['classes'])} classes",
        "weights": f"{network['parameters']:,}, of which {network['binary_weights']:,} take one bit",
        "test error": f"{best} % after epoch {result['best_epoch']}, {result['last_error']:.2f} % after the last",
        "method": "32 bits" if recipe.bits == 32 else f"`{recipe.method}`, T_α = {recipe.t_alpha:g}",
        "training": f"{recipe.epochs} epochs in batches of {recipe.batch_size}, seed {recipe.seed}",
        "trained on": f"{hardware.get('accelerator') or hardware['processor']}, {config['finished'][:10]}",
        "versions": ", ".join(f"{name} {version}" for name, version in config["versions"].items()),
        "revision": str(config["revision"]),
    }
    table = "\n".join(f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in facts.items())
    tags = "\n".join(f"- {tag}" for tag in _TAGS)
    return f"""---
library_name: signwise
pipeline_tag: image-classification
tags:
{tags}
metrics:
- error_rate
---

# {recipe.name}, {recipe.bits} bit

An image classifier with weights of -1 and +1, trained with exact gradients by signwise.

| | |
|---|---|
{table}

![The errors over the epochs](errors.png)

The best epoch was chosen by its test error. `program.sw` takes raw pixels from 0 to 255, and runs without PyTorch:

```python
from signwise.integrations.hub import HubProgram

outputs = HubProgram.from_pretrained(".").program.run(images)
```

`model.safetensors` holds the latents, to train on: `signwise train RECIPE --init-from model.safetensors`.
"""
