"""The operators as PyTorch's own tools see them, the kernels prepared for them, and the bits that they read."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import signwise as sw
from signwise.errors import SignwiseError
from signwise.packing import PackedConv2d, operators, pack_
from signwise.packing.operators import pack_signs, unpack_signs
from signwise.program import Program
from signwise.program import operations as ops
from signwise.runtime import native


def packed(layer: nn.Module) -> Any:
    sw.binarize_(layer, skip=None)
    pack_(layer)
    return layer


def packed_model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 16))
    sw.binarize_(model, skip=None, output_scale=sw.fan_in_scale)
    pack_(model)
    return model


def test_operators_keep_their_promises_to_pytorch() -> None:
    layer = packed(nn.Conv2d(3, 5, 3, padding=1))
    arguments = (torch.randn(2, 3, 6, 7), layer.bits, None, layer.bias, [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 1)
    torch.library.opcheck(torch.ops.signwise.packed_conv2d.default, arguments)
    layer = packed(nn.Linear(9, 5))
    torch.library.opcheck(torch.ops.signwise.packed_linear.default, (torch.randn(2, 9), layer.bits, None, layer.bias))


@pytest.mark.filterwarnings("ignore")
def test_export_sees_the_operators_with_a_free_batch_size() -> None:
    model = packed_model()
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (torch.randn(2, 3, 6, 6),), dynamic_shapes=({0: batch},))
    targets = [str(node.target) for node in exported.graph.nodes]
    assert "signwise.packed_conv2d.default" in targets and "signwise.packed_linear.default" in targets
    examples = torch.randn(5, 3, 6, 6)
    module: Any = exported.module
    torch.testing.assert_close(module()(examples), model(examples))


@pytest.mark.filterwarnings("ignore")
def test_compile_takes_the_whole_model_as_one_graph() -> None:
    model = packed_model()
    examples = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(examples), model(examples))


# The native kernels of each layer


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that the test prepares."""
    prepared: list[Program] = []

    def counting(program: Program, threads: int | None = None) -> sw.Session[Program]:
        prepared.append(program)
        return sw.Session(program, threads)

    monkeypatch.setattr(Program, "session", counting)
    if native.library() is None:
        pytest.skip("the native library is not built")
    return prepared


def packed_convolutions() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 3))
    sw.binarize_(model)
    pack_(model)
    return model


def test_a_layer_is_prepared_once_for_each_shape_of_image_and_any_batch(made: list[Program]) -> None:
    model = packed_convolutions()
    for batch, size in ((1, 9), (5, 9), (1, 11), (2, 9), (3, 11)):
        model(torch.randn(batch, 3, size, size))
    assert len(made) == 2


def test_compiled_and_exported_models_use_what_is_prepared(made: list[Program]) -> None:
    model, examples = packed_convolutions(), torch.randn(2, 3, 9, 9)
    model(examples)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        exported = torch.export.export(model, (examples,)).module()
        for _ in range(2):
            compiled(examples)
            exported(examples)
    assert len(made) == 1


def test_few_shapes_stay_prepared(made: list[Program]) -> None:
    model = packed_convolutions()
    for size in range(7, 7 + 2 * operators.LARGEST_SHAPES):
        model(torch.randn(1, 3, size, size))
    middle = model[2]
    assert isinstance(middle, PackedConv2d)
    assert len(operators._prepared[middle.bits]) == operators.LARGEST_SHAPES


def test_what_is_prepared_goes_with_the_layer(made: list[Program]) -> None:
    gc.collect()
    before = len(operators._prepared)
    model = packed_convolutions()
    model(torch.randn(1, 3, 9, 9))
    assert len(operators._prepared) == before + 1
    del model
    gc.collect()
    assert len(operators._prepared) == before


def test_without_the_native_library_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, examples = packed_convolutions(), torch.randn(2, 3, 9, 9)
    expected = model(examples)
    monkeypatch.setattr(native, "library", lambda: None)
    torch.testing.assert_close(model(examples), expected, rtol=1e-4, atol=1e-4)


# Signs as bits


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 4), terms=st.integers(1, 40))
def test_tensors_and_arrays_pack_to_the_same_bytes_and_back(seed: int, rows: int, terms: int) -> None:
    signs = np.where(np.random.default_rng(seed).random((rows, terms)) < 0.5, -1, 1)
    bits = pack_signs(torch.tensor(signs))
    np.testing.assert_array_equal(bits, ops.pack_signs(signs))
    np.testing.assert_array_equal(unpack_signs(bits, signs.shape), signs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_signs_come_back_in_the_requested_type(dtype: torch.dtype) -> None:
    signs = torch.tensor([[1, -1, 1, 1, -1, -1, 1, -1, 1]], dtype=dtype)
    unpacked = unpack_signs(pack_signs(signs), (1, 3, 3), dtype)
    assert unpacked.dtype == dtype and unpacked.shape == (1, 3, 3)
    assert torch.equal(unpacked.flatten(), signs[0])


def test_only_signs_can_be_packed() -> None:
    with pytest.raises(SignwiseError, match="only -1 and \\+1"):
        pack_signs(torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_weights_loaded_later_are_used_in_every_mode(mode: type[torch.no_grad], made: list[Program]) -> None:
    with mode():
        first, second = (
            nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)) for _ in range(2)
        )
        for model in (first, second):
            sw.binarize_(model, skip=None)
            pack_(model.eval())
        examples = torch.randn(2, 16)
        first(examples)
        count = len(made)
        first(examples)
        assert len(made) == count, "nothing is prepared again as long as nothing changes"
        first.load_state_dict(second.state_dict())
        torch.testing.assert_close(first(examples), second(examples), rtol=0, atol=0)
