"""Figures, one file each, all in the style of :mod:`signwise.figures.style`.

Every figure is drawn from records or run folders alone. matplotlib is imported when a figure is drawn, never before, so
that the base install, which does not have it, can import everything here.
"""

from __future__ import annotations

from signwise.figures.style import BINARY, FLOAT, MUTED, PALETTE, QUIET, save, styled, subplots

__all__ = ["BINARY", "FLOAT", "MUTED", "PALETTE", "QUIET", "save", "styled", "subplots"]
