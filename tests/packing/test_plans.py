from __future__ import annotations

import gc
import warnings

import pytest
import torch
from torch import nn

import signwise as sw
from signwise.packing import pack_, plans
from signwise.runtime import native


@pytest.fixture
def made(monkeypatch):
    """The programs that were prepared during the test."""
    prepared = []

    def counting(program, threads):
        prepared.append(program)
        return original(program, threads)

    original = plans.Session
    monkeypatch.setattr(plans, "Session", counting)
    if native.library() is None:
        pytest.skip("the native library is not built")
    return prepared


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 3))
    sw.binarize_(model)
    pack_(model)
    return model


def test_a_layer_is_prepared_once_for_each_shape_of_image_and_any_batch(made):
    model = network()
    for batch, size in ((1, 9), (5, 9), (1, 11), (2, 9), (3, 11)):
        model(torch.randn(batch, 3, size, size))
    assert len(made) == 2


def test_compiled_and_exported_models_use_what_is_prepared(made):
    model, examples = network(), torch.randn(2, 3, 9, 9)
    model(examples)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        exported = torch.export.export(model, (examples,)).module()
        for _ in range(2):
            compiled(examples)
            exported(examples)
    assert len(made) == 1


def test_few_shapes_stay_prepared(made):
    model = network()
    for size in range(7, 7 + 2 * plans.LARGEST_SHAPES):
        model(torch.randn(1, 3, size, size))
    assert len(plans._plans[model[2].bits]) == plans.LARGEST_SHAPES


def test_what_is_prepared_goes_with_the_layer(made):
    gc.collect()
    before = len(plans._plans)
    model = network()
    model(torch.randn(1, 3, 9, 9))
    assert len(plans._plans) == before + 1
    del model
    gc.collect()
    assert len(plans._plans) == before


def test_without_the_native_library_pytorch_computes(monkeypatch):
    model, examples = network(), torch.randn(2, 3, 9, 9)
    expected = model(examples)
    monkeypatch.setattr(plans.native, "library", lambda: None)
    torch.testing.assert_close(model(examples), expected, rtol=1e-4, atol=1e-4)
