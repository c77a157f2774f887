"""C for microcontrollers gives the integers of the program in numpy, bit for bit."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.exports import through_file
from tests.export.c_library import Library

import signwise as sw
from signwise.errors import SignwiseError
from signwise.export import to_c
from signwise.export.c_source import block_words, sign_words, takes_blocks
from signwise.program import IntegerProgram, Program
from signwise.program import operations as ops
from signwise.program.integers.steps import KINDS, Layer
from signwise.program.operations import pack_signs

Array = npt.NDArray[Any]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
GENERATOR = np.random.default_rng(0)


class Net:
    """A program that grows operation by operation, with random weights and scales that keep its numbers small."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.ops, self.tensors = shape, list[ops.Operation](), dict[str, Array]()

    def add(self, operation: ops.Operation) -> Net:
        self.ops.append(operation)
        return self

    def read(self) -> tuple[int, ...]:
        if not self.ops:
            return self.shape
        return Program(
            input_shape=self.shape, ops=tuple(self.ops), tensors=self.tensors, output=len(self.ops)
        ).output_shape

    def conv(self, filters: int, kernel: tuple[int, int], bits: int = 1, *residual: int, **options: Any) -> Net:
        channels, number = self.read()[0] // options.get("groups", 1), len(self.ops) + 1
        terms = channels * kernel[0] * kernel[1]
        self._weights(number, bits, (filters, channels, *kernel), terms)
        names: dict[str, Any] = {"weight": f"w{number}", "scale": f"s{number}", "bias": f"b{number}"}
        return self.add(
            ops.Conv(inputs=(number - 1, *residual), bits=bits, out_channels=filters, kernel=kernel, **names, **options)
        )

    def dense(self, outputs: int, bits: int, **options: Any) -> Net:
        (features,), number = self.read(), len(self.ops) + 1
        self._weights(number, bits, (outputs, features), features)
        names: dict[str, Any] = {"weight": f"w{number}", "scale": f"s{number}", "bias": f"b{number}"}
        return self.add(
            ops.Dense(inputs=(number - 1,), bits=bits, out_features=outputs, in_features=features, **names, **options)
        )

    def _weights(self, number: int, bits: int, shape: tuple[int, ...], terms: int) -> None:
        signs = GENERATOR.choice([-1, 1], shape)
        self.tensors[f"w{number}"] = pack_signs(signs) if bits == 1 else GENERATOR.normal(0, 1, shape).astype("f4")
        # Both signs: a batch norm may turn a filter around.
        scales = GENERATOR.uniform(0.5, 1.5, shape[0]) * GENERATOR.choice([-1, 1], shape[0]) / terms**0.5
        self.tensors[f"s{number}"] = scales.astype(np.float32)
        self.tensors[f"b{number}"] = GENERATOR.normal(0, 0.3, shape[0]).astype(np.float32)

    def program(self) -> Program:
        return Program(input_shape=self.shape, ops=tuple(self.ops), tensors=self.tensors, output=len(self.ops))


def affine(net: Net, relu: bool) -> Net:
    channels, number = net.read()[0], len(net.ops) + 1
    net.tensors |= {
        f"s{number}": np.linspace(0.5, 1.5, channels, dtype=np.float32),
        f"b{number}": np.linspace(-0.5, 0.5, channels, dtype=np.float32),
    }
    return net.add(ops.Affine(inputs=(number - 1,), scale=f"s{number}", bias=f"b{number}", relu=relu))


def pool(net: Net, kind: type[ops.MaxPool | ops.AvgPool], *sizes: int, padding: int = 0) -> Net:
    kernel, stride = sizes
    return net.add(
        kind(inputs=(len(net.ops),), kernel=(kernel, kernel), stride=(stride, stride), padding=(padding,) * 4)
    )


def flat(net: Net) -> Net:
    return net.add(ops.Flatten(inputs=(len(net.ops),)))


