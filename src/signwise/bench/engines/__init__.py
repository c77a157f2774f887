"""The interface of an engine: it converts a network to a file in its own format, and runs that file.

Each module here holds the engines of one format; :data:`signwise.bench.measure.ENGINES` lists them all.

Conversion and running are separate because they happen in different places: a network is converted once, and opened for
every batch size and number of threads, also in fresh processes that should load only what the engine itself needs.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from signwise.bench.network import Network
from signwise.program.program import Examples

Precision: TypeAlias = Literal["float32", "int8"]
"""The type of the activations."""

PRECISIONS: tuple[Precision, ...] = ("float32", "int8")

Runner: TypeAlias = Callable[[Examples], npt.NDArray[np.float32]]
"""From a batch to its outputs, both numpy arrays: what a user of the engine calls. Several inputs are a tuple.
Of several outputs, all of them computed, it returns the first."""


class Engine(ABC):
    """One engine. Importing its module is free; the methods load the packages that they need.

    Attributes:
        name: the name on the command line.
        title: the name in tables and charts.
        requires: the modules that must be installed.
        precisions: the precisions that it can run.
        ours: True for our own engines, False for the peers.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    precisions: ClassVar[tuple[Precision, ...]] = PRECISIONS
    ours: ClassVar[bool] = False

    def missing(self) -> list[str]:
        """The required modules that are not installed."""
        return [module for module in self.requires if importlib.util.find_spec(module) is None]

    def suits(self, network: Network) -> bool:
        """Whether the engine takes networks of this kind; where not, it is no part of the comparison."""
        return True

    @abstractmethod
    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        """Write the network in the engine's format to a file in ``folder``, unless it is already there."""

    @abstractmethod
    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        """Prepare a converted file for batches of one size with a given number of threads."""
