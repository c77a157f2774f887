"""The networks of the inference benchmark, and the file of its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from signwise.bench.network import with_float_weights


@pytest.fixture(scope="module")
def inference(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("inference")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lenet5", "resnet20"])
def test_an_untrained_network_computes_the_outputs_of_its_model_with_signs(inference: ModuleType, name: str) -> None:
    built = inference.untrained(name)
    assert built.difference < 1e-5
    # Outputs neither vanish nor explode, or 8 bits would have nothing to round.
    outputs = built.network.float32.reference(built.network.examples)
    assert 0.05 < np.abs(outputs).max() < 50
    quantized = built.network.int8.reference(built.network.examples)
    assert np.abs(quantized - outputs).max() < 0.2 * np.abs(outputs).max()


def test_an_untrained_network_is_the_same_every_time(inference: ModuleType) -> None:
    first, second = (inference.untrained("lenet5").network.float32 for _ in range(2))
    assert all((first.tensors[name] == second.tensors[name]).all() for name in first.tensors)


def test_a_dense_layer_has_one_bit_per_weight(inference: ModuleType) -> None:
    built = inference.dense(64)
    assert built.state_dict_bytes == 4 * 64 * 64 == with_float_weights(built.network.float32).nbytes
    assert built.network.float32.nbytes == 64 * 64 // 8


def test_every_processor_has_its_own_file(inference: ModuleType) -> None:
    names = ("AMD EPYC", "AMD EPYC 9354 32-Core Processor", "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz")
    paths = [inference.record_path(Path("results"), name).name for name in names]
    assert paths == ["amd-epyc.json", "amd-epyc-9354-32-core-processor.json", "intel-core-i7-4770-cpu-3-40ghz.json"]


def test_a_run_of_some_networks_keeps_the_others_with_their_origin(inference: ModuleType) -> None:
    known = {"date": "2026-01-01", "revision": "a", "networks": {"unet": {"rows": 1}, "lenet5": {"rows": 2}}}
    newer = {"date": "2026-02-02", "revision": "b", "rows": 3}
    assert inference.merged(known, {"unet": newer}) == {
        "lenet5": {"date": "2026-01-01", "revision": "a", "rows": 2},
        "unet": newer,
    }
    assert list(inference.merged(known, {"unet": newer})) == ["lenet5", "unet"]
    assert inference.merged({}, {"unet": newer}) == {"unet": newer}


def test_every_operation_has_its_kind_output_and_time(inference: ModuleType) -> None:
    program = inference.untrained("lenet5").network.float32
    layers = inference.layer_times(program, 0.01)
    assert len(layers) == len(program.ops)
    assert [layer["output"] for layer in layers] == [list(shape) for shape in program.shapes[1:]]
    assert {"5x5, binary", "dense, float"} <= {layer["kind"] for layer in layers}
    assert 0 < sum(layer["seconds"] for layer in layers) < 1


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_every_integer_of_mobilenet_is_numpys_whether_an_activation_is_fused_or_not(
    inference: ModuleType, benchmark_script: Callable[[str], ModuleType], threads: int
) -> None:
    differential = benchmark_script("differential")
    network, counted = inference.untrained("mobilenet_v2").network, differential.Counted()
    examples = [np.asarray(network.examples[:2], np.float32)]
    differential.compare(network.int8, examples, threads, counted)
    assert counted.numbers > 10**6 and counted.at_an_edge < 10
