"""The worker processes of applications."""

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

from agentic_backend.kpi.registry import MetricsRegistry

_WORKER = ("application", "worker")
_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class WorkerMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._running = metrics.gauge("chat_application_worker_running", "Worker processes that run.", *_WORKER)
        self._waiting = metrics.gauge(
            "chat_application_worker_waiting", "Calls that wait for a worker process.", *_WORKER
        )
        self._seconds = metrics.histogram(
            "chat_application_worker_seconds", "Calls that worker processes did.", *_WORKER, "outcome", buckets=_SECONDS
        )
        self._ended = metrics.counter(
            "chat_application_worker_ends", "Worker processes that ended.", *_WORKER, "reason"
        )
        self._refused = metrics.counter(
            "chat_application_worker_refusals", "Calls that no worker process was asked for.", *_WORKER
        )

    def of(self, application: str, worker: str) -> "WorkerSeries":
        """The series of one worker."""
        return WorkerSeries(
            self._running, self._waiting, self._seconds, self._ended, self._refused, (application, worker)
        )


class WorkerSeries:
    def __init__(
        self,
        running: Gauge,
        waiting: Gauge,
        seconds: Histogram,
        ended: Counter,
        refused: Counter,
        labels: tuple[str, str],
    ) -> None:
        self._running = running.labels(*labels)
        self._waiting = waiting.labels(*labels)
        self._seconds = seconds
        self._ended = ended
        self._refused = refused.labels(*labels)
        self._labels = labels

    def waits(self, count: Callable[[], int]) -> None:
        """`count` says how many calls wait. Called at each scrape, in another thread."""
        self._waiting.set_function(count)

    def runs(self, *, is_running: bool) -> None:
        self._running.set(int(is_running))

    def called(self, outcome: str, duration_s: float) -> None:
        """A call has ended: `ok`, `raised`, or as the process was lost."""
        self._seconds.labels(*self._labels, outcome).observe(duration_s)

    def ended(self, reason: str) -> None:
        """A process has ended: `idle`, `closed`, `start` if it could not, or as it was lost."""
        self._ended.labels(*self._labels, reason).inc()

    def refused(self) -> None:
        """A call was refused, because too many wait or the process is not started again yet."""
        self._refused.inc()
