"""The paper's tables and figures, from recorded runs.

    experiments -> plan -> launch (signwise train) -> from_run -> results/*.json -> tables, figures -> docs/results.md

A record is a small JSON file made from a finished run's folder. Everything after the records is rendered from them
alone: no number in the results is typed by hand, and rendering trains nothing.
"""

from __future__ import annotations
