"""Programs on the native kernels against the same programs in numpy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from signwise.errors import SignwiseError
from signwise.program import Program, load
from signwise.program import operations as ops
from signwise.runtime import native
from signwise.runtime.session import Session

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

ISAS = native.available_isas()
needs_library = pytest.mark.skipif(not ISAS, reason="needs the native library")


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SIGNWISE_ISA", request.param)
    return str(request.param)


class Writer:
    """Writes random programs: operations on random earlier values, whatever fits."""

    def __init__(self, seed: int, eight_bits: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.eight_bits = eight_bits
        self.shapes: list[tuple[int, ...]] = [(self.number(1, 9), self.number(3, 17), self.number(3, 17))]
        self.ops: list[ops.Operation] = []
        self.tensors: dict[str, Array] = {}

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def flag(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def tensor(self, array: Array) -> str:
        name = f"t{len(self.tensors)}"
        self.tensors[name] = array
        return name

    def channels(self, count: int) -> str:
        return self.tensor(self.rng.normal(size=count).astype(np.float32))

    def out(self) -> ops.Quantized | None:
        if not self.eight_bits or self.rng.random() < 0.3:
            return None
        kind: Any = str(self.rng.choice(list(ops.LIMITS)))
        return ops.Quantized(type=kind, scale=float(2.0 ** self.number(-6, -2)))

    def weights(self, filters: int, terms: int, shape: Shape) -> tuple[int, str]:
        if self.rng.random() < 0.8:
            packed = self.rng.integers(0, 256, (filters, (terms + 7) // 8)).astype(np.uint8)
            packed[:, -1] &= 0xFF >> (-terms % 8)
            return 1, self.tensor(packed)
        return 32, self.tensor(self.rng.normal(size=shape).astype(np.float32))

    def layer(self, value: int, shape: Shape, filters: int, terms: int, made: Shape) -> dict[str, Any]:
        bits, weight = self.weights(filters, terms, shape)
        same = [other for other, found in enumerate(self.shapes) if found == made]
        inputs = (value, int(self.rng.choice(same))) if same and self.flag() else (value,)
        # Scaled so that values neither vanish nor explode.
        scale = self.tensor((self.rng.normal(size=filters) / np.sqrt(terms)).astype(np.float32))
        bias = self.channels(filters) if self.flag() else None
        return {
            "inputs": inputs,
            "weight": weight,
            "bits": bits,
            "scale": scale,
            "bias": bias,
            "relu": self.flag(),
            "out": self.out(),
        }

    def add(self) -> None:
        value = self.number(max(0, len(self.shapes) - 3), len(self.shapes) - 1)
        shape = self.shapes[value]
        one: dict[str, Any] = {"inputs": (value,), "out": self.out()}
        operation: ops.Operation
        padding: Any
        image = len(shape) == 3
        kinds = ["affine", "relu", "add", "pad", "concat"] + (
            ["conv"] * 5 + ["max", "avg", "flatten", "global"] if image else ["dense"] * 3 + ["softmax"]
        )
        kind = self.rng.choice(kinds)
        made = shape
        match kind:
            case "conv":
                channels, height, width = shape
                kernel = self.number(1, min(3, height)), self.number(1, min(3, width))
                stride, padding = (self.number(1, 2), self.number(1, 2)), tuple(self.number(0, 1) for _ in range(4))
                filters = self.number(1, 40)
                sizes = [(shape[1 + i] + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1 for i in range(2)]
                made = (filters, *sizes)
                terms = channels * kernel[0] * kernel[1]
                shared = self.layer(value, (filters, channels, *kernel), filters, terms, made)
                operation = ops.Conv(out_channels=filters, kernel=kernel, stride=stride, padding=padding, **shared)
            case "dense":
                filters = self.number(1, 50)
                made = (filters,)
                shared = self.layer(value, (filters, shape[0]), filters, shape[0], made)
                operation = ops.Dense(out_features=filters, in_features=shape[0], **shared)
            case "affine":
                scale, bias = self.channels(shape[0]), self.channels(shape[0])
                operation = ops.Affine(scale=scale, bias=bias, relu=self.flag(), **one)
            case "relu":
                operation = ops.Relu(**one)
            case "add":
                same = [other for other, found in enumerate(self.shapes) if found == shape]
                operation = ops.Add(inputs=(value, int(self.rng.choice(same))), relu=self.flag(), out=self.out())
            case "pad":
                before, after = self.number(0, 3), self.number(0, 3)
                made = (before + shape[0] + after, *shape[1:])
                operation = ops.PadChannels(before=before, after=after, **one)
            case "concat":
                same = [other for other, found in enumerate(self.shapes) if found[1:] == shape[1:]]
                other = int(self.rng.choice(same))
                made = (shape[0] + self.shapes[other][0], *shape[1:])
                operation = ops.Concat(inputs=(value, other), out=self.out())
            case "max" | "avg":
                kernel = self.number(1, min(3, shape[1])), self.number(1, min(3, shape[2]))
                stride = self.number(1, 3), self.number(1, 3)
                padding = tuple(self.number(0, min(1, kernel[i % 2] - 1)) for i in range(4))
                made = (
                    shape[0],
                    *((shape[1 + i] + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1 for i in range(2)),
                )
                shared = dict(kernel=kernel, stride=stride, padding=padding, **one)
                if kind == "max":
                    if value > 0 and self.flag():
                        shared["out"] = self.ops[value - 1].out  # the same integers
                    operation = ops.MaxPool(**shared)
                else:
                    operation = ops.AvgPool(count_include_pad=self.flag(), **shared)
            case "flatten":
                made = (int(np.prod(shape)),)
                operation = ops.Flatten(**one)
            case "global":
                made = (shape[0],)
                operation = ops.GlobalPool(**one)
            case _:
                operation = ops.Softmax(**one)
        self.ops.append(operation)
        self.shapes.append(made)

    def program(self) -> Program:
        for _ in range(self.number(1, 8)):
            self.add()
        output = self.number(max(1, len(self.ops) - 2), len(self.ops))
        return Program(input_shape=self.shapes[0], ops=tuple(self.ops), tensors=self.tensors, output=output)


def batch_for(program: Program, seed: int, size: int | None = None) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size or int(rng.integers(1, 8)), *program.input_shape)).astype(np.float32)


def scaled_outputs(seed: int, *, eight_bits: bool) -> tuple[Array, Array]:
    """A random program's outputs by the kernels and by numpy, divided by the largest where that exceeds 1."""
    program = Writer(seed, eight_bits=eight_bits).program()
    batch = batch_for(program, seed)
    expected = program.reference(batch)
    found = Session(program, threads=1 + seed % 3)(batch)
    scale = max(1.0, float(np.abs(expected).max()))
    return found / scale, expected / scale


