"""How exchanges begin, wait and end, and how long that takes."""

from agentic_backend.errors import whose_fault
from agentic_backend.kpi.registry import SHORT, BegunAt, MetricsRegistry, age_of_oldest


class ExchangeMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._ended = metrics.counter("chat_exchange", "Exchanges that ended.", "agent_id", "status")
        self._errors = metrics.counter(
            "chat_exchange_errors", "Exchanges that ended with an error.", "agent_id", "code", "whose"
        )
        self._duration = metrics.histogram("chat_exchange_duration_seconds", "From the ask to the final.", "agent_id")
        self._first_token = metrics.histogram(
            "chat_time_to_first_token_seconds", "From the ask to the first token.", "agent_id"
        )
        self._queue = metrics.histogram(
            "chat_queue_seconds", "From the ask until its agent is ready to run.", "agent_id", buckets=SHORT
        )
        self._running = metrics.gauge("chat_running_exchanges", "Exchanges that run on this instance.")
        self._limit = metrics.gauge("chat_running_limit", "Most exchanges that may run on this instance.")
        self._oldest = metrics.gauge(
            "chat_oldest_exchange_seconds", "For how long the oldest of these has run.", together="max"
        )
        self._waiting = metrics.gauge(
            "chat_waiting_exchanges", "Exchanges in the store that wait for a person.", together="max"
        )
        self._oldest_waiting = metrics.gauge(
            "chat_oldest_waiting_seconds", "How long ago the oldest of these was asked.", together="max"
        )
        self._pauses = metrics.counter("chat_exchange_pauses", "Exchanges that began to wait for a person.", "agent_id")
        self._decisions = metrics.counter("chat_human_decisions", "Decisions on what exchanges waited for.", "action")

    def at_work(self, began_at: BegunAt) -> None:
        self._oldest.set_function(lambda: age_of_oldest(began_at))

    def at_most(self, running: int) -> None:
        """The limit of exchanges that run at once."""
        self._limit.set(running)

    def waiting(self, count: int, oldest_s: float) -> None:
        """What waits in the store, whichever instance has run it; `oldest_s` is 0 if nothing waits."""
        self._waiting.set(count)
        self._oldest_waiting.set(oldest_s)

    def started(self) -> None:
        self._running.inc()

    def paused(self, agent_id: str) -> None:
        """The exchange waits for a person; `started` counts it again when it continues."""
        self._running.dec()
        self._pauses.labels(agent_id).inc()

    def left(self) -> None:
        """The exchange no longer runs here; another instance ends it or has ended it."""
        self._running.dec()

    def closed(self, agent_id: str, status: str, error_code: str | None) -> None:
        """The exchange ended without running: its instance had died, or it was waiting."""
        self._count_end(agent_id, status, error_code)

    def decided(self, action: str) -> None:
        """A person has made a decision that an exchange waited for, or the wait has expired."""
        self._decisions.labels(action).inc()

    def ready(self, agent_id: str, queued_s: float, exchange_id: str) -> None:
        """The exchange's agent is built and its graph starts."""
        self._queue.labels(agent_id).observe(queued_s, {"exchange_id": exchange_id})

    def ended(
        self,
        agent_id: str,
        status: str,
        error_code: str | None,
        duration_s: float,
        first_token_s: float | None,
        exchange_id: str,
    ) -> None:
        """`error_code` is one of `errors`, None where there was no error."""
        exemplar = {"exchange_id": exchange_id}
        self._running.dec()
        self._count_end(agent_id, status, error_code)
        self._duration.labels(agent_id).observe(duration_s, exemplar)
        if first_token_s is not None:
            self._first_token.labels(agent_id).observe(first_token_s, exemplar)

    def _count_end(self, agent_id: str, status: str, error_code: str | None) -> None:
        self._ended.labels(agent_id, status).inc()
        if error_code is not None:
            self._errors.labels(agent_id, error_code, whose_fault(error_code)).inc()
