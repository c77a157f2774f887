"""Every kernel against a reference of a few lines, on thousands of random shapes and every instruction set here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signwise.program import Program
from signwise.program import operations as ops
from signwise.runtime import native

Array = npt.NDArray[Any]

ISAS = native.available_isas()
SHAPES = 700  # of convolutions, for each instruction set and kind of input

pytestmark = pytest.mark.skipif(not ISAS, reason="needs the native library")


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SIGNWISE_ISA", request.param)
    return str(request.param)


def reference(
    images: Array, weight: Array, stride: ops.Pair, padding: ops.Padding, dilation: ops.Pair, groups: int
) -> Array:
    top, left, bottom, right = padding
    padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [dilation[i] * (weight.shape[2 + i] - 1) + 1 for i in range(2)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    parts = zip(np.split(windows, groups, 1), np.split(weight, groups), strict=True)
    return np.concatenate([np.einsum("bchwij,ocij->bohw", image, part) for image, part in parts], 1)


def pack(signs: Array) -> Array:
    return np.packbits(signs.reshape(len(signs), -1) > 0, axis=1, bitorder="little")


def pick(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def random_convolution(rng: np.random.Generator) -> tuple[Any, ...]:
    """Shapes with everything odd about them; small enough that thousands of them take seconds."""
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        most = int(rng.choice([23, 23, 70]))  # some kernels work on blocks of 32 channels
        channels, filters = groups * pick(rng, 1, most), groups * pick(rng, 1, 60)
        kernel, stride, dilation = ((pick(rng, 1, high), pick(rng, 1, high)) for high in (5, 3, 2))
        padding = tuple(pick(rng, 0, 2) for _ in range(4))
        size = pick(rng, 1, 18), pick(rng, 1, 36)
        room = [size[i] + padding[i] + padding[i + 2] - dilation[i] * (kernel[i] - 1) for i in range(2)]
        if min(room) > 0:
            return channels, filters, kernel, stride, padding, dilation, groups, size


def run_convolution(
    images: Array, weight: Array, bits: int, stride: ops.Pair, padding: ops.Padding, dilation: ops.Pair, groups: int,
    quantized: ops.Quantized | None = None, threads: int = 1,
) -> Array:  # fmt: skip
    """Through a program: the input is rounded first where ``quantized`` says so."""
    first = (ops.Affine(inputs=(0,), scale="one", bias="zero", out=quantized),) if quantized else ()
    layer = ops.Conv(
        inputs=(len(first),), weight="weight", bits=bits, out_channels=len(weight),
        kernel=(weight.shape[2], weight.shape[3]), stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip
    tensors = {"weight": pack(weight) if bits == 1 else weight}
    if quantized:
        tensors |= {"one": np.ones(images.shape[1], np.float32), "zero": np.zeros(images.shape[1], np.float32)}
    program = Program(input_shape=images.shape[1:], ops=(*first, layer), tensors=tensors, output=len(first) + 1)
    return program.session(threads)(images)


@pytest.mark.slow
def test_binary_convolutions_of_floats_equal_the_reference(isa: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(SHAPES):
        channels, filters, kernel, stride, padding, dilation, groups, size = random_convolution(rng)
        images = rng.normal(size=(pick(rng, 1, 5), channels, *size)).astype(np.float32)
        signs = rng.choice([-1, 1], (filters, channels // groups, *kernel))
        found = run_convolution(images, signs, 1, stride, padding, dilation, groups, threads=pick(rng, 1, 3))
        expected = reference(images.astype(np.float64), signs, stride, padding, dilation, groups)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("channels", [3, 17, 512])
def test_threads_that_divide_the_channels_of_few_pixels_add_up_all_of_them(isa: str, channels: int) -> None:
    # Whole numbers, so that sums are exact in every order.
    rng = np.random.default_rng(3)
    for threads, size, groups in ((2, 4, 1), (3, 4, 1), (5, 2, 1), (2, 3, 2)):
        images = rng.integers(-9, 10, (1, groups * channels, size, size)).astype(np.float32)
        signs = rng.choice([-1, 1], (groups * pick(rng, 250, 300), channels, 3, 3))
        found = run_convolution(images, signs, 1, (1, 1), (1, 1, 1, 1), (1, 1), groups, threads=threads)
        np.testing.assert_array_equal(found, reference(images, signs, (1, 1), (1, 1, 1, 1), (1, 1), groups))


# Kernel, stride, padding, dilation, size: rows that vectors span, rows of whole vectors, strides without a kernel of
# their own; filters of three columns that are not square; then more windows than are worked out beforehand, in an image
# and in a row.
DEPTHWISE = [
    *[((3, 3), (step, step), (1, 1, 1, 1), (1, 1), size) for step in (1, 2, 3) for size in ((3, 3), (6, 6), (12, 48))],
    ((5, 3), (2, 1), (2, 1, 2, 1), (1, 1), (13, 17)),
    ((2, 3), (1, 1), (0, 1, 1, 1), (2, 1), (5, 1)),
    ((5, 4), (1, 2), (2, 0, 1, 3), (2, 1), (11, 33)),
    ((2, 3), (2, 1), (0, 5, 0, 0), (1, 3), (9, 32)),
    ((40, 40), (1, 2), (0, 1, 0, 0), (1, 1), (42, 230)),
    ((90, 90), (1, 3), (0, 0, 1, 0), (1, 1), (90, 480)),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "size"), DEPTHWISE)
def test_depthwise_convolutions_are_exact_in_whole_numbers(
    isa: str, kernel: ops.Pair, stride: ops.Pair, padding: ops.Padding, dilation: ops.Pair, size: tuple[int, int]
) -> None:
    rng = np.random.default_rng(4)
    for channels, batch, threads in ((2, 1, 1), (7, 2, 2)):
        images = rng.integers(-9, 10, (batch, channels, *size)).astype(np.float32)
        signs = rng.choice([-1, 1], (channels, 1, *kernel))
        expected = reference(images, signs, stride, padding, dilation, channels)
        for quantized in (None, ops.Quantized(type="int8", scale=1.0)):
            found = run_convolution(images, signs, 1, stride, padding, dilation, channels, quantized, threads)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_binary_convolutions_of_integers_are_exact(isa: str, kind: Any) -> None:
    rng = np.random.default_rng(2)
    for _ in range(SHAPES):
        channels, filters, kernel, stride, padding, dilation, groups, size = random_convolution(rng)
        low, high = (0, 256) if kind == "uint8" else (-128, 128)
        images = rng.integers(low, high, (pick(rng, 1, 5), channels, *size))
        signs = rng.choice([-1, 1], (filters, channels // groups, *kernel))
        found = run_convolution(
            images, signs, 1, stride, padding, dilation, groups, ops.Quantized(type=kind, scale=1.0)
        )
        np.testing.assert_array_equal(found, reference(images, signs, stride, padding, dilation, groups))


@pytest.mark.slow
def test_convolutions_of_integers_that_are_never_negative_are_exact(isa: str) -> None:
    # What follows a ReLU and is three pixels wide may be computed in another way, two output pixels at a time.
    rng = np.random.default_rng(9)
    kept = ops.Quantized(type="int8", scale=1.0)
    for _ in range(SHAPES // 2):
        channels, filters, rows = pick(rng, 22, 70), pick(rng, 20, 70), pick(rng, 1, 4)
        size, padding = (pick(rng, 4, 9), 2 * pick(rng, 1, 20)), (pick(rng, 0, 2), 1, pick(rng, 0, 2), 1)
        images = rng.integers(0, 128, (pick(rng, 1, 3), channels, *size))
        signs = rng.choice([-1, 1], (filters, channels, rows, 3))
        layer = ops.Conv(
            inputs=(1,), weight="weight", bits=1, out_channels=filters, kernel=(rows, 3), padding=padding
        )  # fmt: skip
        program = Program(
            input_shape=images.shape[1:],
            ops=(ops.Relu(inputs=(0,), out=kept), layer),
            tensors={"weight": pack(signs)},
            output=2,
        )
        found = program.session(pick(rng, 1, 2))(images)
        np.testing.assert_array_equal(found, reference(images, signs, (1, 1), padding, (1, 1), 1))


@pytest.mark.slow
def test_float_convolutions_equal_the_reference(isa: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(SHAPES // 2):
        channels, filters, kernel, stride, padding, dilation, groups, size = random_convolution(rng)
        images = rng.normal(size=(pick(rng, 1, 3), channels, *size)).astype(np.float32)
        weight = rng.normal(size=(filters, channels // groups, *kernel)).astype(np.float32)
        found = run_convolution(images, weight, 32, stride, padding, dilation, groups)
        expected = reference(images.astype(np.float64), weight, stride, padding, dilation, groups)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("extreme", [0, 255])
def test_integer_sums_do_not_overflow_at_the_extremes(isa: str, extreme: int) -> None:
    # 512 channels of a 5x5 filter: 12,800 terms of one sign, far beyond 16 bits, in every way to divide them.
    images = np.full((1, 512, 6, 9), extreme)
    signs = np.concatenate([np.ones((20, 512, 5, 5)), -np.ones((13, 512, 5, 5))])
    found = run_convolution(images, signs, 1, (1, 1), (2, 2, 2, 2), (1, 1), 1, ops.Quantized(type="uint8", scale=1.0))
    np.testing.assert_array_equal(found, reference(images, signs, (1, 1), (2, 2, 2, 2), (1, 1), 1))


def test_the_layers_of_resnet18_equal_the_reference(isa: str) -> None:
    rng = np.random.default_rng(4)
    for channels, filters, size, stride in [(64, 64, 32, 1), (64, 128, 32, 2), (256, 256, 8, 1), (512, 512, 4, 1)]:
        images = rng.normal(size=(2, channels, size, size)).astype(np.float32)
        signs = rng.choice([-1, 1], (filters, channels, 3, 3))
        found = run_convolution(images, signs, 1, (stride, stride), (1, 1, 1, 1), (1, 1), 1)
        expected = reference(images, signs.astype(np.float32), (stride, stride), (1, 1, 1, 1), (1, 1), 1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def run_dense(rows: Array, weight: Array, bits: int, quantized: ops.Quantized | None = None, threads: int = 1) -> Array:
    first = (ops.Relu(inputs=(0,), out=quantized),) if quantized else ()
    layer = ops.Dense(
        inputs=(len(first),), weight="weight", bits=bits, out_features=len(weight), in_features=weight.shape[1]
    )
    tensors = {"weight": pack(weight) if bits == 1 else weight}
    program = Program(input_shape=rows.shape[1:], ops=(*first, layer), tensors=tensors, output=len(first) + 1)
    return program.session(threads)(rows)


@pytest.mark.parametrize("bits", [1, 32])
def test_dense_layers_equal_the_matrix_product_for_one_row_and_many(isa: str, bits: int) -> None:
    rng = np.random.default_rng(5)
    for count, threads in itertools.product([1, 2, 11, 12, 13, 64, 65, 130], [1, 2]):
        inputs, filters = pick(rng, 1, 300), pick(rng, 1, 300)
        rows = rng.normal(size=(count, inputs)).astype(np.float32)
        weight = rng.choice([-1.0, 1.0], (filters, inputs)).astype(np.float32)
        if bits == 32:
            weight *= rng.normal(size=(filters, inputs)).astype(np.float32)
        np.testing.assert_allclose(
            run_dense(rows, weight, bits, threads=threads), rows @ weight.T, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("count", [1, 7, 40])
def test_dense_layers_of_integers_are_exact(isa: str, count: int) -> None:
    rng = np.random.default_rng(6)
    rows: npt.NDArray[np.int64] = rng.integers(0, 256, (count, 1003))
    signs = rng.choice([-1, 1], (77, 1003))
    found = run_dense(rows, signs, 1, ops.Quantized(type="uint8", scale=1.0))
    np.testing.assert_array_equal(found, rows @ signs.T)


@pytest.mark.parametrize("quantized", [None, ops.Quantized(type="uint8", scale=1.0)])
def test_a_single_neuron_reads_every_one_of_many_rows(isa: str, quantized: ops.Quantized | None) -> None:
    rng = np.random.default_rng(8)
    rows: npt.NDArray[np.int64] = rng.integers(0, 256, (40, 33))
    signs = rng.choice([-1, 1], (1, 33))
    np.testing.assert_array_equal(run_dense(rows, signs, 1, quantized), rows @ signs.T)


def test_a_large_dense_layer_is_divided_among_threads(isa: str) -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(1, 512)).astype(np.float32)
    signs = rng.choice([-1, 1], (1001, 512))
    np.testing.assert_allclose(run_dense(rows, signs, 1, threads=3), rows @ signs.T, rtol=1e-4, atol=1e-4)