CASES = {
    "a dense layer": Net(5).dense(4, 1),
    "8-bit weights": Net(5).dense(9, 32, relu=True).dense(4, 32),
    "padding, and a pool inside of the layer": flat(
        pool(Net(2, 9, 7).conv(8, (3, 3), 32, padding=(1, 1, 1, 1), relu=True), ops.MaxPool, 2, 2).conv(
            20, (3, 3), 1, padding=(1, 0, 0, 1), relu=True
        )
    ).dense(10, 32),
    "stride, dilation and groups": Net(4, 12, 11)
    .conv(12, (3, 2), 1, groups=2, stride=(2, 1), relu=True)
    .conv(6, (2, 2), 1, dilation=(2, 3))
    .conv(6, (1, 1), 32, groups=3, padding=(1, 1, 0, 0))
    .conv(3, (2, 3), 1),
    "more than 256 weights per filter": Net(19, 5, 5)
    .conv(17, (5, 5), 1, padding=(2, 2, 2, 2), relu=True)
    .conv(3, (5, 5)),
    "blocks of 16 channels, odd sizes, a pool and a wide window": flat(
        pool(
            Net(16, 11, 9).conv(32, (3, 3), 1, padding=(1, 1, 1, 1), relu=True), ops.MaxPool, 2, 2
        ).conv(16, (3, 5), 1, padding=(1, 2, 1, 2))
    ).dense(10, 1),
    "blocks of 16 channels with strides and a residual": Net(16, 13, 14)
    .conv(16, (3, 3), 1, stride=(2, 2), padding=(1, 1, 1, 1))
    .conv(16, (3, 3), 1, 1, padding=(1, 1, 1, 1), relu=True)
    .conv(48, (1, 1), 1, stride=(1, 2))
    .conv(5, (2, 4), 1, stride=(1, 3), dilation=(3, 1)),
    "a pool after a pool inside of the layer": pool(
        pool(Net(3, 12, 12).conv(6, (3, 3), 1, padding=(1, 1, 1, 1)), ops.MaxPool, 2, 2), ops.MaxPool, 3, 3
    ).conv(2, (2, 2)),
    "a residual that may be negative": Net(3, 6, 6)
    .conv(6, (3, 3), 1, padding=(1, 1, 1, 1))
    .conv(6, (3, 3), 1, 1, padding=(1, 1, 1, 1), relu=True)
    .conv(2, (6, 6), 1),
    "sums, means and overlapping pools": pool(
        pool(
            Net(3, 9, 9).conv(5, (1, 1)).add(ops.Relu(inputs=(1,))).add(ops.Add(inputs=(1, 2), relu=True)),
            ops.AvgPool, 3, 2, padding=1,
        ),
        ops.MaxPool, 3, 1, padding=1,
    ).conv(2, (5, 5)),
    "joined channels": Net(3, 6, 6)
    .conv(5, (3, 3), 1, relu=True)
    .add(ops.PadChannels(inputs=(1,), before=2, after=1))
    .conv(7, (1, 1))
    .add(ops.Concat(inputs=(2, 3)))
    .add(ops.GlobalPool(inputs=(4,)))
    .dense(3, 1),
    "affine maps, folded and not": affine(
        affine(Net(3, 6, 6), relu=False).conv(5, (3, 3), 32, relu=False), relu=True
    ).conv(4, (4, 4), 1, padding=(1, 1, 1, 1)),
}  # fmt: skip


@needs_gcc
@pytest.mark.parametrize("net", CASES.values(), ids=CASES.keys())
def test_c_gives_the_integers_of_numpy_and_both_are_near_the_program(net: Net, tmp_path: Path) -> None:
    program = net.program()
    examples = GENERATOR.normal(0.3, 1, (24, *net.shape)).astype(np.float32)
    integers = program.to_integers(examples)
    expected = integers.run(examples)
    np.testing.assert_array_equal(Library(integers, to_c(integers), tmp_path)(examples), expected)
    real = program.reference(examples).reshape(len(examples), -1)
    near = expected.reshape(len(examples), *memory_shape(program)).transpose(0, 3, 1, 2).reshape(real.shape)
    assert np.abs(near * integers.output_scale - real).max() < 0.12 * np.abs(real).max()


def memory_shape(program: Program) -> tuple[int, int, int]:
    channels, *size = program.output_shape
    height, width = size or (1, 1)
    return height, width, channels


@needs_gcc
def test_a_window_of_many_bright_columns_does_not_overflow_the_sums_of_16_bits(tmp_path: Path) -> None:
    bright = np.full((1, 16, 1, 20), 255.0)
    program = Net(16, 1, 20).conv(5, (1, 20), 1, stride=(1, 4)).program().to_integers(bright)
    np.testing.assert_array_equal(Library(program, to_c(program), tmp_path)(bright), program.run(bright))


@pytest.mark.parametrize("net", CASES.values(), ids=CASES.keys())
def test_the_c_code_of_a_saved_and_loaded_program_is_the_same(net: Net, tmp_path: Path) -> None:
    integers = net.program().to_integers(GENERATOR.normal(0.3, 1, (4, *net.shape)))
    integers.save(tmp_path / "net.sw")
    assert to_c(IntegerProgram.load(tmp_path / "net.sw")) == to_c(integers)


