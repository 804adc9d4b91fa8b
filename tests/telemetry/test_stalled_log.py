"""A log that can't be written is told by the metrics and the log's tail, which do not need it."""

import json
import logging
import os
import time
from collections.abc import Iterator

import pytest

from agentic_backend.kpi import Kpi
from agentic_backend.telemetry import JsonFormatter, LogTail, StderrHandler, stderr_handler

PATIENCE_S = 30


@pytest.fixture
def handler() -> Iterator[StderrHandler]:
    """On a full disk, as `configure_logging` adds it to the root."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    handler = StderrHandler(descriptor, JsonFormatter())
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)
    os.close(descriptor)


def value_of(kpi: Kpi, series: str) -> float:
    exposition = kpi.exposition("")[0].decode()
    [value] = [line.split()[1] for line in exposition.splitlines() if line.split()[0] == series]
    return float(value)


def test_a_full_disk_is_told(handler: StderrHandler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr_handler, "_STALLED_S", 0.1)
    kpi, tail = Kpi(), LogTail()
    assert value_of(kpi, "chat_log_lines_lost_total") == value_of(kpi, "chat_log_stalled_seconds") == 0
    with handler.in_background(), tail.attached():
        logging.getLogger("agentic_backend").warning("line")
        deadline = time.monotonic() + PATIENCE_S
        while "log not written" not in tail.text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        handler.put("x" * 5_000_000)
        assert value_of(kpi, "chat_log_stalled_seconds") > 0
        assert value_of(kpi, "chat_log_lines_lost_total") == 1
    [told] = [line for line in map(json.loads, tail.text().splitlines()) if line["message"] == "log not written"]
    assert told["reason"] == "OSError: [Errno 28] No space left on device"
