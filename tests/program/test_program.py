from __future__ import annotations

import copy
import pickle
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
from signwise.runtime.session import Session


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
