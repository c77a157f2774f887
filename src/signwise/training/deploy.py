"""A run's network as the program that ``signwise compile`` writes: it takes raw pixels and says where it comes from."""

from __future__ import annotations

import torch

from signwise.compiler import compile as compile_model
from signwise.program.program import Program
from signwise.training.run_folder import Run


def program_of_run(run: Run, which: str) -> Program:
    """Compile the model of a run.

    Args:
        run: as ``load_run`` reads it.
        which: its weights, ``best`` or ``last``, for the text in the file.

    Raises:
        SignwiseError: the model uses an operation that a program does not have.
    """
    recipe, config = run.recipe, run.config
    about = {
        "recipe": f"{recipe.name}, {recipe.bits} bit, seed {recipe.seed}",
        "dataset": recipe.dataset,
        "classes": ", ".join(config["network"]["classes"]),
        "input": "raw pixels, 0 to 255",
        "weights": f"{which}, after step {run.step:,} of {config['total_steps']:,}",
        "trained": str(config.get("finished", config["started"])),
        "revision": str(config["revision"]),
        "signwise": str(config["versions"]["signwise"]),
    }
    return compile_model(run.on_raw_pixels(), torch.zeros(1, *config["network"]["input_shape"]), about=about)
