"""The strongest peers for a single dense layer: 1, 2 or 4 bits per weight, and activations of 8 bits.

They take a network that is one binary dense layer whose rows are multiples of 128, and nothing else.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from signwise.atomic import atomic_write
from signwise.bench.engines import Engine, Precision, Runner
from signwise.bench.engines.onnx import OnnxRuntime
from signwise.bench.network import Network, listed
from signwise.program import operations as ops
from signwise.program.program import Examples

_BLOCK = 128  # weights that share a scale
LLAMA_FOLDER = "NODE_LLAMA_CPP"
"""The environment variable that names the folder in which npm has installed @node-llama-cpp/linux-x64."""


def one_dense_layer(network: Network) -> ops.Dense | None:
    """The layer of a network that is a binary dense layer alone, if it is one."""
    first, *more = network.float32.ops
    if more or not isinstance(first, ops.Dense) or first.bits != 1 or first.in_features % _BLOCK:
        return None
    return first


class MatMulNBits(OnnxRuntime):
    """ONNX Runtime's product with 2 or 4 bits per weight; its activations are rounded to 8 bits (accuracy level 4)."""

    precisions = ("int8",)
    bits: ClassVar[int]

    def suits(self, network: Network) -> bool:
        return one_dense_layer(network) is not None

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        path = folder / f"{self.name}.onnx"
        layer = one_dense_layer(network)
        if path.exists() or layer is None:
            return path
        weights = network.float32.float_weight(layer)
        rows, width = weights.shape
        zero = 2 ** (self.bits - 1)
        codes = np.where(weights > 0, zero + 1, zero - 1).astype(np.uint8)  # the lowest bits hold the first weight
        per_byte = 8 // self.bits
        parts = codes.reshape(rows, width // _BLOCK, _BLOCK // per_byte, per_byte) << np.arange(0, 8, self.bits)
        packed = np.bitwise_or.reduce(parts.astype(np.uint8), axis=-1)
        scales = np.abs(weights[:, ::_BLOCK]).astype(np.float32)
        node = helper.make_node(
            "MatMulNBits", ["input", "packed", "scales"], ["output"], domain="com.microsoft",
            K=width, N=rows, bits=self.bits, block_size=_BLOCK, accuracy_level=4,
        )  # fmt: skip
        graph = helper.make_graph(
            [node],
            "dense",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", width])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", rows])],
            [numpy_helper.from_array(packed, "packed"), numpy_helper.from_array(scales.reshape(-1), "scales")],
        )
        versions = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        with atomic_write(path) as file:
            file.write(onnx.helper.make_model(graph, opset_imports=versions, ir_version=10).SerializeToString())
        return path


class MatMul2Bits(MatMulNBits):
    name = "matmul2bits"
    title = "ONNX Runtime MatMulNBits, 2 bits"
    bits = 2


class MatMul4Bits(MatMulNBits):
    name = "matmul4bits"
    title = "ONNX Runtime MatMulNBits, 4 bits"
    bits = 4


