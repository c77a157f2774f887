"""Train models whose weights are -1 or +1 with exact gradients, pack them to one bit, run them by looking up sums.

The names below load on first use. ``runtime`` and ``datasets`` need numpy alone; the training names need PyTorch, and
say so where it is missing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from signwise import datasets, export, methods, models, runtime, shipped, training
    from signwise.activations import BinaryActivation, ShiftedPReLU
    from signwise.attention import MultiheadAttention
    from signwise.bwnh import bwnh_
    from signwise.compiler import can_compile, compile  # noqa: A004 - the name that users know from PyTorch
    from signwise.compiler.decoder import compile_decoder
    from signwise.convert import binarize_, fan_in_scale, first_and_last, last
    from signwise.diagnose import flip_ratio, health, refuse_nonfinite, relative_step, signs_of
    from signwise.errors import DataError, FormatError, SignwiseError
    from signwise.generation import Generator
    from signwise.layers import (
        BinaryConv1d,
        BinaryConv2d,
        BinaryConv3d,
        BinaryConvTranspose1d,
        BinaryConvTranspose2d,
        BinaryConvTranspose3d,
        BinaryLayer,
        BinaryLinear,
        after_step_,
        binary_layers,
        relaxed,
    )
    from signwise.methods import (
        BWN,
        DSQ,
        LAB,
        MPT,
        PARQ,
        SQBWN,
        BinaryConnect,
        BinaryRelax,
        Bop,
        Deployed,
        GroupTransform,
        IRNet,
        MeanSign,
        Method,
        ProxQuant,
        ReSTE,
        ScaledSign,
        SelfBinarizing,
        StraightThrough,
        Ternary,
    )
    from signwise.optim import SGDW, param_groups
    from signwise.packing import load_packed_, pack_
    from signwise.program import IntegerProgram, Program, load
    from signwise.runtime import Session
    from signwise.schedule import Attachment, BinarizationSchedule, CosineDecay, Decay, LinearDecay, StepDecay, attach
    from signwise.sizes import summary
    from signwise.transform import binary_sign, group_transform

# Where each public name lives; names that are modules map to themselves.
_MODULES = ("datasets", "export", "methods", "models", "runtime", "shipped", "training")
_HOMES = {
    "activations": ("BinaryActivation", "ShiftedPReLU"),
    "attention": ("MultiheadAttention",),
    "bwnh": ("bwnh_",),
    "compiler": ("can_compile", "compile"),
    "compiler.decoder": ("compile_decoder",),
    "convert": ("binarize_", "fan_in_scale", "first_and_last", "last"),
    "errors": ("DataError", "FormatError", "SignwiseError"),
    "generation": ("Generator",),
    "diagnose": ("flip_ratio", "health", "refuse_nonfinite", "relative_step", "signs_of"),
    "layers": (
        "BinaryConv1d",
        "BinaryConv2d",
        "BinaryConv3d",
        "BinaryConvTranspose1d",
        "BinaryConvTranspose2d",
        "BinaryConvTranspose3d",
        "BinaryLayer",
        "BinaryLinear",
        "after_step_",
        "binary_layers",
        "relaxed",
    ),
    "methods": (
        "BWN",
        "BinaryConnect",
        "BinaryRelax",
        "Bop",
        "DSQ",
        "Deployed",
        "GroupTransform",
        "IRNet",
        "LAB",
        "MPT",
        "MeanSign",
        "Method",
        "PARQ",
        "ProxQuant",
        "ReSTE",
        "SQBWN",
        "ScaledSign",
        "SelfBinarizing",
        "StraightThrough",
        "Ternary",
    ),
    "optim": ("SGDW", "param_groups"),
    "packing": ("load_packed_", "pack_"),
    "program": ("IntegerProgram", "Program", "load"),
    "runtime": ("Session",),
    "schedule": ("Attachment", "BinarizationSchedule", "CosineDecay", "Decay", "LinearDecay", "StepDecay", "attach"),
    "sizes": ("summary",),
    "transform": ("binary_sign", "group_transform"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BWN",
    "DSQ",
    "LAB",
    "MPT",
    "PARQ",
    "SGDW",
    "SQBWN",
    "Attachment",
    "BinarizationSchedule",
    "BinaryActivation",
    "BinaryConnect",
    "BinaryConv1d",
    "BinaryConv2d",
    "BinaryConv3d",
    "BinaryConvTranspose1d",
    "BinaryConvTranspose2d",
    "BinaryConvTranspose3d",
    "BinaryLayer",
    "BinaryLinear",
    "BinaryRelax",
    "Bop",
    "CosineDecay",
    "DataError",
    "Decay",
    "Deployed",
    "FormatError",
    "Generator",
    "GroupTransform",
    "IRNet",
    "IntegerProgram",
    "LinearDecay",
    "MeanSign",
    "Method",
    "MultiheadAttention",
    "Program",
    "ProxQuant",
    "ReSTE",
    "ScaledSign",
    "SelfBinarizing",
    "Session",
    "ShiftedPReLU",
    "SignwiseError",
    "StepDecay",
    "StraightThrough",
    "Ternary",
    "__version__",
    "after_step_",
    "attach",
    "binarize_",
    "binary_layers",
    "binary_sign",
    "bwnh_",
    "can_compile",
    "compile",
    "compile_decoder",
    "datasets",
    "export",
    "fan_in_scale",
    "first_and_last",
    "flip_ratio",
    "group_transform",
    "health",
    "last",
    "load",
    "load_packed_",
    "methods",
    "models",
    "pack_",
    "param_groups",
    "refuse_nonfinite",
    "relative_step",
    "relaxed",
    "runtime",
    "shipped",
    "signs_of",
    "summary",
    "training",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES and name not in _HOME_OF:
        import difflib

        nearest = difflib.get_close_matches(name, __all__, n=1)
        raise AttributeError(
            f"module 'signwise' has no attribute {name!r}" + (f": did you mean {nearest[0]}?" if nearest else "")
        )
    try:
        home = importlib.import_module(f"signwise.{_HOME_OF.get(name, name)}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from signwise.invocation import install

        raise ImportError(f"signwise.{name} needs PyTorch: {install('torch')}") from error
    return home if name in _MODULES else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
