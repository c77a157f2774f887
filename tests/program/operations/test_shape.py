from __future__ import annotations

import pytest

from signwise.errors import FormatError
from signwise.program import operations as ops


@pytest.mark.parametrize(
    ("operation", "shapes", "expected"),
    [
        (ops.PadChannels(inputs=(0,), before=1, after=2), [(3, 4, 5)], (6, 4, 5)),
        (ops.PadChannels(inputs=(0,), before=0, after=2), [(3,)], (5,)),
        (ops.Flatten(inputs=(0,)), [(3, 4, 5)], (60,)),
        (ops.Concat(inputs=(0, 1, 0)), [(3, 4, 5), (2, 4, 5), (3, 4, 5)], (8, 4, 5)),
    ],
    ids=["images", "vectors", "flatten", "concat"],
)
def test_shapes_follow_from_the_inputs(
    operation: ops.Operation, shapes: list[tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    assert operation.output_shape(shapes) == expected


@pytest.mark.parametrize("count", [1, 65])
def test_a_concatenation_takes_2_to_64_values(count: int) -> None:
    with pytest.raises(FormatError, match="in must list 2 to 64 values"):
        ops.Concat(inputs=(0,) * count)


def test_a_negative_number_of_channels_is_refused() -> None:
    with pytest.raises(FormatError, match="after must be an integer from 0"):
        ops.PadChannels(inputs=(0,), before=0, after=-1)
