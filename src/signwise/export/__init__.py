"""Programs in other formats, for engines that people already have.

signwise.export.onnx(program, "net.onnx")
"""

from __future__ import annotations

from os import PathLike

from signwise.export.onnx_graph import to_onnx
from signwise.program.file import write_file
from signwise.program.program import Program

__all__ = ["onnx", "to_onnx"]


def onnx(program: Program, path: str | PathLike[str]) -> None:
    """Write an ONNX model that computes what the program computes.

    Args:
        program: what to write. Its input is called ``input``, its output ``output``; the batch stays symbolic.
        path: the file, which should end in ``.onnx``.

    Raises:
        SignwiseError: the ``onnx`` package is not installed, or the file cannot be written.
    """
    write_file(path, to_onnx(program))
