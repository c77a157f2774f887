"""The packed file itself, run by the native kernels or by numpy alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.network import Network, listed
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
        return lambda examples: first_output(session(*listed(examples)))


class Numpy(Signwise):
    """The same file by numpy alone: what runs where the kernels cannot be built."""

    name = "numpy"
    title = "numpy fallback"

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        program = Program.load(path)
        return lambda examples: first_output(program.reference(*listed(examples)))


def first_output(outputs: npt.NDArray[np.float32] | tuple[npt.NDArray[np.float32], ...]) -> npt.NDArray[np.float32]:
    """The output, or the first of several."""
    return outputs[0] if isinstance(outputs, tuple) else outputs
