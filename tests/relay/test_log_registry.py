"""LogRegistry: what is kept for those who come back goes by itself."""

import gc
import weakref

import pytest
from support.recorded_agents import eventually

from agentic_backend.relay.log import log_registry
from agentic_backend.relay.log.log_registry import LogRegistry


async def test_a_log_goes_once_its_time_is_over_though_nothing_else_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_registry, "KEPT_S", 0.05)
    logs = LogRegistry(keep_ended_bytes=1_000_000, names=10)
    kept = weakref.ref(log := logs.new("s", "e", "ann"))
    logs.keep(log)
    del log
    gc.collect()
    assert kept() is not None
    await eventually(lambda: kept() is None)
