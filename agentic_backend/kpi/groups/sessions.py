"""What becomes of sessions: that they are opened, named, compacted, rated, shared and ended."""

from agentic_backend.kpi.registry import MetricsRegistry


class SessionMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._created = metrics.counter("chat_sessions_created", "Sessions that were opened.", "agent_id")
        self._ended = metrics.counter("chat_sessions_ended", "Sessions that were completed.", "reason")
        self._feedback = metrics.counter("chat_feedback", "Ratings that users gave to answers.", "agent_id", "rating")
        self._shares = metrics.counter("chat_shares", "What was done with links to sessions.", "event")
        self._titles = metrics.counter("chat_titles", "Sessions that were to be named.", "outcome")
        self._compactions = metrics.counter("chat_compactions", "Histories that were to be compacted.", "outcome")
        self._chores = metrics.counter("chat_housekeeping_runs", "Batches of chores.", "chore", "outcome")
        self._chores_done = metrics.counter("chat_housekeeping_done", "What chores have ended or deleted.", "chore")

    def created(self, agent_id: str) -> None:
        """A session was opened, empty or by an ask."""
        self._created.labels(agent_id).inc()

    def ended(self, reason: str) -> None:
        """A session was completed."""
        self._ended.labels(reason).inc()

    def rated(self, agent_id: str, rating: str) -> None:
        """A user has rated an answer of the agent `up` or `down`, or has changed what they said of it."""
        self._feedback.labels(agent_id, rating).inc()

    def shared(self, event: str) -> None:
        """A link to a session was `created`, `revoked` or `read`, or one that is not open was `missed`."""
        self._shares.labels(event).inc()

    def titled(self, outcome: str) -> None:
        """A session was to be named: `named`, `unneeded`, `empty`, `blocked`, `failed` or `dropped`."""
        self._titles.labels(outcome).inc()

    def compacted(self, outcome: str) -> None:
        """A history was to be compacted: `summarised`, `left_out`, `dropped`, `abandoned`, `deferred` or `failed`."""
        self._compactions.labels(outcome).inc()

    def chore(self, name: str, outcome: str, done: int) -> None:
        """A batch of a chore has ended; `done` is how many things it has done."""
        self._chores.labels(name, outcome).inc()
        self._chores_done.labels(name).inc(done)
