"""The bytes that summary counts are the bytes of the packed file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import signwise as sw

pytestmark = pytest.mark.slow

MODELS = {
    "lenet5": ((1, 28, 28), sw.last),
    "vgg_small": ((3, 32, 32), sw.first_and_last),
    "vgg_fast": ((3, 32, 32), sw.first_and_last),
    "resnet18": ((3, 32, 32), sw.first_and_last),
    "resnet20": ((3, 32, 32), sw.first_and_last),
    "wrn28_10": ((3, 32, 32), sw.first_and_last),
}


class OutOfOrder(nn.Module):
    """Registers its layers in another order than it runs them, and computes outside of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(32, 4)
        self.conv1 = nn.Conv2d(3, 16, 3)
        self.conv2 = nn.Conv2d(16, 32, 3)
        self.bn1 = nn.BatchNorm2d(16)
        self.bn2 = nn.BatchNorm2d(32)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.bn1(self.conv1(x / 255)).relu()
        scores: Tensor = self.head(self.bn2(self.conv2(hidden)).relu().mean((2, 3)))
        return scores


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODELS))
def test_the_papers_models_have_the_bytes_of_their_files_counted_or_estimated(name: str, tmp_path: Path) -> None:
    shape, skip = MODELS[name]
    model = sw.models.NAMES[name]().eval()
    report = sw.binarize_(model, skip=skip)
    program = sw.compile(model, torch.zeros(1, *shape))
    program.save(tmp_path / "net.sw")
    counted, estimated = sw.summary(model, torch.zeros(1, *shape)), sw.summary(model)
    assert counted.bytes_packed == estimated.bytes_packed == program.nbytes
    assert counted.file_bytes == (tmp_path / "net.sw").stat().st_size and estimated.file_bytes is None
    assert counted.binary_weights == estimated.binary_weights == report.binary_weights
    state = sum(tensor.nbytes for tensor in model.state_dict().values())
    assert counted.bytes_now == estimated.bytes_now == state
    if name in ("resnet18", "wrn28_10"):
        assert state / counted.file_bytes >= 30, "deep models become thirty times smaller on disk"


@pytest.mark.parametrize("method", [sw.GroupTransform(), sw.ScaledSign()])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_scales_and_biases_count_once_with_or_without_a_norm(method: sw.Method, bias: bool, norm: bool) -> None:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 5), (5, 7), (7, 4)):
        layers.append(nn.Conv2d(inputs, outputs, 3, bias=bias))
        layers += [nn.BatchNorm2d(outputs)] if norm else []
        layers.append(nn.ReLU())
    model = nn.Sequential(*layers).eval()
    sw.binarize_(model, method=method)
    example = torch.zeros(1, 3, 12, 12)
    packed = sw.compile(model, example).nbytes
    assert sw.summary(model).bytes_packed == sw.summary(model, example).bytes_packed == packed


def test_counted_bytes_are_right_whatever_the_order_of_registration() -> None:
    model = OutOfOrder().eval()
    sw.binarize_(model, skip=("conv1", "head"))
    example = torch.zeros(1, 3, 12, 12)
    program, sizes = sw.compile(model, example), sw.summary(model, example)
    assert sizes.bytes_packed == program.nbytes and sizes.file_bytes == len(program.encode())
    packed = {layer.name: layer.bytes_packed for layer in sizes.layers}
    assert packed["conv2"] == 32 * 18 + 2 * 32 * 4, "its bits, and the scale and bias of bn2"
    assert packed["bn1"] == packed["bn2"] == 0, "their layers have absorbed them"
    in_forward = [layer for layer in sizes.layers if layer.kind == "(in forward)"]
    assert [layer.bytes_packed for layer in in_forward] == [3 * 2 * 4], "the division by 255"
    assert sum(layer.bytes_now for layer in in_forward) == 0


def test_an_estimate_is_called_one_and_a_count_names_the_size_of_the_file() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)).eval()
    sw.binarize_(model, skip=sw.last)
    estimate, count = str(sw.summary(model)), str(sw.summary(model, torch.zeros(1, 64)))
    for text in (estimate, count):
        assert "BinaryLinear" in text and "BatchNorm1d" in text
        assert "4,096 of 4,938 parameters take one bit" in text
    assert "packed (estimate)" in estimate and "summary(model, example_input) counts the real bytes" in estimate
    assert "estimate" not in count.lower() and "The file takes" in count


def test_a_model_that_cannot_be_compiled_can_still_be_estimated() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(1, 2, 2), nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(sw.SignwiseError, match="conv_transpose3d"):
        sw.summary(model, torch.zeros(1, 1, 1, 1, 1))
    assert sw.summary(model).bytes_packed == 4 * (2 * 8 + 2 + 16 * 2 + 2)


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(8, 8, 3), nn.Linear(8, 8), nn.Conv1d(8, 8, 3, bias=False)],
    ids=lambda layer: type(layer).__name__,
)
def test_a_packed_model_counts_its_parameters_and_says_that_it_is_packed(layer: nn.Module) -> None:
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(8, 4))
    sw.binarize_(model, skip=sw.last)
    before = sw.summary(model)
    sw.pack_(model)
    after = sw.summary(model)
    assert (after.parameters, after.binary_weights) == (before.parameters, before.binary_weights)
    assert after.bytes_packed == before.bytes_packed and after.layers[0].shape == before.layers[0].shape
    assert "packed already" in str(after) and "times smaller" in str(before)
