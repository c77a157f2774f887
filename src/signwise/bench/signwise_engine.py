"""The packed file itself, by the kernels of this package or by numpy alone."""

from __future__ import annotations

from pathlib import Path

from signwise.bench.engine import Engine, Precision, Runner
from signwise.bench.network import Network
from signwise.errors import SignwiseError


class Signwise(Engine):
    """The native kernels, as ``signwise.runtime.load`` gives them."""

    name = "signwise"
    title = "signwise"
    requires = ("numpy",)
    ours = True

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        program = network.float32 if precision == "float32" else network.int8
        if program is None:
            raise SignwiseError("this network has no form with 8-bit activations: compile it with activations='int8'")
        path = folder / f"{precision}.sw"
        if not path.exists():
            program.save(path)
        return path

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        from signwise import runtime

        model = runtime.load(path, threads=threads)
        # Numpy steps in where the kernels are missing, which is right for users and wrong under this name.
        if model.native is None:
            raise SignwiseError("the native kernels cannot be loaded here: signwise doctor says why")
        return model


class Numpy(Signwise):
    """The same file by numpy alone: what runs where the kernels cannot be built."""

    name = "numpy"
    title = "numpy fallback"

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        from signwise.program.program import Program

        return Program.load(path).reference
