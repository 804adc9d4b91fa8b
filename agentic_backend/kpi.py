"""Defines every metric's name, labels and buckets; owned by the application, one registry per instance.

Labels have bounded values: agent, status, outcome, tool, model, operation. Never a session, exchange or user: those are
in the store's KPI records, in the logs, and in exemplars. docs/metrics.md explains each metric.
"""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.close_codes import CloseCode

_LONG = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
# The buckets for tokens that OpenTelemetry's GenAI conventions recommend.
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
# A model may call a tool by any name; names beyond this number share one label.
_NAMES_AT_MOST = 100
_OTHERS = "other"
_CLOSE_CODES = frozenset(CloseCode)


class _BoundedNames:
    """Bounds the values of a label whose names come from outside."""

    def __init__(self) -> None:
        # The names that have their own label value.
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._known and len(self._known) < _NAMES_AT_MOST:
            self._known.add(name)
        return name if name in self._known else _OTHERS


class Kpi:
    """One per application. Each metric's help text says what it counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # The names of tools and models that have their own label values.
        self._tools, self._models = _BoundedNames(), _BoundedNames()
        self._exchanges = self._counter("chat_exchange", "Exchanges that ended.", "agent_id", "status")
        self._duration = self._histogram("chat_exchange_duration_seconds", "From the ask to the final.", "agent_id")
        self._first_token = self._histogram(
            "chat_time_to_first_token_seconds", "From the ask to the first token.", "agent_id"
        )
        self._queue = self._histogram(
            "chat_queue_seconds", "From the ask until its agent is ready to run.", "agent_id", buckets=_SHORT
        )
        self._running = self._gauge("chat_running_exchanges", "Exchanges that run on this instance.")
        self._pauses = self._counter("chat_exchange_pauses", "Exchanges that began to wait for a person.", "agent_id")
        self._decisions = self._counter("chat_human_decisions", "Decisions on what exchanges waited for.", "action")
        self._sessions = self._counter("chat_sessions_created", "Sessions that were opened.", "agent_id")
        self._session_ends = self._counter("chat_sessions_ended", "Sessions that were completed.", "reason")
        self._feedback = self._counter("chat_feedback", "Ratings that users gave to answers.", "agent_id", "rating")
        self._shares = self._counter("chat_shares", "What was done with links to sessions.", "event")
        self._chores = self._counter("chat_housekeeping_runs", "Batches of chores.", "chore", "outcome")
        self._chores_done = self._counter("chat_housekeeping_done", "What chores have ended or deleted.", "chore")
        self._sockets = self._gauge("chat_open_sockets", "WebSockets that are open.")
        self._opened = self._counter("chat_sockets_opened", "WebSockets that were opened.", "form")
        self._refused = self._counter("chat_sockets_refused", "WebSockets that were refused.", "reason")
        self._closed = self._counter("chat_sockets_closed", "WebSockets that were closed.", "code")
        self._dropped = self._counter("chat_connections_dropped", "TCP connections that were dropped.", "reason")
        self._list_followers = self._gauge(
            "chat_session_list_followers", "Clients that follow all sessions of their user."
        )
        self._follows = self._counter("chat_follows", "Follows of an exchange.", "outcome")
        self._cache = self._counter("chat_agent_cache", "Agents asked of the cache.", "outcome")
        self._evictions = self._counter("chat_agent_evictions", "Agents evicted from the cache.")
        self._cached = self._gauge("chat_cached_agents", "Agents that are kept warm or in use.")
        self._store = self._histogram(
            "chat_store_operation_seconds", "Operations of the store.", "operation", "outcome", buckets=_SHORT
        )
        self._tool = self._histogram("chat_tool_duration_seconds", "From a tool's call to its result.", "tool")
        self._tool_failures = self._counter("chat_tool_failures", "Tools that failed.", "tool")
        self._tool_refusals = self._counter("chat_tool_refusals", "Calls that the user may not make.", "tool")
        self._model = self._histogram(
            "chat_gen_ai_client_operation_duration_seconds",
            "Calls of chat models.",
            "gen_ai_operation_name",
            "gen_ai_response_model",
            "error_type",
        )
        self._tokens = self._histogram(
            "chat_gen_ai_client_token_usage",
            "Tokens that a call of a chat model used.",
            "gen_ai_token_type",
            "gen_ai_response_model",
            buckets=_TOKENS,
        )
        self._cost = self._counter("chat_model_cost", "What calls of chat models have cost.", "model", "currency")
        self._up = self._gauge("chat_dependency_up", "1 while a dependency answers.", "dependency")
        self._damaged = self._gauge("chat_store_damaged", "1 where pages of the SQLite file are damaged.")
        self._refusals = self._counter("chat_refused", "Asks and decisions that were refused.", "call", "code")
        self._titles = self._counter("chat_titles", "Sessions that were to be named.", "outcome")
        self._compactions = self._counter("chat_compactions", "Histories that were to be compacted.", "outcome")
        self._skew = self._gauge("chat_clock_skew_seconds", "How far the clock is ahead of the database's.")
        self._lag = self._histogram("chat_event_loop_lag_seconds", "How late the event loop is.", buckets=_SHORT)
        self._blocked = self._histogram(
            "chat_event_loop_blocked_seconds", "Steps of code that blocked the event loop.", "agent_id"
        )
        self._module = self._histogram(
            "chat_module_duration_seconds", "Calls of modules.", "module", "point", buckets=_SHORT
        )
        self._module_failures = self._counter(
            "chat_module_failures", "Calls of modules that failed.", "module", "point"
        )
        self._module_blocks = self._counter("chat_module_blocks", "Texts that modules blocked.", "module", "point")
        self._module_circuit = self._gauge("chat_module_circuit_open", "1 while a module is not called.", "module")
        self._module_missed = self._counter("chat_module_missed", "Events that no module was told of.", "point")
        self._gauge("chat_build_info", "What runs; always 1.", "version", "python").labels(
            version("agentic-backend"), platform.python_version()
        ).set(1)

    def exchange_started(self) -> None:
        self._running.inc()

    def exchange_paused(self, agent_id: str) -> None:
        """The exchange waits for a person; `exchange_started` counts it again when it continues."""
        self._running.dec()
        self._pauses.labels(agent_id).inc()

    def exchange_left(self) -> None:
        """The exchange no longer runs here; another instance ends it or has ended it."""
        self._running.dec()

    def exchange_closed(self, agent_id: str, status: str) -> None:
        """The exchange ended without running: its instance had died, or it was waiting."""
        self._exchanges.labels(agent_id, status).inc()

    def decided(self, action: str) -> None:
        """A person has made a decision that an exchange waited for, or the wait has expired."""
        self._decisions.labels(action).inc()

    def session_created(self, agent_id: str) -> None:
        """A session was opened, empty or by an ask."""
        self._sessions.labels(agent_id).inc()

    def session_ended(self, reason: str) -> None:
        """A session was completed."""
        self._session_ends.labels(reason).inc()

    def feedback(self, agent_id: str, rating: str) -> None:
        """A user has rated an answer of the agent `up` or `down`, or has changed what they said of it."""
        self._feedback.labels(agent_id, rating).inc()

    def share(self, event: str) -> None:
        """A link to a session was `created`, `revoked` or `read`, or one that is not open was `missed`."""
        self._shares.labels(event).inc()

    def chore(self, name: str, outcome: str, done: int) -> None:
        """A batch of a chore has ended; `done` is how many things it has done."""
        self._chores.labels(name, outcome).inc()
        self._chores_done.labels(name).inc(done)

    def exchange_ready(self, agent_id: str, queued_s: float, exchange_id: str) -> None:
        """The exchange's agent is built and its graph starts."""
        self._queue.labels(agent_id).observe(queued_s, {"exchange_id": exchange_id})

    def exchange_ended(
        self, agent_id: str, status: str, duration_s: float, first_token_s: float | None, exchange_id: str
    ) -> None:
        exemplar = {"exchange_id": exchange_id}
        self._running.dec()
        self._exchanges.labels(agent_id, status).inc()
        self._duration.labels(agent_id).observe(duration_s, exemplar)
        if first_token_s is not None:
            self._first_token.labels(agent_id).observe(first_token_s, exemplar)

    def socket_opened(self, form: str) -> None:
        self._sockets.inc()
        self._opened.labels(form).inc()

    def socket_refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def socket_closed(self, code: int) -> None:
        self._sockets.dec()
        # A client may send any of the application close codes.
        self._closed.labels(str(code) if code < 3000 or code in _CLOSE_CODES else _OTHERS).inc()

    def connection_dropped(self, reason: str) -> None:
        """A TCP connection was dropped before it sent a request."""
        self._dropped.labels(reason).inc()

    def list_followers(self, count: Callable[[], int]) -> None:
        """`count` tells how many clients follow the sessions of their user now."""
        self._list_followers.set_function(count)

    def followed(self, outcome: str) -> None:
        """`replayed`: from the log; `reset`: the place is no longer in the log; `live`: nothing to replay."""
        self._follows.labels(outcome).inc()

    def agent_cache(self, *, hit: bool) -> None:
        self._cache.labels("hit" if hit else "miss").inc()

    def agent_evicted(self) -> None:
        self._evictions.inc()

    def agents_cached(self, size: int) -> None:
        self._cached.set(size)

    def store_operation(self, operation: str, duration_s: float, ok: bool) -> None:
        self._store.labels(operation, "ok" if ok else "error").observe(duration_s)
        self._up.labels("store").set(int(ok))

    def store_damaged(self, damaged: bool) -> None:
        """The result of the last check of the SQLite file's pages."""
        self._damaged.set(int(damaged))

    def refused(self, call: str, code: str) -> None:
        """An `ask`, a `decision` or a `resume` was refused, with one of the codes of `errors`."""
        self._refusals.labels(call, code).inc()

    @contextmanager
    def refusals(self, call: str) -> Iterator[None]:
        """Count an error of the call inside as its refusal."""
        try:
            yield
        except AgenticError as error:
            self.refused(call, error.code)
            raise
        except Exception:
            self.refused(call, Internal.code)
            raise

    def keycloak_up(self, up: bool) -> None:
        """Whether the last fetch of the realm's keys succeeded."""
        self._up.labels("keycloak").set(int(up))

    def broadcast_up(self, up: bool) -> None:
        """Whether the Redis between the instances answers."""
        self._up.labels("broadcast").set(int(up))

    def mcp_server_up(self, server_id: str, up: bool) -> None:
        """Whether the last attempt to reach an MCP server of the settings succeeded."""
        self._up.labels(f"mcp:{server_id}").set(int(up))

    def tool_ended(self, tool: str, duration_s: float, *, ok: bool) -> None:
        tool = self._tools.label(tool)
        self._tool.labels(tool).observe(duration_s)
        if not ok:
            self._tool_failures.labels(tool).inc()

    def tool_refused(self, tool: str) -> None:
        """A tool was called that the run's user has no permission for."""
        self._tool_refusals.labels(self._tools.label(tool)).inc()

    def model_called(self, model: str, duration_s: float, *, tokens: tuple[int, ...] | None, error: str) -> None:
        """`tokens` begins with the input and the output tokens; `error` is the exception's type, or empty."""
        model = self._models.label(model)
        self._model.labels("chat", model, error).observe(duration_s)
        for kind, count in zip(("input", "output"), tokens or (), strict=False):
            self._tokens.labels(kind, model).observe(count)

    def model_cost(self, model: str, currency: str, cost: float) -> None:
        """A call of a model has cost so much, by the prices of the settings."""
        self._cost.labels(self._models.label(model), currency).inc(cost)

    def module_called(self, module: str, point: str, duration_s: float) -> None:
        self._module.labels(module, point).observe(duration_s)

    def module_failed(self, module: str, point: str) -> None:
        self._module_failures.labels(module, point).inc()

    def module_blocked(self, module: str, point: str) -> None:
        self._module_blocks.labels(module, point).inc()

    def module_circuit(self, module: str, *, is_open: bool) -> None:
        self._module_circuit.labels(module).set(int(is_open))

    def module_missed(self, point: str) -> None:
        """Too many calls of modules ran beside the exchanges."""
        self._module_missed.labels(point).inc()

    def titled(self, outcome: str) -> None:
        """A session was to be named: `named`, `unneeded`, `empty`, `failed` or `dropped`."""
        self._titles.labels(outcome).inc()

    def compacted(self, outcome: str) -> None:
        """A history was to be compacted: `summarised`, `left_out`, `dropped`, `abandoned`, `deferred` or `failed`."""
        self._compactions.labels(outcome).inc()

    def clock_skew(self, ahead_s: float) -> None:
        self._skew.set(ahead_s)

    def event_loop_lag(self, lag_s: float) -> None:
        self._lag.observe(lag_s)

    def event_loop_blocked(self, agent_id: str, blocked_s: float) -> None:
        """One step of code of this agent (empty: of none) has blocked the event loop."""
        self._blocked.labels(agent_id).observe(blocked_s)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics and their content type: OpenMetrics, with exemplars, if `accept` asks for it."""
        encode: Callable[[CollectorRegistry], bytes]
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self._registry)

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(name, meaning, labels, registry=self._registry)

    def _histogram(self, name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = _LONG) -> Histogram:
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)
