from __future__ import annotations

import copy
import pickle
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import signwise as sw
from signwise.errors import SignwiseError
from signwise.program import Program
from signwise.program import operations as ops
from signwise.program import program as program_module
from signwise.program.measures import error_rate, error_text
from signwise.runtime.session import Session

sample: Program = runpy.run_path(str(Path(__file__).parents[1] / "fuzz_file.py"))["sample_program"]()


def conv(**changes: Any) -> ops.Conv:
    defaults = {"inputs": (0,), "weight": "weight", "bits": 1, "out_channels": 4, "kernel": (3, 3)}
    return ops.Conv(**{**defaults, **changes})


def program(**changes: Any) -> Program:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    defaults = {"input_shape": (3, 8, 8), "ops": (conv(),), "tensors": tensors, "output": 1}
    return Program(**{**defaults, **changes})


def test_tensors_cannot_be_changed_behind_the_program() -> None:
    tensors = {"weight": np.zeros((4, 4), np.uint8)}
    made = program(tensors=tensors)
    with pytest.raises(ValueError, match="read-only"):
        made.tensors["weight"][0] = 1
    tensors.clear()
    assert "weight" in made.tensors


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8), (2, 3, 8, 9), (), (1, 2, 3, 8, 8)])
def test_an_input_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SignwiseError, match=r"must have shape \(batch, 3, 8, 8\), got"):
        program().as_input(np.zeros(shape))


def test_an_input_that_is_no_number_is_refused() -> None:
    with pytest.raises(SignwiseError, match="real numbers, got complex128"):
        program().as_input(np.zeros((1, 3, 8, 8), complex))


def test_a_program_has_a_short_repr() -> None:
    assert repr(program()) == "Program((3, 8, 8) -> (4, 6, 6), 1 operation, 108 weights, 16 bytes)"


def test_calling_and_running_a_program_give_the_outputs_of_the_reference() -> None:
    images = np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    made = program()
    for found in (made(images), made.run(images, threads=1), made.run(images), made.session(2)(images)):
        np.testing.assert_allclose(found, made.reference(images), rtol=1e-4, atol=1e-4)


def test_running_a_program_prepares_one_session_per_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int | None] = []

    def counting(made: Program, threads: int | None = None) -> Session[Program]:
        prepared.append(threads)
        return Session(made, threads)

    monkeypatch.setattr(program_module, "Session", counting)
    monkeypatch.setenv("SIGNWISE_THREADS", "1")
    made, images = program(), np.zeros((1, 3, 8, 8))
    for threads in (None, 1, None, 2, 2):
        made.run(images, threads)
    assert prepared == [1, 2]


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, 5000])
def test_a_thread_count_outside_its_range_is_refused_by_name(threads: Any) -> None:
    with pytest.raises(SignwiseError, match="threads must be an integer from 1 to 1024"):
        program().run(np.zeros((1, 3, 8, 8)), threads)


def test_text_about_a_program_is_added_and_replaced() -> None:
    made = program(about={"a": "1", "b": "2"}).with_about({"b": "3", "c": "4"})
    assert dict(made.about) == {"a": "1", "b": "3", "c": "4"}


def test_the_error_is_the_share_of_images_whose_largest_output_is_not_at_their_label() -> None:
    same = Program(input_shape=(2,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    images: npt.NDArray[np.int64] = np.array([[0, 1], [1, 0], [3, 2], [0, 9]])
    assert same.error(images, np.array([1, 0, 0, 0]), threads=1, batch_size=3) == 0.25


def test_a_shipped_program_loads_by_its_name_and_a_file_by_its_path(tmp_path: Path) -> None:
    by_name = sw.load("lenet5-mnist-1bit", threads=1)
    by_name.program.save(tmp_path / "net.sw")
    by_path = sw.load(tmp_path / "net.sw", threads=1)
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28))
    np.testing.assert_array_equal(by_name(images), by_path(images))
    assert isinstance(by_name, sw.Session) and isinstance(by_name.program, sw.Program)
    assert sw.runtime.load is sw.load


