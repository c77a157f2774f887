"""The packed file itself, run by the native kernels or by numpy alone."""

from __future__ import annotations

from pathlib import Path

from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.network import Network
from signwise.errors import SignwiseError
from signwise.program import Program, load


class Signwise(Engine):
    """The native kernels."""

    name = "signwise"
    title = "signwise"
    requires = ("numpy",)
    ours = True

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        program = network.float32 if precision == "float32" else network.int8
        if program is None:
            raise SignwiseError("this network cannot have 8-bit activations")
        path = folder / f"{precision}.sw"
        if not path.exists():
            program.save(path)
        return path

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        session = load(path, threads=threads)
        # A session falls back to numpy where the kernels are missing: right for users, wrong under this name.
        if session.native is None:
            raise SignwiseError("the native kernels cannot be loaded here: signwise doctor says why")
        return session


class Numpy(Signwise):
    """The same file by numpy alone: what runs where the kernels cannot be built."""

    name = "numpy"
    title = "numpy fallback"

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        return Program.load(path).reference
