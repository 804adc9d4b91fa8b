"""The process itself: what runs, and whether its event loop turns."""

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version

from agentic_backend.kpi.limits.limit_use import LimitUse
from agentic_backend.kpi.limits.memory_use import memory_use
from agentic_backend.kpi.limits.thread_use import thread_use
from agentic_backend.kpi.registry import SHORT, MetricsRegistry
from agentic_backend.telemetry import log_lines_lost, log_stalled_s


class ProcessMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._lag = metrics.histogram("chat_event_loop_lag_seconds", "How late the event loop is.", buckets=SHORT)
        self._blocked = metrics.histogram(
            "chat_event_loop_blocked_seconds", "Steps of code that blocked the event loop.", "agent_id"
        )
        self._silent = metrics.gauge(
            "chat_event_loop_silent_seconds", "For how long the event loop has not turned.", together="max"
        )
        self._backlog = metrics.gauge(
            "chat_backlog_seconds", "For how long what was admitted waits for this process.", together="max"
        )
        self._overloaded = metrics.gauge("chat_overloaded", "1 while asks are refused for it, else 0.", together="max")
        metrics.add_process()
        metrics.gauge_if_known(
            "chat_memory_limit_bytes", "The memory limit that is nearest.", lambda: _limit_of(memory_use()), "max"
        )
        metrics.gauge_if_known(
            "chat_memory_used_ratio", "How much of this limit is used.", lambda: _ratio_of(memory_use()), "max"
        )
        metrics.gauge_if_known(
            "chat_threads_limit", "The limit of threads that is nearest.", lambda: _limit_of(thread_use()), "max"
        )
        metrics.gauge_if_known(
            "chat_threads_used_ratio", "How much of this limit is used.", lambda: _ratio_of(thread_use()), "max"
        )
        self._blocking = metrics.gauge_by(
            "chat_blocking_threads", "Threads for blocking code that run some, by agent.", "agent_id"
        )
        self._blocking_limit = metrics.gauge("chat_blocking_threads_limit", "How many of them there may be.")
        self._blocking_waiting = metrics.gauge("chat_blocking_calls_waiting", "Blocking code that waits for one.")
        metrics.counter_of("chat_log_lines_lost", "Lines of the log that were lost.", log_lines_lost)
        stalled = metrics.gauge("chat_log_stalled_seconds", "For how long no line could be written.", together="max")
        stalled.set_function(log_stalled_s)
        self._instance = metrics.gauge("chat_instance_info", "The instance; always 1.", "instance", together="max")
        build = metrics.gauge("chat_build_info", "What runs; always 1.", "version", "python", together="max")
        build.labels(version("agentic-backend"), platform.python_version()).set(1)

    def instance(self, instance_id: str) -> None:
        """Under this id the instance is found in the log and in the KPIs of exchanges; it is new at each start."""
        self._instance.labels(instance_id).set(1)

    def blocking(self, limit: int, by_agent: Callable[[], Mapping[str, int]], waiting: Callable[[], int]) -> None:
        """Both tell at each scrape, in another thread, how many threads each agent holds and how many calls wait."""
        self._blocking_limit.set(limit)
        self._blocking.read = by_agent
        self._blocking_waiting.set_function(waiting)

    def loop_lag(self, lag_s: float) -> None:
        self._lag.observe(lag_s)

    def loop_silent(self, silent_s: Callable[[], float]) -> None:
        """`silent_s` tells at each scrape, in another thread, for how long the loop has not turned."""
        self._silent.set_function(silent_s)

    def backlog(self, age_s: Callable[[], float], is_overloaded: Callable[[], bool]) -> None:
        """Both tell at each scrape, in another thread: how long what was admitted waits, and if that is too long."""
        self._backlog.set_function(age_s)
        self._overloaded.set_function(is_overloaded)

    def loop_blocked(self, agent_id: str, blocked_s: float) -> None:
        """One step of code of this agent (empty: of none) has blocked the event loop."""
        self._blocked.labels(agent_id).observe(blocked_s)


def _limit_of(use: LimitUse | None) -> float | None:
    return None if use is None else use.limit


def _ratio_of(use: LimitUse | None) -> float | None:
    return None if use is None else use.ratio