def test_a_misspelled_shipped_program_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        SignwiseError, match=r"no file or shipped program 'lenet5-mnist': did you mean lenet5-mnist-1bit\?"
    ):
        sw.load("lenet5-mnist")


# Rows


def test_the_bytes_of_the_rows_add_up_to_those_of_the_tensors() -> None:
    rows = sample.rows()
    assert [row.value for row in rows] == list(range(1, len(sample.ops) + 1))
    assert sum(row.bytes for row in rows) == sample.nbytes


def test_a_row_names_the_module_that_its_tensors_came_from() -> None:
    row = sample.rows()[2]
    assert (row.op, row.layer, row.shape, row.type, row.bits, row.weights) == (
        "conv",
        "block",
        (4, 9, 8),
        "uint8",
        1,
        72,
    )
    assert sample.rows()[3].layer == "" and sample.rows()[3].bits is None


def test_a_shared_weight_counts_once_and_its_second_use_keeps_its_module() -> None:
    layer = {"weight": "block.conv.weight", "bits": 1, "out_features": 8, "in_features": 8}
    program = Program(
        input_shape=(8,),
        ops=(
            ops.Dense(inputs=(0,), scale="block.conv.scale", **layer),  # type: ignore[arg-type]
            ops.Dense(inputs=(1,), scale="block.conv.scale.2", **layer),  # type: ignore[arg-type]
        ),
        tensors={
            "block.conv.weight": np.zeros((8, 1), np.uint8),
            "block.conv.scale": np.ones(8, np.float32),
            "block.conv.scale.2": np.ones(8, np.float32),
        },
        output=2,
    )
    assert [(row.layer, row.bytes) for row in program.rows()] == [("block.conv", 40), ("block.conv", 32)]


# Error rates


def test_anything_that_scores_batches_can_be_evaluated() -> None:
    sizes = []

    def scores(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        sizes.append(len(images))
        return images

    images = np.eye(4)[[0, 1, 2, 3, 0]]
    assert error_rate(scores, images, np.array([0, 1, 2, 2, 1]), batch_size=2) == pytest.approx(0.4)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize(("images", "labels"), [(3, 2), (0, 0)])
def test_images_without_labels_are_refused(images: int, labels: int) -> None:
    with pytest.raises(SignwiseError, match=f"as many labels as images are needed, got {labels} and {images}"):
        error_rate(lambda batch: batch, np.zeros((images, 4)), np.zeros(labels))


def test_outputs_that_are_no_vectors_of_scores_are_refused() -> None:
    with pytest.raises(SignwiseError, match=r"one vector of scores per image, got shape \(3, 4\)"):
        error_rate(lambda batch: batch, np.zeros((2, 3, 4)), np.zeros(2))


def test_an_error_is_shown_in_percent_of_the_examples() -> None:
    assert error_text(1 / 3, 60) == error_text(1 / 3, 60, 60) == "33.33 % of 60 examples"
    assert error_text(1 / 3, 60, 90) == "33.33 % of the first 60 of 90 examples"


def test_a_copy_is_the_program_itself_and_a_pickle_comes_back_equal() -> None:
    first = Program(input_shape=(2,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1, about={"name": "relu"})
    assert copy.copy(first) is first and copy.deepcopy(first) is first
    assert pickle.loads(pickle.dumps(first)).encode() == first.encode()


def test_an_unaligned_batch_is_aligned_before_it_reaches_the_kernels() -> None:
    program = Program(input_shape=(3,), ops=(ops.Relu(inputs=(0,)),), tensors={}, output=1)
    unaligned = np.ndarray((2, 3), np.float32, buffer=bytearray(32), offset=1)
    unaligned[:] = [[1, -2, 3], [-4, 5, 6]]
    assert not unaligned.flags.aligned and program.as_input(unaligned).flags.aligned
    np.testing.assert_array_equal(program(unaligned), [[1, 0, 3], [0, 5, 6]])
