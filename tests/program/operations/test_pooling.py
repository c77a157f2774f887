from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from signwise.errors import FormatError
from signwise.program import Program
from signwise.program import operations as ops


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))])
def test_pools_equal_pytorch(kernel: ops.Pair, stride: ops.Pair, padding: ops.Pair, count_include_pad: bool) -> None:
    images = torch.tensor(np.random.default_rng(0).standard_normal((2, 3, 9, 8)).astype(np.float32))
    window: dict[str, Any] = {"inputs": (0,), "kernel": kernel, "stride": stride, "padding": padding * 2}

    def run(pool: ops.Pool) -> Any:
        return Program(input_shape=(3, 9, 8), ops=(pool,), tensors={}, output=1).reference(images.numpy())

    expected = F.max_pool2d(images, kernel, stride, padding)
    np.testing.assert_array_equal(run(ops.MaxPool(**window)), expected)
    expected = F.avg_pool2d(images, kernel, stride, padding, count_include_pad=count_include_pad)
    found = run(ops.AvgPool(**window, count_include_pad=count_include_pad))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_pool_whose_padding_could_fill_a_window_is_refused() -> None:
    with pytest.raises(FormatError, match="padding must be smaller than kernel"):
        ops.MaxPool(inputs=(0,), kernel=(2, 2), stride=(1, 1), padding=(2, 0, 0, 0))


@pytest.mark.parametrize(
    ("options", "read", "expected"),
    [
        ({"kernel": (2, 2)}, "uint6", 0.125),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1)}, "uint6", 0.125),
        ({"kernel": (2, 2), "padding": (0, 0, 1, 1), "count_include_pad": False}, "uint6", None),
        ({"kernel": (3, 2)}, "uint6", None),
        ({"kernel": (2, 2)}, "uint8", None),
        ({"kernel": (1, 1)}, "int8", None),
    ],
)
def test_a_mean_of_integers_is_exact_where_their_sum_fits_a_byte(
    options: dict[str, Any], read: Any, expected: float | None
) -> None:
    pool = ops.AvgPool(inputs=(0,), stride=(2, 2), **options)
    exact = pool.exact_result(ops.Quantized(type=read, scale=0.5))
    assert (None if exact is None else exact.scale) == expected
