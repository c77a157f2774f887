"""The operators as PyTorch's own tools see them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import signwise as sw
from signwise.packing import pack_


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
