"""One file per figure, all in the style of :mod:`signwise.figures.style`.

Figures are drawn from records and run folders alone. matplotlib is imported only when a figure is drawn, so that the
base install, which does not have it, can import everything here.
"""

from __future__ import annotations

from signwise.figures.style import BINARY, FLOAT, MUTED, PALETTE, QUIET, save, styled, subplots

__all__ = ["BINARY", "FLOAT", "MUTED", "PALETTE", "QUIET", "save", "styled", "subplots"]
