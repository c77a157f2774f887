"""What the paper's experiments would cost on one current GPU, by arithmetic that is shown.

    operations = 2 · 3 · MACs · images a step,   seconds = max(operations / (peak · utilization), floor),   per step

A multiply-add is two operations; the backward pass takes twice the forward pass, hence 3. The floor is the time that
the CPU takes to launch a step's kernels, below which a small network does not come. Evaluation, one test set an epoch
in the two forms of the weights, is small beside training and left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from signwise.reproduce.workload import total_steps
from signwise.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU and the assumptions under which its time is predicted.

    Args:
        name: of the model.
        peak: operations a second, dense, in ``precision``.
        precision: of the matrix products.
        source: where the peak is published.
        utilization: the fraction of the peak that training is assumed to reach.
        reason: for that assumption.
        floor: the least seconds that a step takes, also an assumption.
    """

    name: str
    peak: float
    precision: str
    source: str
    utilization: float
    reason: str
    floor: float


GPU = Gpu(
    name="NVIDIA H100 SXM",
    peak=989.4e12,
    precision="bfloat16",
    source="NVIDIA H100 Tensor Core GPU data sheet: 1,979 TFLOPS with sparsity, half of it dense",
    utilization=0.10,
    reason="images of 32x32 pixels leave a large GPU partly idle, and batch norm and the transform wait for memory",
    floor=0.005,
)


@dataclass(frozen=True, kw_only=True)
class GpuCost:
    """The predicted cost of a run.

    Args:
        steps: training steps.
        operations: in one of them.
        hours: on the GPU.
    """

    steps: int
    operations: float
    hours: float


def gpu_cost(recipe: Recipe, macs: int, gpu: Gpu = GPU) -> GpuCost:
    """Predict the time of a run.

    Args:
        recipe: the run.
        macs: multiply-adds of its network for one image.
        gpu: the GPU and the assumptions.

    Example:
        >>> from signwise.training import recipe
        >>> gpu_cost(recipe("lenet5-mnist"), macs=2_293_000).steps
        120000
    """
    steps = total_steps(recipe)
    operations = 2.0 * 3 * macs * recipe.batch_size
    seconds = max(operations / (gpu.peak * gpu.utilization), gpu.floor)
    return GpuCost(steps=steps, operations=operations, hours=steps * seconds / 3600)
