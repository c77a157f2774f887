"""Tables, durations and suggestions, as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signwise.text import aligned, duration, unknown_name


def test_the_first_column_is_left_aligned_and_the_numbers_right_aligned() -> None:
    table = aligned([("layer", "bytes"), ("conv1", "96"), ("classifier", "20,000")])
    assert table.splitlines() == ["layer        bytes", "conv1           96", "classifier  20,000"]


def test_columns_are_left_aligned_on_request_and_lines_end_without_spaces() -> None:
    table = aligned([("a", "kind"), ("bcd", "x")], left=(0, 1))
    assert table.splitlines() == ["a    kind", "bcd  x"]


def test_rows_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        aligned([("a", "b"), ("c",)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3599.5, "1 h 0 min"),
        (3 * 3600 + 5 * 60 + 59, "3 h 5 min"),
        (100 * 3600, "4 days 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(seconds=st.floats(0, 1e7))
def test_a_duration_never_shows_sixty_of_a_unit(seconds: float) -> None:
    assert "60" not in duration(seconds).split()[2:]


def test_an_unknown_name_suggests_the_nearest_known_one() -> None:
    assert unknown_name("recipe", "lenet5-mnits", ["resnet20-cifar10", "lenet5-mnist"]) == (
        "there is no recipe 'lenet5-mnits': did you mean lenet5-mnist?"
    )


def test_a_name_like_no_other_lists_them_all_in_order() -> None:
    known = (name for name in ("mnist", "cifar10"))  # also an iterator, read once
    assert unknown_name("data set", "?", known) == "there is no data set '?': choose from mnist, cifar10"
