"""Operations that do not fit together are refused, and the limits hold up to the last number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from signwise.errors import FormatError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program.checks import (
    LARGEST_ACTIVATIONS,
    LARGEST_OPERATIONS,
    LARGEST_READERS,
    LARGEST_TAPS,
    LARGEST_WORK,
    Input,
    infer_shapes,
    prepared_bytes,
)
from signwise.runtime import native


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def program(**changes: Any) -> Program:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    defaults = {"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1}
    return Program(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ops": (conv(inputs=(1,)),)}, r"operation 0 \(conv\): reads value 1, which is not made before it"),
        ({"ops": (conv(kernel=(9, 3)),)}, r"operation 0 \(conv\): a window of 9 does not fit the padded height of 8"),
        ({"ops": (conv(groups=2),)}, r"operation 0 \(conv\): 3 input channels are no multiple of groups 2"),
        ({"ops": (conv(inputs=(0, 0)),)}, r"the residual has shape \[3, 8, 8\], the result \[4, 6, 6\]"),
        ({"input_shape": (3,)}, r"needs an image, but its input has shape \[3\]"),
        ({"input_shape": (3, 8)}, r"needs an image, but its input has shape \[3, 8\]"),
        ({"input_shape": (1,) * 7}, "input shape must have at most 6 sizes"),
        ({"input_shape": (3, 0, 8)}, "input shape must be an integer from 1"),
        ({"output": 2}, "output must be an integer from 0 to 1, got 2"),
        ({"tensors": {}}, r"operation 0 \(conv\): weight 'weight' is missing"),
        ({"tensors": {"weight": np.zeros((4, 5), np.uint8)}}, r"must be uint8 \[4, 4\], got uint8 \[4, 5\]"),
        ({"tensors": {"weight": np.zeros((4, 4), np.int8)}}, r"must be uint8 \[4, 4\], got int8 \[4, 4\]"),
        ({"tensors": {"weight": np.full((4, 4), 255, np.uint8)}}, "has pad bits that are not zero"),
        ({"about": {"a": 1}}, "about must hold printable text by keyword, got 'a': 1"),
        ({"about": {"a": "\x1b[2J"}}, "about must hold printable text"),
    ],
)
def test_a_program_whose_parts_do_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        program(**changes)


def test_a_tensor_that_no_operation_uses_is_refused() -> None:
    extra = {"weight": np.zeros((4, 4), np.uint8), "spare": np.zeros(1, np.float32)}
    with pytest.raises(FormatError, match="no operation uses tensor 'spare'"):
        program(tensors=extra)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused(number: float) -> None:
    tensors = {"weight": np.zeros((4, 4), np.uint8), "bias": np.array([0, 1, number, 2], np.float32)}
    with pytest.raises(FormatError, match="'bias' holds a number that is not finite"):
        program(ops=(conv(bias="bias"),), tensors=tensors)


def test_activations_cannot_grow_beyond_the_limit() -> None:
    doubling = [ops.Concat(inputs=(value, value)) for value in range(60)]
    with pytest.raises(FormatError, match=f"exceed the limit of {LARGEST_ACTIVATIONS} numbers"):
        infer_shapes([Input(shape=(1,))], doubling)
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes([Input(shape=(1, 1, 1))], [ops.PadChannels(inputs=(0,), before=2**28, after=0)])


def test_arithmetic_cannot_grow_beyond_the_limit() -> None:
    slow = ops.MaxPool(inputs=(0,), kernel=(1024, 1024), stride=(1, 1))
    with pytest.raises(FormatError, match="additions or multiplications per example"):
        infer_shapes([Input(shape=(1, 4096, 4096))], [slow])


def test_a_weight_cannot_be_copied_without_end() -> None:
    dense = [ops.Dense(inputs=(value,), weight="weight", bits=1, out_features=8, in_features=8) for value in range(65)]
    tensors = {"weight": np.zeros((8, 1), np.uint8)}
    Program(input_shape=(8,), ops=tuple(dense[:64]), tensors=tensors, output=64)
    with pytest.raises(FormatError, match="more than 64 operations share the weight 'weight'"):
        Program(input_shape=(8,), ops=tuple(dense), tensors=tensors, output=65)


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(FormatError, match="may have 4096 operations, got 4097"):
        infer_shapes([Input(shape=(1,))], [ops.Relu(inputs=(0,))] * 4097)


def test_the_largest_numbers_of_operations_activations_and_work_are_accepted() -> None:
    assert (
        len(infer_shapes([Input(shape=(1,))], [ops.Relu(inputs=(0,))] * LARGEST_OPERATIONS)) == LARGEST_OPERATIONS + 1
    )
    half = LARGEST_ACTIVATIONS // 2
    assert infer_shapes([Input(shape=(half,))], [ops.Relu(inputs=(0,))]) == ((half,), (half,))
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes([Input(shape=(half + 1,))], [ops.Relu(inputs=(0,))])
    inputs = 2**14
    layer: dict[str, Any] = {"inputs": (0,), "weight": "w", "bits": 1, "in_features": inputs}
    infer_shapes([Input(shape=(inputs,))], [ops.Dense(out_features=LARGEST_WORK // inputs, **layer)])
    with pytest.raises(FormatError, match="additions or multiplications per example"):
        infer_shapes([Input(shape=(inputs,))], [ops.Dense(out_features=LARGEST_WORK // inputs + 1, **layer)])


def test_padding_counts_as_activations() -> None:
    side = 2**13
    pool = {"inputs": (0,), "kernel": (1024, 1024), "stride": (1024, 1024)}
    infer_shapes([Input(shape=(1, side, side))], [ops.MaxPool(**pool)])  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="exceed the limit"):
        infer_shapes([Input(shape=(3, side, side))], [ops.MaxPool(**pool, padding=(1023, 0, 0, 0))])  # type: ignore[arg-type]


def test_readers_of_one_weight_are_counted_by_weight() -> None:
    dense = [
        ops.Dense(inputs=(value,), weight=f"w{value % 2}", bits=1, out_features=8, in_features=8)
        for value in range(2 * LARGEST_READERS)
    ]
    tensors = {"w0": np.zeros((8, 1), np.uint8), "w1": np.zeros((8, 1), np.uint8)}
    Program(input_shape=(8,), ops=tuple(dense), tensors=tensors, output=len(dense))


def depthwise(channels: int, readers: int) -> Program:
    layers = [
        ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=channels, kernel=(2, 4), groups=channels)
        for _ in range(readers)
    ]
    return Program(
        input_shape=(channels, 2, 4), ops=tuple(layers), tensors={"w": np.zeros((channels, 1), np.uint8)}, output=1
    )


def test_a_small_file_cannot_be_prepared_to_gigabytes() -> None:
    assert depthwise(2**16, readers=4).nbytes == 2**16
    with pytest.raises(FormatError, match=r"operation 5 .* more than 83886080 bytes once it is prepared to run"):
        depthwise(2**16, readers=64)


def test_copies_of_shared_scales_count_as_prepared() -> None:
    channels = 2**16
    affine = ops.Affine(inputs=(0,), scale="s", bias="s")
    tensors = {"s": np.zeros(channels, np.float32)}
    with pytest.raises(FormatError, match="once it is prepared to run"):
        Program(input_shape=(channels,), ops=(affine,) * 2000, tensors=tensors, output=1)


def test_kernels_cannot_be_planned_without_end() -> None:
    layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=1, kernel=(1024, 1024))
    infer_shapes([Input(shape=(1, 1031, 1031))], [layer] * 4)
    with pytest.raises(FormatError, match=rf"kernels of all convolutions exceed the limit of {LARGEST_TAPS} positions"):
        infer_shapes([Input(shape=(1, 1031, 1031))], [layer] * 5)


def test_wide_deep_depthwise_and_shared_layers_are_within_the_limits() -> None:
    def prepared(layer: ops.Weighted, read: tuple[int, ...], made: tuple[int, ...], readers: int = 1) -> bool:
        declared = sum(np.dtype(dtype).itemsize * int(np.prod(shape)) for _, _, dtype, shape in layer.tensors([read]))
        return readers * prepared_bytes(layer, [read], made) <= 2**26 + 256 * declared

    dense = ops.Dense(inputs=(0,), weight="w", bits=1, out_features=4096, in_features=4096)
    assert prepared(dense, (4096,), (4096,), readers=24), "as an unrolled recurrent network shares it"
    wide = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=640, kernel=(3, 3), padding=(1, 1, 1, 1))
    assert prepared(wide, (640, 8, 8), (640, 8, 8), readers=LARGEST_READERS // 2)
    for channels in (32, 1024, 2**20):
        for kernel in ((1, 1), (2, 4), (3, 3), (5, 5), (31, 31)):
            layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=channels, kernel=kernel, groups=channels)
            assert prepared(layer, (channels, 31, 31), (channels, 1, 1)), (channels, kernel)
    first = ops.Conv(inputs=(0,), weight="w", bits=32, out_channels=64, kernel=(7, 7))
    assert prepared(first, (3, 224, 224), (64, 218, 218))


@pytest.mark.skipif(not native.available_isas(), reason="needs the native library")
@pytest.mark.parametrize("filters", [1, 5, 16, 20, 33, 70])
@pytest.mark.parametrize("channels", [1, 2, 3, 16, 33])
@pytest.mark.parametrize("bits", [1, 32])
def test_the_library_keeps_no_more_than_was_counted(
    filters: int, channels: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weight(terms: int) -> Any:
        return np.zeros((filters, (terms + 7) // 8), np.uint8) if bits == 1 else None

    six_bits = ops.Quantized(type="uint6", scale=1.0)
    for isa in native.available_isas():
        monkeypatch.setenv("SIGNWISE_ISA", isa)
        for out in (None, six_bits):
            conv = ops.Conv(inputs=(1,), weight="w", bits=bits, out_channels=filters, kernel=(3, 3))
            dense = ops.Dense(inputs=(0,), weight="w", bits=bits, out_features=filters, in_features=channels)
            image, vector = (channels, 6, 6), (channels,)
            images = weight(9 * channels), np.zeros((filters, channels, 3, 3), np.float32)
            vectors = weight(channels), np.zeros((filters, channels), np.float32)
            for layer, shape, made, (packed, plain) in (
                (conv, image, (filters, 4, 4), images),
                (dense, vector, (filters,), vectors),
            ):
                before = (ops.Relu(inputs=(0,), out=out),) if layer is conv else ()
                found = Program(
                    input_shape=shape,
                    ops=(*before, layer),
                    tensors={"w": plain if packed is None else packed},
                    output=len(before) + 1,
                )
                prepared = found.session(1).native
                assert prepared is not None
                assert prepared.weight_bytes <= prepared_bytes(layer, [shape], made)
