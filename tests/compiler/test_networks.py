"""The networks that people have: compiled, saved and loaded they equal PyTorch, and with one bit they train."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import signwise as sw
from signwise.program import Program, reference
from signwise.program import operations as ops


def script(name: str) -> Any:
    """A module of ``benchmarks/``, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


small, stepwise = script("small_networks"), script("differential")


def relative_error(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", small.NETWORKS)
def test_a_binary_network_learns_a_real_task_and_equals_pytorch_as_a_file(name: str, tmp_path: Path) -> None:
    network = small.NETWORKS[name]
    trained = small.train(network)
    assert np.mean(trained.losses[-10:]) < 0.95 * np.mean(trained.losses[:10]), trained.losses

    model, x = trained.model, network.task(16, seed=1, test=True)[0]
    assert sw.can_compile(model, x[:2]) == []
    sw.compile(model, x[:2]).save(tmp_path / "net.sw")
    program = Program.load(tmp_path / "net.sw")
    assert any(isinstance(operation, ops.Weighted) and operation.bits == 1 for operation in program.ops)
    expected = model(x).detach().numpy()
    given = small.as_array(x)
    assert relative_error(program(given), expected) < 1e-4
    quantized = program.quantize(given)
    assert any(operation.out is not None for operation in quantized.ops)
    assert np.abs(quantized(given) - expected).mean() < 0.05 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", small.NETWORKS)
def test_every_8_bit_integer_is_the_nearest_one_to_what_numpy_computes(name: str) -> None:
    """From the library's own inputs of each operation: off by one at an edge between two integers, and nowhere else."""
    program, given = small.untrained(small.NETWORKS[name], examples=8)
    counted = stepwise.Counted()
    stepwise.compare(program.quantize(given), [given[:4]], 2, counted, bound=1e-5)
    assert counted.at_an_edge < 1e-3 * counted.numbers


def eight_bit_u_net(seed: int) -> tuple[Program, Any]:
    torch.manual_seed(seed)
    model, x = small.UNet(bilinear=True), torch.randn(8, 3, 32, 32)
    sw.binarize_(model, example_input=x[:2])
    optimizer, target = torch.optim.Adam(model.parameters(), lr=3e-3), torch.rand(model(x).shape)
    for _ in range(8):
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return sw.compile(model.eval(), x[:2]).quantize(x.numpy()), x.numpy()


ROUNDING = 2e-6  # of the largest number: what float32 sums of some hundred terms are off by


@pytest.mark.parametrize("seed", [0, 1])
def test_8_bit_outputs_of_a_u_net_part_from_numpy_at_an_edge_between_two_integers(seed: int) -> None:
    """Some pixels differ by 2e-3, though every operation is right for its inputs to the last digits of float32.

    In numpy and in the library, the numbers before the first 8-bit value differ by rounding. Where one lies at an edge
    between two integers, the integers differ, and so does what follows from them.
    """
    program, x = eight_bit_u_net(seed)
    counted = stepwise.Counted()
    stepwise.compare(program, [x], 1, counted, bound=ROUNDING)
    assert counted.at_an_edge <= 1e-5 * counted.numbers
    found, exact = stepwise.all_values(program, [x], 1), dict(reference.values(program.ops, program.tensors, [x]))
    for index, operation in enumerate(program.ops):
        if operation.out is None:
            continue
        differing = np.rint(found[1 + index] / operation.out.scale) != exact[1 + index]
        if differing.any():
            read = [exact[value] * (1.0 if out is None else out.scale)
                    for value in operation.inputs for out in [reference.out_of(program.ops, value - 1)]]  # fmt: skip
            numbers = operation.evaluate([part.astype(np.float64) for part in read], program.tensors)
            edges = np.abs(numbers[differing] / operation.out.scale % 1 - 0.5)
            assert edges.max() <= ROUNDING * np.abs(numbers).max() / operation.out.scale
            return
    assert relative_error(program(x), program.reference(x)) < 1e-5, "the same integers, but other outputs"


def test_the_comparison_step_by_step_sees_a_resize_that_is_off_by_a_thousandth(monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = eight_bit_u_net(0)
    wrong = [
        replace(operation, ratios=(operation.ratios[0] * (1 + 2**-10), operation.ratios[1]))
        if isinstance(operation, ops.Resize)
        else operation
        for operation in program.ops
    ]
    assert wrong != list(program.ops)
    changed = Program(inputs=program.inputs, ops=wrong, tensors=program.tensors, outputs=program.outputs)
    all_values = stepwise.all_values
    monkeypatch.setattr(stepwise, "all_values", lambda _, *how: all_values(changed, *how))
    with pytest.raises(AssertionError, match="Resize"):
        stepwise.compare(program, [x], 1, stepwise.Counted(), bound=ROUNDING)


def test_every_obstacle_is_listed_at_once_with_module_operator_and_way_out() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum, self.conv = Sums(), nn.Conv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sort(self.sum(self.conv(x)), -1)[0]

    class Sums(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumprod(-1)

    obstacles = sw.can_compile(Odd(), torch.randn(1, 3, 8, 8))
    assert [(found.module, found.operator) for found in obstacles] == [("sum", "cumprod"), ("", "sort")]
    assert all("signwise.pack_" in found.way_out for found in obstacles)
    assert "with numpy" in obstacles[1].way_out
    with pytest.raises(sw.SignwiseError, match=r"(?s)2 parts of the model.*cumprod in module 'sum'.*sort in the model"):
        sw.compile(Odd(), torch.randn(1, 3, 8, 8))


def test_an_example_that_the_model_does_not_take_is_named_as_the_reason() -> None:
    with pytest.raises(sw.SignwiseError, match=r"the model does not take example_input, of shape \[2, 4, 8, 8\]"):
        sw.compile(nn.Conv2d(3, 4, 3), torch.randn(2, 4, 8, 8))


class Outputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor | None]:
        found = self.embed(tokens) * mask[:, :, None].float()
        return {"hidden": found, "cache": None, "best": found.argmax(-1)}


@pytest.mark.parametrize("by_name", [False, True])
def test_several_inputs_and_outputs_keep_their_order_and_types(by_name: bool) -> None:
    model, tokens, mask = Outputs().eval(), torch.randint(0, 9, (3, 5)), torch.ones(3, 5, dtype=torch.long)
    mask[:, 3:] = 0
    example: Any = {"mask": mask, "tokens": tokens} if by_name else (tokens, mask)
    program = sw.compile(model, example)
    assert [given.type for given in program.inputs] == ["int32", "float32"]
    hidden, best = program(tokens.numpy(), mask.numpy())
    expected = model(tokens, mask)
    np.testing.assert_allclose(hidden, expected["hidden"].detach(), rtol=1e-6)
    np.testing.assert_array_equal(best, expected["best"])
    assert best.dtype == np.int32


@pytest.mark.parametrize("norm_first", [False, True])
def test_pytorch_s_own_encoder_layer_compiles(norm_first: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    x = torch.randn(3, 5, 16)
    program = sw.compile(layer, x)
    assert relative_error(program(x.numpy()), layer(x).detach().numpy()) < 1e-5


def test_binary_activations_become_signs_with_thresholds_in_one_byte() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), sw.BinaryActivation("learned", channels=8),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), sw.ShiftedPReLU(8), nn.Flatten(), nn.Linear(8 * 36, 4),
    )  # fmt: skip
    sw.binarize_(model)
    nn.init.normal_(model.get_parameter("2.shift"))
    model.eval()
    x = torch.randn(4, 3, 6, 6)
    program = sw.compile(model, x)
    kinds = [operation.kind for operation in program.ops]
    assert kinds == ["conv", "sign", "conv", "prelu", "affine", "flatten", "dense"]
    assert relative_error(program(x.numpy()), model(x).detach().numpy()) < 1e-5
    quantized = program.quantize(x.numpy())
    assert quantized.ops[1].out == ops.Quantized(type="int8", scale=1.0)
    assert relative_error(quantized(x.numpy()), model(x).detach().numpy()) < 1e-5, "signs lose nothing in 8 bits"
