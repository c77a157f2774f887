from __future__ import annotations

import numpy as np
import pytest
import torch

from signwise.compiler.builder import Call, Constant, Draft, Layout, UnsupportedError, Value
from signwise.errors import FormatError
from signwise.program import operations as ops
from signwise.program.checks import Input

VECTOR = Layout((1, 3), 0)


def chain(*names: str) -> Draft:
    """ReLUs one after the other, each from a module of its own."""
    draft = Draft((3,))
    for name in names:
        draft.output = draft.add(ops.Relu(inputs=(draft.output,)), name)
    return draft


def test_values_are_numbered_in_the_order_of_their_operations() -> None:
    draft = chain("a", "b")
    assert list(draft.ops) == [1, 2] and draft.names == {1: "a", 2: "b"} and draft.shape(2) == (3,)


def test_an_operation_that_does_not_fit_its_inputs_is_refused_at_once() -> None:
    with pytest.raises(FormatError, match="needs an image"):
        chain("a").add(ops.GlobalPool(inputs=(1,)), "pool")


def test_readers_and_the_output_follow_a_redirection() -> None:
    draft = chain("a", "b")
    draft.redirect(1, 0)
    draft.remove(1)
    assert draft.ops[2].inputs == (0,)
    draft.redirect(2, 0)
    assert draft.output == 0


def test_only_a_value_inside_the_program_that_is_read_once_has_one_reader() -> None:
    draft = chain("a", "b")
    assert draft.has_one_reader(1)
    assert not draft.has_one_reader(0), "the input"
    assert not draft.has_one_reader(2), "the output"
    draft.output = draft.add(ops.Add(inputs=(1, 2)), "sum")
    assert not draft.has_one_reader(1), "two readers"


def test_operations_whose_result_nothing_reads_are_left_out_and_numbers_become_dense() -> None:
    draft = chain("a", "b", "c")
    unused = draft.add(ops.Relu(inputs=(1,)), "unused")
    draft.output = draft.add(ops.Add(inputs=(1, 3)), "sum")
    assert unused in draft.ops
    program = draft.finish({"about": "it"})
    assert [operation.inputs for operation in program.ops] == [(0,), (1,), (2,), (1, 3)]
    assert program.output == 4 and dict(program.about) == {"about": "it"}


def test_tensors_are_named_by_module_and_attribute_and_numbered_where_that_repeats() -> None:
    draft = Draft((3,))
    call = Call(draft, "norm", (VECTOR,))
    first = call.affine(0, np.ones(3), np.zeros(3))
    draft.output = call.affine(first.number, np.full(3, 2.0), np.ones(3)).number
    program = draft.finish({})
    assert list(program.tensors) == ["norm.bias", "norm.bias.2", "norm.scale", "norm.scale.2"]
    assert program.tensors["norm.scale.2"].tolist() == [2, 2, 2]
    assert all(tensor.dtype == np.float32 for tensor in program.tensors.values())


def test_a_weight_that_two_calls_share_is_stored_once() -> None:
    draft = Draft((3,))
    weight = Constant(torch.tensor([[1.0, -1, 1], [1, 1, -1], [-1, 1, 1]]), "shared.weight", is_signs=True)
    for _ in range(2):
        tensors = Call(draft, "shared", (VECTOR,)).layer_tensors(weight, None)
        draft.output = draft.add(ops.Dense(inputs=(draft.output,), out_features=3, in_features=3, **tensors), "shared")
    assert list(draft.finish({}).tensors) == ["shared.weight"]


def test_the_signs_of_a_binary_layer_are_no_numbers() -> None:
    with pytest.raises(UnsupportedError, match="reads the weight of a binary layer directly"):
        Constant(torch.ones(2), "weight", is_signs=True).numbers()


def test_a_call_refuses_weights_that_depend_on_the_input_and_makes_values_of_constants() -> None:
    draft = Draft((3,))
    call = Call(draft, "module", (VECTOR,))
    assert call.value(Value(0, VECTOR)) == 0
    number = call.value(Constant(torch.ones(1, 3), "constant"))
    assert isinstance(draft.ops[number], ops.Constant) and draft.shape(number) == (3,)
    with pytest.raises(UnsupportedError, match="weights depend on the input"):
        call.constant(Value(0, VECTOR))


def test_a_layout_leaves_the_batch_out_wherever_it_is() -> None:
    assert Layout((10, 1, 24), 1).shape == (10, 24) and Layout((10, 1, 24), 1).axis(-1) == 1
    heads = Layout((4, 10, 6), 0)
    assert heads.merged and heads.shape == (4, 10, 6) and heads.axes([-1, 1]) == (1, 2)
    with pytest.raises(UnsupportedError, match="across the examples of a batch"):
        heads.axis(0)


def test_a_constant_beside_a_value_loses_the_dimension_of_the_batch() -> None:
    assert Constant(torch.ones(1, 3), "c").example(VECTOR).shape == (3,)
    assert Constant(torch.ones(3), "c").example(VECTOR).shape == (3,)
    assert Constant(torch.ones(2, 3), "c", layout=VECTOR).example(VECTOR).shape == (3,)
    with pytest.raises(UnsupportedError, match="other numbers for every example"):
        Constant(torch.ones(2, 3), "c").example(VECTOR)


def test_whole_numbers_become_float32_where_the_program_only_computes_with_them() -> None:
    draft = Draft(Input(shape=(3,), type="int32"))
    call = Call(draft, "module", (VECTOR,))
    assert call.value(Value(0, VECTOR), whole_numbers=True) == 0
    draft.output = draft.add(ops.Relu(inputs=(call.value(Value(0, VECTOR)),)), "relu")
    draft.settle()
    assert not draft.is_integer(0) and [type(operation) for operation in draft.finish({}).ops] == [ops.Relu]


def test_whole_numbers_that_are_also_looked_up_are_read_from_a_table_as_long() -> None:
    draft = Draft(Input(shape=(3,), type="int32"))
    call = Call(draft, "module", (VECTOR,))
    computed = draft.add(ops.Relu(inputs=(call.value(Value(0, VECTOR)),)), "relu")
    draft.tensor("table", np.ones((7, 2)))
    draft.outputs = [computed, draft.add(ops.Embedding(inputs=(0,), weight="table", rows=7, width=2), "table")]
    draft.settle()
    program = draft.finish({})
    assert program.inputs[0].type == "int32"
    assert np.array_equal(program.reference(np.array([[0, 6, 3]], np.int32))[0], [[0, 6, 3]])
