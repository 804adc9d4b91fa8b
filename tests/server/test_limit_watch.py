"""The lines about memory and threads: one when the limit gets near, one when it is so no longer."""

import logging
from collections import Counter

import pytest

from agentic_backend.kpi.limits.limit_use import LimitUse
from agentic_backend.server.limit_watch import LimitWatch


def told(caplog: pytest.LogCaptureFixture, *used: int | None) -> list[tuple[str, int]]:
    """What is logged while a process with a limit of 1,000 bytes uses so many; None: it has no limit."""
    uses = iter([None if each is None else LimitUse(each, 1000) for each in used])
    watch = LimitWatch(lambda: next(uses), lambda: (None, Counter()))
    with caplog.at_level(logging.INFO, logger="agentic_backend.server.limit_watch"):
        for _ in used:
            watch.look()
    return [(record.message, getattr(record, "used_bytes", 0)) for record in caplog.records]


NEAR, OVER = "memory near its limit", "memory no longer near its limit"


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        ((100, 900), []),
        ((None, None), []),
        ((100, 901, 950, 999), [(NEAR, 901)]),
        ((901, 860, 901, 840, 100), [(NEAR, 901), (OVER, 840)]),
        ((950, 100, 950), [(NEAR, 950), (OVER, 100), (NEAR, 950)]),
        ((950, None), [(NEAR, 950), (OVER, 0)]),
    ],
)
def test_the_log_has_one_line_when_the_limit_gets_near_and_one_when_that_is_over(
    caplog: pytest.LogCaptureFixture, used: tuple[int | None, ...], lines: list[tuple[str, int]]
) -> None:
    assert told(caplog, *used) == lines


def test_the_line_about_threads_names_the_agents_that_hold_most(caplog: pytest.LogCaptureFixture) -> None:
    uses = iter([90, 91, 99, 84])
    busy = Counter({"": 3, "crawler": 70, "idle": 1, "poet": 2, "judge": 4, "clerk": 5})
    watch = LimitWatch(lambda: None, lambda: (LimitUse(next(uses), 100), busy))
    with caplog.at_level(logging.INFO, logger="agentic_backend.server.limit_watch"):
        for _ in range(4):
            watch.look()
    lines = [(record.message, vars(record)["used"], vars(record).get("agents")) for record in caplog.records]
    most = {"crawler": 70, "clerk": 5, "judge": 4, "": 3, "poet": 2}
    assert lines == [("threads near their limit", 91, most), ("threads no longer near their limit", 84, None)]