def test_the_cases_have_every_operation_with_an_integer_form_and_every_step() -> None:
    steps = {step.kind for net in CASES.values() for step in net.program().to_integers(np.ones((1, *net.shape))).steps}
    assert steps == set(KINDS)
    tried = Counter(operation.kind for net in CASES.values() for operation in net.ops)
    assert set(tried) == {
        *("conv", "dense", "affine", "relu", "add", "maxpool", "avgpool", "globalpool"),
        *("pad_channels", "flatten", "concat"),
    }


@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in sw.shipped.names() if "mnist" in name])
def test_c_gives_the_integers_of_shipped_networks_of_the_tiny_one_on_all_of_mnist(name: str, tmp_path: Path) -> None:
    data, program = sw.datasets.load("mnist"), Program.load(name)
    integers = through_file(program.to_integers(data.train_images[:64]))
    library = Library(integers, to_c(integers), tmp_path, sanitize=False)
    images = data.test_images if "tiny" in name else data.test_images[:500]
    for start in range(0, len(images), 500):
        batch = images[start : start + 500]
        np.testing.assert_array_equal(library(batch), integers.run(batch))


@needs_gcc
@pytest.mark.slow
def test_c_gives_the_integers_of_a_saved_and_loaded_residual_network(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 32, 32))
    integers = through_file(Program.load("resnet8-cifar10-1bit").to_integers(images))
    found = Library(integers, to_c(integers), tmp_path)(images)
    np.testing.assert_array_equal(found, integers.run(images))
    assert len(np.unique(found)) > 40, "the network tells its outputs apart"


def test_signs_fill_words_from_the_lowest_bit() -> None:
    program = Net(18).dense(3, 1).program().to_integers(np.eye(18))
    (layer,) = program.steps
    assert isinstance(layer, Layer)
    assert not takes_blocks(layer, (18, 1, 1))
    words = sign_words(layer, (18, 1, 1))
    assert words.shape == (1, 2, 3)
    for row, signs in enumerate(layer.whole_weight((18, 1, 1)).reshape(3, 18)):
        found = [words[0, term // 16, row] >> (term % 16) & 1 for term in range(32)]
        assert found[:18] == (signs > 0).tolist() and not any(found[18:])


def test_signs_of_blocks_run_over_channels_then_filters_then_the_window() -> None:
    program = Net(32, 4, 4).conv(3, (2, 3)).program().to_integers(GENERATOR.normal(0, 1, (2, 32, 4, 4)))
    (layer,) = program.steps
    assert isinstance(layer, Layer) and takes_blocks(layer, (32, 4, 4))
    words, weight = block_words(layer, (32, 4, 4)), layer.whole_weight((32, 4, 4))
    assert words.shape == (2, 2, 3, 3)
    for place in np.ndindex(3, 2, 3, 32):  # filter, row, column, channel
        filter_number, row, column, channel = place
        word = int(words[channel // 16, row, column, filter_number])
        assert (word >> (channel % 16) & 1) == (weight[place] > 0)


@needs_gcc
def test_an_arena_that_is_not_aligned_is_refused(tmp_path: Path) -> None:
    program = CASES["a dense layer"].program().to_integers(np.ones((1, 5)))
    library = Library(program, to_c(program), tmp_path)
    assert [library.refuses_arena(shift) for shift in (0, 1, 2, 3, 4)] == [False, True, True, True, False]


def test_source_has_no_floating_point_and_no_allocation() -> None:
    program = CASES["joined channels"].program().to_integers(np.ones((1, 3, 6, 6)))
    text = "".join(to_c(program).files.values())
    code = "".join(part.partition("*/")[2] for part in f"*/{text}".split("/*"))
    assert not {"float", "double", "malloc", "alloca", "math.h"} & set(code.replace("(", " ").replace("<", " ").split())


def test_files_have_the_name_and_a_bad_name_is_refused(tmp_path: Path) -> None:
    program, examples = CASES["a dense layer"].program(), np.ones((2, 5))
    sw.export.c(program, tmp_path / "made", examples, name="tiny")
    expected = ["signwise_kernels.c", "signwise_kernels.h", "tiny.c", "tiny.h"]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == expected
    assert "int tiny_run(const int8_t *input, int32_t *output, void *arena);" in (tmp_path / "made/tiny.h").read_text()
    with pytest.raises(SignwiseError, match="a C identifier in lower case"):
        sw.export.c(program, tmp_path, examples, name="Tiny-1")
    with pytest.raises(SignwiseError, match="C needs examples="):
        sw.export.c(program, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SignwiseError, match="cannot make the folder"):
        sw.export.c(program, tmp_path / "file" / "net", examples)
