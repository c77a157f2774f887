"""The first ten minutes: train a small network with 1 and with 32 bits, pack both, run them, and compare.

    recipes -> side_by_side (two processes) -> finish: compile, measure without PyTorch, table and figure

A tour of the library on the embedded MNIST, not an experiment of the paper: that is ``signwise train lenet5-mnist``.
"""

from __future__ import annotations
