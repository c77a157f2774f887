"""Bars: one panel per quantity, binary networks in their own colour, every value written out."""

from __future__ import annotations

from matplotlib.colors import to_hex

from signwise.figures.bars import Bar, Panel, bars_figure
from signwise.figures.style import BINARY, FLOAT


def test_every_bar_has_its_length_its_text_and_the_colour_of_its_kind() -> None:
    bars = [
        Bar(label="32 bits", value=44.0, text="44.0", binary=False),
        Bar(label="1 bit", value=1.4, text="1.4", binary=True),
    ]
    first, second = bars_figure([Panel(title="MB", bars=bars), Panel(title="ms", bars=bars[:1])]).axes
    assert [to_hex(bar.get_facecolor()) for bar in first.patches] == [FLOAT, BINARY]
    assert [text.get_text() for text in first.texts] == ["44.0", "1.4"]
    assert [label.get_text() for label in first.get_yticklabels()] == ["32 bits", "1 bit"]
    assert len(second.patches) == 1
