"""Methods that fuse weights for deployment raise while layers are binary, and are right once they are packed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import signwise as sw
from signwise.errors import SignwiseError


class TwoBranches(nn.Module):
    """A block like RepVGG's: a convolution and a batch norm in training, one convolution after ``reparameterize``."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.fused: nn.Conv2d | None = None

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.norm(self.conv(x)) if self.fused is None else self.fused(x)
        return outputs + x

    @torch.no_grad()
    def reparameterize(self) -> None:
        assert self.norm.running_mean is not None and self.norm.running_var is not None
        factor = self.norm.weight / (self.norm.running_var + self.norm.eps).sqrt()
        self.fused = nn.Conv2d(4, 4, 3, padding=1)
        self.fused.weight.copy_(self.conv.weight * factor.view(-1, 1, 1, 1))
        assert self.fused.bias is not None
        self.fused.bias.copy_(self.norm.bias - self.norm.running_mean * factor)


def binary_block() -> tuple[nn.Sequential, TwoBranches, Tensor]:
    torch.manual_seed(0)
    block = TwoBranches()
    model = nn.Sequential(block)
    x = torch.randn(8, 4, 6, 6)
    sw.binarize_(model, skip=None, example_input=x)
    model(x)  # moves the statistics of the norm
    return model.eval(), block, x


def test_reparameterizing_a_binary_block_is_refused_by_name() -> None:
    model, block, x = binary_block()
    before = model(x)
    with pytest.raises(SignwiseError, match=r"reparameterize\(\) of 0 would fuse the latents .*pack_\(model\) first"):
        block.reparameterize()
    assert torch.equal(model(x), before)
    TwoBranches().reparameterize()  # others of the class are free


def test_copies_of_a_binary_block_refuse_as_well() -> None:
    model, _, _ = binary_block()
    twins: list[Any] = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        with pytest.raises(SignwiseError, match="would fuse the latents"):
            twin[0].reparameterize()


def test_a_packed_block_reparameterizes_to_the_same_outputs() -> None:
    model, block, x = binary_block()
    binary = model(x)
    sw.pack_(model)
    block.reparameterize()
    assert block.fused is not None
    torch.testing.assert_close(model(x), binary, rtol=1e-4, atol=1e-5)


def test_a_block_that_stays_float_may_fuse() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1), TwoBranches())
    sw.binarize_(model, skip=["0", "2"])
    block = model[2]
    assert isinstance(block, TwoBranches)
    block.reparameterize()
