"""WRN-28-10, a wide residual network with pre-activation, without dropout.

S. Zagoruyko and N. Komodakis, *Wide Residual Networks*, https://arxiv.org/abs/1605.07146. As in the paper that this
library implements, the first convolution has 64 filters instead of 16.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from signwise.models.shortcut import Shortcut


class PreActivationBlock(nn.Module):
    """y = shortcut(x) + conv(relu(norm(conv(relu(norm(x))))))."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu2 = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = Shortcut(inputs, outputs, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        branch = self.conv1(self.relu1(self.norm1(x)))
        branch = self.conv2(self.relu2(self.norm2(branch)))
        out: Tensor = branch + self.shortcut(x)
        return out


def wrn28_10(num_classes: int = 10) -> nn.Sequential:
    """WRN-28-10 for 32x32 images: four pre-activation blocks at each of 160, 320 and 640 channels.

    With all but its first and last layer binarized, it has 36,264,960 binary weights.

    Args:
        num_classes: the number of outputs.

    Returns:
        A model from (N, 3, 32, 32) to (N, num_classes).

    Example:
        >>> sum(parameter.numel() for parameter in wrn28_10(num_classes=100).parameters())
        36348836
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    inputs = 64
    for number, outputs in enumerate((160, 320, 640), start=1):
        first = PreActivationBlock(inputs, outputs, stride=1 if number == 1 else 2)
        stages[f"stage{number}"] = nn.Sequential(first, *(PreActivationBlock(outputs, outputs) for _ in range(3)))
        inputs = outputs
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(3, 64, 3, padding=1, bias=False),
            **stages,
            norm=nn.BatchNorm2d(inputs),
            relu=nn.ReLU(),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),  # (N, 640, 1, 1) -> (N, 640)
            dense=nn.Linear(inputs, num_classes),
        )
    )