@needs_library
@pytest.mark.slow
def test_random_programs_in_float32_equal_numpy(isa: str) -> None:
    for seed in range(250):
        found, expected = scaled_outputs(seed, eight_bits=False)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}")


@needs_library
@pytest.mark.slow
def test_random_programs_in_8_bits_differ_from_numpy_by_rounding_alone(isa: str) -> None:
    # A number next to a half may be rounded the other way, once in a while; a wrong kernel is wrong everywhere.
    differing = total = 0
    for seed in range(250):
        found, expected = scaled_outputs(seed, eight_bits=True)
        close = np.isclose(found, expected, rtol=1e-3, atol=1e-4)
        assert close.mean() > 0.9, f"seed {seed}"
        differing += int((~close).sum())
        total += close.size
    assert differing < 0.01 * total


@needs_library
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["uint6", "uint8", "int8"])
def test_pools_of_integers_are_exact(isa: str, kind: Literal["uint6", "uint8", "int8"], threads: int) -> None:
    rng = np.random.default_rng(0)
    kept = ops.Quantized(type=kind, scale=16.0)
    around = (1, 1, 1, 1)
    operations = (
        ops.Relu(inputs=(0,), out=ops.Quantized(type="uint6", scale=1.0)),
        ops.Conv(inputs=(1,), weight="a", bits=1, out_channels=83, kernel=(3, 3), padding=around, out=kept),
        ops.MaxPool(inputs=(2,), kernel=(3, 3), stride=(2, 2), padding=around, out=kept),
        ops.AvgPool(inputs=(2,), kernel=(2, 2), stride=(2, 2), out=ops.Quantized(type="uint8", scale=4.0)),
        ops.AvgPool(inputs=(2,), kernel=(2, 2), stride=(2, 2), padding=(0, 1, 0, 1), count_include_pad=False),
    )
    tensors = {"a": random_bits(rng, 83, 36 * 9)}
    image = rng.integers(0, 64, (1, 36, 32, 32)).astype(np.float32)
    for output in (3, 4, 5):
        program = Program(input_shape=(36, 32, 32), ops=operations, tensors=tensors, output=output)
        np.testing.assert_array_equal(Session(program, threads)(image), program.reference(image))


