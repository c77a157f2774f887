"""A packed file beside other engines that run the same network: time, memory, bytes.

network (both precisions) -> engines convert it -> measure (in isolation, then in turn) -> report
"""

from __future__ import annotations
