"""Every figure, drawn from records and run folders alone, and the style that all of them share.

The style has few colours, thin lines, no decoration, and gives the same bytes every time:

    @styled
    def error_figure(steps, errors):
        figure, axes = subplots(1, 2, width=8, height=3)
        axes[0, 0].plot(steps, errors, color=BINARY)
        return figure

    save(error_figure(steps, errors), Path("error.svg"))

Colours keep their meaning from figure to figure: :data:`BINARY` is a network with binary weights, :data:`FLOAT` its
full-precision baseline, :data:`MUTED` anything else. The palette is that of Okabe and Ito, darkest first: it works for
all kinds of colour vision and in grey print.

matplotlib is imported only when a figure is drawn, so that the base install, which does not have it, can import
everything here.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from signwise.atomic import atomic_write
from signwise.errors import SignwiseError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINARY = "#0072b2"
FLOAT = "#d55e00"
MUTED = "#8c8c8c"
QUIET = "#e3e3e3"
# For more than two lines of one kind, in this order.
PALETTE = (BINARY, FLOAT, "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

_INK = "#222222"
_SETTINGS: Any = {  # matplotlib's type lists hundreds of names, which vary between versions
    "font.family": "DejaVu Sans",  # the one font that matplotlib always ships
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelcolor": _INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": QUIET,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "savefig.dpi": 150,
    "svg.fonttype": "path",  # looks the same everywhere
    "svg.hashsalt": "signwise",  # the ids in the file are random otherwise
}
_FORMATS = (".png", ".svg")

Parameters = ParamSpec("Parameters")
Drawn = TypeVar("Drawn")


def styled(draw: Callable[Parameters, Drawn]) -> Callable[Parameters, Drawn]:
    """Apply the common style while a function draws, and leave the rest of the program its own."""

    @functools.wraps(draw)
    def drawn(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Drawn:
        import matplotlib as mpl

        with mpl.rc_context(_SETTINGS):
            return draw(*arguments, **keywords)

    return drawn


def subplots(rows: int = 1, columns: int = 1, *, width: float = 7.0, height: float = 3.0) -> tuple[Figure, Any]:
    """Create a figure with a grid of axes in the common style; nothing overlaps.

    Args:
        rows: number of rows.
        columns: number of columns.
        width: width of the whole figure in inches.
        height: height of the whole figure in inches.

    Returns:
        The figure and a (rows, columns) array of axes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Figure instead of pyplot: needs no display, and leaves no figure in a global list.
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False)


def set_few_ticks_(axis: Any, count: int) -> None:
    """Place at most ``count`` ticks, at whole numbers only: for epochs and steps."""
    from matplotlib.ticker import MaxNLocator

    # One tick is enough for a single epoch: by default there are two, at fractions.
    axis.set_major_locator(MaxNLocator(nbins=count, integer=True, min_n_ticks=1))


def svg_text(figure: Figure) -> str:
    """A figure as the text of an SVG file, for a page that holds its pictures."""
    return _encoded(figure, ".svg").decode()


def _encoded(figure: Figure, suffix: str, about: str | None = None) -> bytes:
    import matplotlib as mpl

    metadata: dict[str, str | None] = {"Date": None, "Creator": None} if suffix == ".svg" else {"Software": None}
    if about is not None:
        metadata["Description"] = about
    buffer = io.BytesIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(buffer, format=suffix[1:], metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, path: Path, about: str | None = None) -> None:
    """Write a figure atomically as PNG or SVG, depending on the file name; creates missing folders.

    The same figure gives the same bytes: the file contains neither the date nor matplotlib's version.

    Args:
        figure: the figure.
        path: the file.
        about: a description to embed as metadata, such as the origin of the data.

    Raises:
        SignwiseError: the name has another ending, or the file cannot be written.
    """
    if path.suffix not in _FORMATS:
        raise SignwiseError(f"a figure is saved as {' or '.join(_FORMATS)}, got {path.name!r}")
    content = _encoded(figure, path.suffix, about)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise SignwiseError(f"cannot write {path}: {error.strerror or error}") from error
