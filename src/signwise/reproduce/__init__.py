"""The paper's tables and figures, from recorded runs.

    experiments -> runs (training.train) -> records (JSON) -> tables, render (Markdown, CSV, figures)

A record is a small JSON file made from a finished run. Everything after the records is rendered from them alone: no
number in a table is typed by hand, and rendering trains nothing.
"""

from __future__ import annotations