@needs_library
@pytest.mark.parametrize("kept", [None, ops.Quantized(type="uint6", scale=4.0), ops.Quantized(type="uint8", scale=1.0)])
def test_threads_that_share_the_rows_of_images_give_numpys_outputs(isa: str, kept: ops.Quantized | None) -> None:
    # Blocks of a residual network, whose images threads keep by rows down to some size, with what may come between.
    rng = np.random.default_rng(0)
    tensors: dict[str, Array] = {}
    operations: list[ops.Operation] = []
    channels, last = 3, 0

    def add(operation: ops.Operation) -> int:
        operations.append(operation)
        return len(operations)

    def conv(read: tuple[int, ...], filters: int, stride: int = 1, **more: Any) -> int:
        name = f"w{len(operations)}"
        tensors[name] = random_bits(rng, filters, channels * 9)
        around: dict[str, Any] = {"padding": (1, 1, 1, 1), "kernel": (3, 3), "stride": (stride, stride)}
        return add(
            ops.Conv(inputs=read, weight=name, bits=1, out_channels=filters, out=kept, relu=True, **around, **more)
        )

    last = add(ops.Relu(inputs=(0,), out=kept))
    for filters, stride in ((24, 1), (24, 1), (40, 2), (40, 2), (48, 2)):
        shortcut, wider = last, filters - channels
        if stride == 2:
            pool: type[ops.Pool] = ops.AvgPool if filters < 48 else ops.MaxPool
            shortcut = add(pool(inputs=(shortcut,), kernel=(2, 2), stride=(2, 2), out=kept))
        if wider:
            shortcut = add(ops.PadChannels(inputs=(shortcut,), before=1, after=wider - 1, out=kept))
        inner = conv((last,), filters, stride)
        channels = filters
        tensors[f"s{inner}"] = np.full(filters, 2.0**-7, np.float32)
        last = conv((inner, shortcut), filters, scale=f"s{inner}")
    last = add(ops.Add(inputs=(last, inner)))
    last = add(ops.GlobalPool(inputs=(last,)))
    program = Program(input_shape=(3, 32, 32), ops=tuple(operations), tensors=tensors, output=last)
    images = rng.integers(0, 64, (3, 3, 32, 32)).astype(np.float32)
    expected = program.reference(images)
    for count, threads in ((1, 1), (1, 2), (3, 2), (2, 3)):
        found = Session(program, threads)(images[:count])
        np.testing.assert_allclose(found, expected[:count], rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def random_bits(rng: np.random.Generator, filters: int, terms: int) -> npt.NDArray[np.uint8]:
    packed = rng.integers(0, 256, (filters, (terms + 7) // 8)).astype(np.uint8)
    packed[:, -1] &= 0xFF >> (-terms % 8)
    return packed


def small_program(seed: int = 0) -> Program:
    rng = np.random.default_rng(seed)
    operations = (
        ops.Conv(inputs=(0,), weight="a", bits=1, out_channels=30, kernel=(3, 3), padding=(1, 1, 1, 1), relu=True),
        ops.Conv(inputs=(1, 1), weight="b", bits=1, out_channels=30, kernel=(3, 3), padding=(1, 1, 1, 1)),
        ops.GlobalPool(inputs=(2,)),
        ops.Dense(inputs=(3,), weight="c", bits=1, out_features=7, in_features=30),
    )
    tensors = {"a": random_bits(rng, 30, 54), "b": random_bits(rng, 30, 270), "c": random_bits(rng, 7, 30)}
    return Program(input_shape=(6, 11, 13), ops=operations, tensors=tensors, output=4)


@needs_library
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_outputs_for_an_example_do_not_depend_on_its_batch_or_the_threads(threads: int) -> None:
    program = small_program()
    batch = batch_for(program, 0, size=23)
    session = Session(program, threads)
    whole = session(batch)
    np.testing.assert_allclose(whole, program.reference(batch), rtol=1e-4, atol=1e-3)
    for size in (1, 2, 4, 9):
        np.testing.assert_allclose(session(batch[:size]), whole[:size], rtol=1e-5, atol=1e-4)


@needs_library
def test_calls_from_many_threads_at_once_agree() -> None:
    program = small_program()
    session = Session(program, threads=3)
    batches = [batch_for(program, seed, size=1 + seed) for seed in range(8)]
    expected = [session(batch) for batch in batches]
    wrong: list[int] = []

    def call(index: int) -> None:
        outputs = [session(batches[index]) for _ in range(20)]
        wrong.extend(index for output in outputs if not np.allclose(output, expected[index], rtol=1e-5, atol=1e-4))

    callers = [threading.Thread(target=call, args=(index,)) for index in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def large_layers() -> Program:
    """Layers with work enough for several threads, even for one example."""
    operations = (
        ops.Conv(inputs=(0,), weight="a", bits=1, out_channels=50, kernel=(3, 3), padding=(1, 1, 1, 1), relu=True),
        ops.MaxPool(inputs=(1,), kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1)),
        ops.Flatten(inputs=(2,)),
        ops.Dense(inputs=(3,), weight="b", bits=1, out_features=90, in_features=12800),
    )
    rng = np.random.default_rng(0)
    tensors = {"a": random_bits(rng, 50, 270), "b": random_bits(rng, 90, 12800)}
    return Program(input_shape=(30, 32, 32), ops=operations, tensors=tensors, output=4)


@needs_library
@pytest.mark.parametrize("threads", [2, 5])
def test_threads_that_share_one_example_give_its_outputs(threads: int) -> None:
    program = large_layers()
    batch = batch_for(program, 0, size=1)
    np.testing.assert_allclose(Session(program, threads)(batch), Session(program, 1)(batch), rtol=1e-5, atol=1e-3)


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_has_threads_of_its_own(tmp_path: Path) -> None:
    # In a process of its own: the test's has threads that a fork would not take along.
    large_layers().save(tmp_path / "net.sw")
    script = f"""
import os, signal
import numpy as np
from signwise import load
session = load({str(tmp_path / "net.sw")!r}, threads=3)
image = np.random.default_rng(0).standard_normal((1, 30, 32, 32)).astype(np.float32)
expected = session(image)
child = os.fork()
if child == 0:
    signal.alarm(60)
    same = np.array_equal(session(image), expected)
    del session
    os._exit(0 if same else 3)
assert np.array_equal(session(image), expected)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@needs_library
def test_an_empty_batch_has_no_outputs() -> None:
    program = small_program()
    assert Session(program)(np.empty((0, *program.input_shape))).shape == (0, 7)


@needs_library
def test_the_input_itself_may_be_the_output() -> None:
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=0)
    np.testing.assert_array_equal(Session(program)(np.array([[-1, 0, 2]])), [[-1, 0, 2]])


@needs_library
def test_a_nan_reaches_the_output() -> None:
    program = small_program()
    batch = batch_for(program, 0, size=1)
    batch[0, 0, 5, 5] = np.nan
    assert np.isnan(Session(program)(batch)).all()


@needs_library
def test_a_call_leaves_its_input_as_it_was() -> None:
    program = small_program()
    batch = batch_for(program, 0, size=3)
    before = batch.copy()
    Session(program)(batch)
    np.testing.assert_array_equal(batch, before)


@needs_library
def test_memory_for_values_is_reused() -> None:
    # A chain of many equal values needs the memory of two.
    program = Program(
        input_shape=(8, 16, 16), ops=tuple(ops.Relu(inputs=(i,)) for i in range(20)), tensors={}, output=20
    )
    session = Session(program)
    assert session.native is not None
    assert session.native.activation_bytes(1) <= 3 * 8 * 16 * 16 * 4
    for batch in (-1, 2**31):
        with pytest.raises(ValueError, match="a batch has 0 to"):
            session.native.activation_bytes(batch)


@needs_library
def test_binary_weights_take_little_more_than_a_bit() -> None:
    bits = np.zeros((256, 256 * 9 // 8), np.uint8)
    layer = ops.Conv(inputs=(0,), weight="w", bits=1, out_channels=256, kernel=(3, 3))
    program = Program(input_shape=(256, 8, 8), ops=(layer,), tensors={"w": bits}, output=1)
    session = Session(program)
    assert session.native is not None
    assert session.native.weight_bytes < 1.2 * bits.nbytes


def test_a_saved_program_is_loaded_and_run(tmp_path: Path) -> None:
    program = small_program()
    program.save(tmp_path / "net.sw")
    batch = batch_for(program, 1, size=2)
    found = load(tmp_path / "net.sw", threads=1)(batch)
    np.testing.assert_allclose(found, program.reference(batch), rtol=1e-4, atol=1e-3)


def test_without_the_library_numpy_computes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNWISE_LIBRARY", str(tmp_path / "absent.so"))
    program = small_program()
    batch = batch_for(program, 2, size=2)
    with pytest.warns(RuntimeWarning, match="without its native kernels"):
        session = Session(program)
    np.testing.assert_array_equal(session(batch), program.reference(batch))


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, 5000])
def test_a_thread_count_outside_its_range_is_refused_by_name(threads: Any) -> None:
    with pytest.raises(SignwiseError, match="threads must be an integer from 1 to 1024"):
        Session(small_program(), threads)


def test_an_input_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(SignwiseError, match=r"must have shape \(batch, 6, 11, 13\)"):
        Session(small_program())(np.zeros((6, 11, 13)))


@needs_library
def test_a_session_has_a_short_repr_with_its_threads_and_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNWISE_ISA", "portable")
    shown = repr(Session(small_program(), threads=2))
    assert shown.startswith("Session(Program((6, 11, 13) -> (7,), 4 operations,")
    assert shown.endswith("threads=2, isa=portable)")


class Doubling:
    """Not a program: the least that a session needs."""

    inputs = ((3,),)
    outputs = (1,)
    shapes = ((3,), (3,))
    types = ("float32", "float32")

    def as_inputs(self, inputs: Sequence[Array]) -> list[Array]:
        return [array.astype(np.float32) for array in inputs]

    def native_operations(self) -> list[native.Operation]:
        return [native.describe(4, (0, 0))]

    def reference(self, *inputs: Array) -> npt.NDArray[np.float32]:
        return 2 * self.as_inputs(inputs)[0]


def test_a_session_runs_whatever_describes_itself_to_the_library() -> None:
    np.testing.assert_array_equal(Session(Doubling(), threads=1)(np.array([[1, -2, 3]])), [[2, -4, 6]])


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 28, 28), r"a single one needs a batch: x\[None\]"),
        ((2, 28, 28, 1), r"channels come first: x.transpose\(0, 3, 1, 2\)"),
        ((28, 28, 1), r"x.transpose\(2, 0, 1\)\[None\]"),
        ((2, 3, 28, 28), r"got \(2, 3, 28, 28\)$"),
    ],
)
def test_a_wrong_shape_says_how_to_get_the_right_one(shape: Shape, hint: str) -> None:
    with pytest.raises(SignwiseError, match=hint):
        load("lenet5-mnist-1bit")(np.zeros(shape, np.uint8))


def test_images_in_0_to_1_for_a_program_of_raw_pixels_bring_one_warning(recwarn: pytest.WarningsRecorder) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28))
    load("lenet5-mnist-1bit")(images)
    load("lenet5-mnist-1bit")(images.astype(np.float32))
    load("lenet5-mnist-1bit")(np.zeros((1, 1, 28, 28)))
    assert not recwarn.list
    session = load("lenet5-mnist-1bit")
    with pytest.warns(UserWarning, match="raw pixels, 0 to 255: multiply them by 255"):
        session(images / 255)
    session(images / 255)
    assert not recwarn.list


def test_tensors_with_gradients_and_in_bfloat16_run_like_others() -> None:
    torch = pytest.importorskip("torch")
    images = torch.randint(0, 256, (2, 1, 28, 28)).float()
    session = load("lenet5-mnist-1bit")
    expected = session(images.numpy())
    assert np.array_equal(session(images.clone().requires_grad_()), expected)
    assert np.array_equal(session(images.bfloat16()), expected)  # 8 bits hold these pixels exactly