class Ggml(Engine):
    """The product of llama.cpp with one bit per weight (Q1_0) and 8-bit activations, in the library that npm brings."""

    name = "ggml"
    title = "ggml Q1_0"
    requires = ("numpy",)
    precisions = ("int8",)

    _TYPE = 41  # Q1_0: blocks of a float16 scale and 128 bits
    _FLOAT = 0

    def suits(self, network: Network) -> bool:
        return ggml_library() is not None and one_dense_layer(network) is not None

    def convert(self, network: Network, precision: Precision, folder: Path) -> Path:
        path = folder / "q1_0.npy"
        layer = one_dense_layer(network)
        if path.exists() or layer is None:
            return path
        weights = network.float32.float_weight(layer)
        rows, width = weights.shape
        blocks = weights.reshape(rows, width // _BLOCK, _BLOCK)
        scales = np.abs(blocks[..., :1]).astype(np.float16).view(np.uint8)
        signs = np.packbits(blocks > 0, axis=-1, bitorder="little")
        with atomic_write(path) as file:
            np.save(file, np.concatenate([scales, signs], axis=-1))  # (rows, blocks, 18)
        return path

    def open(self, path: Path, precision: Precision, *, batch: int, threads: int) -> Runner:
        library = ggml_library()
        assert library is not None
        blocks = np.load(path)
        rows, width = blocks.shape[0], blocks.shape[1] * _BLOCK
        memory = library.ggml_init(_Memory(blocks.nbytes + 64 * (rows + width) * batch + (16 << 20), None, False))
        matrix = library.ggml_new_tensor_2d(memory, self._TYPE, width, rows)
        vectors = library.ggml_new_tensor_2d(memory, self._FLOAT, width, batch)
        product = library.ggml_mul_mat(memory, matrix, vectors)
        graph = library.ggml_new_graph(memory)
        library.ggml_build_forward_expand(graph, product)
        ctypes.memmove(library.ggml_get_data(matrix), blocks.ctypes.data, blocks.nbytes)
        options = library.ggml_threadpool_params_default(threads)
        plan = library.ggml_graph_plan(graph, threads, library.ggml_threadpool_new(ctypes.byref(options)))
        scratch = np.empty(max(plan.work_size, 1), np.uint8)
        plan.work_data = scratch.ctypes.data
        given = library.ggml_get_data(vectors)
        made = np.ctypeslib.as_array(
            ctypes.cast(library.ggml_get_data(product), ctypes.POINTER(ctypes.c_float)), (batch, rows)
        )

        def run(examples: Examples, _scratch: npt.NDArray[np.uint8] = scratch) -> npt.NDArray[np.float32]:
            (array,) = listed(examples)
            ctypes.memmove(given, array.ctypes.data, array.nbytes)
            library.ggml_graph_compute(graph, ctypes.byref(plan))
            return np.array(made, np.float32)

        return run


class _Memory(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class _Threads(ctypes.Structure):
    """ggml_threadpool_params, whose beginning is a mask of cores."""

    _fields_ = (("content", ctypes.c_uint8 * 528),)


class _Plan(ctypes.Structure):
    _fields_ = (
        ("work_size", ctypes.c_size_t),
        ("work_data", ctypes.c_void_p),
        ("threads", ctypes.c_int),
        ("pool", ctypes.c_void_p),
        ("abort", ctypes.c_void_p),
        ("abort_data", ctypes.c_void_p),
        ("reserved", ctypes.c_uint8 * 64),
    )


@cache
def ggml_library() -> Any:
    """ggml for this processor, or ``None`` where it is not installed."""
    folder = os.environ.get(LLAMA_FOLDER)
    if folder is None:
        return None
    binaries = Path(folder, "node_modules", "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
    about = Path("/proc/cpuinfo")
    flags = about.read_text(encoding="utf-8") if about.exists() else ""
    # By falling speed; the names are those of processors that have what each one needs.
    for name, needed in (("zen4", "avx512_bf16"), ("icelake", "avx512_vnni"), ("haswell", "avx2"), ("x64", "")):
        found = binaries / f"libggml-cpu-{name}.so"
        if needed in flags and found.exists():
            ctypes.CDLL(str(binaries / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
            return _typed(ctypes.CDLL(str(found)))
    return None


def _typed(library: ctypes.CDLL) -> ctypes.CDLL:
    """The few functions that are called, with the types of ggml.h."""
    pointer, whole, large = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "ggml_init": (pointer, [_Memory]),
        "ggml_new_tensor_2d": (pointer, [pointer, whole, large, large]),
        "ggml_mul_mat": (pointer, [pointer, pointer, pointer]),
        "ggml_new_graph": (pointer, [pointer]),
        "ggml_build_forward_expand": (None, [pointer, pointer]),
        "ggml_get_data": (pointer, [pointer]),
        "ggml_threadpool_params_default": (_Threads, [whole]),
        "ggml_threadpool_new": (pointer, [pointer]),
        "ggml_graph_plan": (_Plan, [pointer, whole, pointer]),
        "ggml_graph_compute": (whole, [pointer, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
