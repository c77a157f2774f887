"""What an engine is to the benchmark: it converts a network to a file of its own, and runs that file.

The two are apart because they happen apart: a network is converted once, and opened for every batch size and number of
threads, also in fresh processes, where an engine shall load what it runs and nothing else.
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

Precision: TypeAlias = Literal["float32", "int8"]
PRECISIONS: tuple[Precision, ...] = ("float32", "int8")

Runner: TypeAlias = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""From a batch to its answers, both numpy arrays: what a user of the engine calls."""


class Engine(ABC):
    """One engine. Importing its module is free; its packages are loaded by the methods that need them.

    Attributes:
        name: in the command line.
        title: in tables and charts.
        requires: the modules that it imports, and so must be installed.
        install: the command that installs them.
        precisions: those it can run.
        ours: whether it runs packed files, and so is none of the others that these are compared with.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    install: ClassVar[str] = "pip install 'signwise[bench]'"
    precisions: ClassVar[tuple[Precision, ...]] = PRECISIONS
    ours: ClassVar[bool] = False

    def missing(self) -> list[str]:
        """The modules that it needs and that are not installed."""
        return [module for module in self.requires if importlib.util.find_spec(module) is None]

    @abstractmethod
    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        """Write the network in the engine's form to a file in ``folder``, unless it is there already."""

    @abstractmethod
    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        """Get ready to run a converted file on batches of one size with so many threads."""
