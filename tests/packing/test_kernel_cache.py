from __future__ import annotations

import gc
import warnings

import pytest
import torch
from torch import nn

import signwise as sw
from signwise.packing import PackedConv2d, kernel_cache, pack_
from signwise.program import Program
from signwise.runtime import native


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


def packed_model() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 3))
    sw.binarize_(model)
    pack_(model)
    return model


def test_a_layer_is_prepared_once_for_each_shape_of_image_and_any_batch(made: list[Program]) -> None:
    model = packed_model()
    for batch, size in ((1, 9), (5, 9), (1, 11), (2, 9), (3, 11)):
        model(torch.randn(batch, 3, size, size))
    assert len(made) == 2


def test_compiled_and_exported_models_use_what_is_prepared(made: list[Program]) -> None:
    model, examples = packed_model(), torch.randn(2, 3, 9, 9)
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
    model = packed_model()
    for size in range(7, 7 + 2 * kernel_cache.LARGEST_SHAPES):
        model(torch.randn(1, 3, size, size))
    middle = model[2]
    assert isinstance(middle, PackedConv2d)
    assert len(kernel_cache._prepared[middle.bits]) == kernel_cache.LARGEST_SHAPES


def test_what_is_prepared_goes_with_the_layer(made: list[Program]) -> None:
    gc.collect()
    before = len(kernel_cache._prepared)
    model = packed_model()
    model(torch.randn(1, 3, 9, 9))
    assert len(kernel_cache._prepared) == before + 1
    del model
    gc.collect()
    assert len(kernel_cache._prepared) == before


def test_without_the_native_library_pytorch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, examples = packed_model(), torch.randn(2, 3, 9, 9)
    expected = model(examples)
    monkeypatch.setattr(native, "library", lambda: None)
    torch.testing.assert_close(model(examples), expected, rtol=1e-4, atol=1e-4)


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
