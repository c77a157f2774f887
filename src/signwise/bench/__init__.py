"""A packed file beside other engines that run the same network: time, memory, bytes.

network (both precisions) -> engines convert it -> isolated (memory, crashes) -> timing -> measure -> report
"""

from __future__ import annotations
