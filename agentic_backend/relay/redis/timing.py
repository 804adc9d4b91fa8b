"""How long Redis takes: each command is measured, and a slow one is told in the log."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics

log = logging.getLogger(__name__)

SLOW_S = 0.1
"""As the alert BroadcastSlow has it."""


@contextmanager
def timed(metrics: BroadcastMetrics, command: Literal["publish", "read", "heartbeat"]) -> Iterator[None]:
    """Measure the round trip inside; its errors pass."""
    began = time.perf_counter()
    with metrics.command(command):
        yield
    took_s = time.perf_counter() - began
    if took_s > SLOW_S:
        log.warning("the broadcast answers late", extra={"operation": command, "took_ms": round(took_s * 1000)})
