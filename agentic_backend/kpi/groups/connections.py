"""WebSockets, TCP connections, and what clients follow over them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from agentic_backend.errors import AgenticError, TokenRefusal
from agentic_backend.kpi.groups.refusals import Door
from agentic_backend.kpi.registry import OTHERS, MetricsRegistry
from agentic_backend.protocol.close_codes import CloseCode

TokenDoor = Door | Literal["renewal"]
"""Where a token is checked; a renewal is the server's own, for what runs already."""

_OUTCOMES = ("accepted", "token_expired", "forbidden", "auth_unavailable", *get_args(TokenRefusal))
_CLOSE_CODES = frozenset(CloseCode)


class ConnectionMetrics:
    def __init__(self, metrics: MetricsRegistry) -> None:
        self._open = metrics.gauge("chat_open_sockets", "WebSockets that are open.")
        self._opened = metrics.counter("chat_sockets_opened", "WebSockets that were opened.", "form")
        self._checked = metrics.counter("chat_tokens_checked", "Access tokens that were checked.", "door", "outcome")
        for door in (*get_args(Door), "renewal"):
            for outcome in _OUTCOMES:
                # From 0, as below.
                self._checked.labels(door, outcome)
        self._closed = metrics.counter("chat_sockets_closed", "WebSockets that were closed.", "code")
        self._dropped = metrics.counter("chat_connections_dropped", "TCP connections that were dropped.", "reason")
        for reason in ("descriptors", "silent"):
            # From 0: to Prometheus a series that begins with its first event is no increase.
            self._dropped.labels(reason)
        self._list_subscriptions = metrics.gauge(
            "chat_session_list_followers", "Clients that follow all sessions of their user."
        )
        self._follows = metrics.counter("chat_follows", "Follows of an exchange.", "outcome")

    def socket_opened(self, form: str) -> None:
        self._open.inc()
        self._opened.labels(form).inc()

    @contextmanager
    def token_check(self, door: TokenDoor) -> Iterator[None]:
        """Count how the check inside ends: `accepted`, a TokenRefusal, or the code of another error."""
        try:
            yield
        except AgenticError as error:
            self._checked.labels(door, error.log_fields.get("reason", error.code)).inc()
            raise
        self._checked.labels(door, "accepted").inc()

    def socket_closed(self, code: int) -> None:
        self._open.dec()
        # A client may send any of the application close codes.
        self._closed.labels(str(code) if code < 3000 or code in _CLOSE_CODES else OTHERS).inc()

    def dropped(self, reason: str) -> None:
        """A TCP connection was dropped before it sent a request."""
        self._dropped.labels(reason).inc()

    def list_subscriptions(self, count: Callable[[], int]) -> None:
        """`count` tells how many clients follow the sessions of their user now."""
        self._list_subscriptions.set_function(count)

    def followed(self, outcome: str) -> None:
        """`replayed`: from the log; `reset`: the place is no longer in the log; `live`: nothing to replay."""
        self._follows.labels(outcome).inc()
