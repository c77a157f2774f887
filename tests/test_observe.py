"""One forward pass shows how a model uses its layers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from signwise.observe import observe

IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        (nn.Identity(), True),
        (nn.ReLU(inplace=True), True),
        (nn.LeakyReLU(0.1), True),
        (nn.MaxPool2d(2), True),
        (nn.AdaptiveAvgPool2d(2), True),
        (nn.ZeroPad2d(1), True),
        (nn.Dropout2d(), True),
        (nn.GELU(), False),
        (nn.Sigmoid(), False),
        (nn.Conv2d(8, 8, 1), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_norm_follows_through_functions_that_keep_the_scale(between: nn.Module, kept: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), between, nn.BatchNorm2d(8))
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d)}
    assert ("0" in observe(model, layers, IMAGES).normalized) is kept


class Joined(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3), norm

    def forward(self, image: Tensor) -> Tensor:
        return torch.as_tensor(self.norm(torch.cat((self.first(image), self.second(image)), 1)))


def test_only_a_norm_of_each_channel_undoes_the_scale_of_one_part_of_a_concatenation() -> None:
    for norm, expected in ((nn.BatchNorm2d(8), {"first", "second"}), (nn.GroupNorm(1, 8), set())):
        model = Joined(norm)
        layers: dict[str, nn.Module] = {"first": model.first, "second": model.second}
        seen = observe(model, layers, IMAGES)
        assert seen.normalized == expected
        assert seen.called == seen.reads_input == ["first", "second"]
