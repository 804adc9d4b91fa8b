"""REST calls about exchanges: one of them as it stands, going on with one, and a session's events as they come."""

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentic_backend.auth.user import Tokens, User
from agentic_backend.broadcast.exchange_log import ExchangeLog
from agentic_backend.errors import BadFrame, ExchangeNotFound
from agentic_backend.kpi import Kpi
from agentic_backend.limits_settings import LimitsSettings
from agentic_backend.protocol.events import ErrorInfo, Final, HumanRequests
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.protocol.messages import ExchangeStatus, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.protocol.seq import HIGHEST_SEQ
from agentic_backend.sessions.approvals import remaining
from agentic_backend.sessions.relay import Relay
from agentic_backend.sessions.session_desk import SessionDesk
from agentic_backend.sessions.session_orchestrator import SessionOrchestrator
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, HumanDecision
from agentic_backend.transports.credentials import seconds_left, token_of
from agentic_backend.transports.open_connections import OpenConnections
from agentic_backend.transports.rest import PREFIX
from agentic_backend.transports.rest_calls import RestCalls
from agentic_backend.transports.rest_errors import json_response
from agentic_backend.transports.rest_input import ResumeExchange, body_of
from agentic_backend.transports.session_events import SessionEvents
from agentic_backend.transports.sse import EventStream, exchange_events

_DECISIONS_BYTES = 1024 * 1024


class ExchangeView(Value):
    """`pending` is what still waits for a person, `decisions` what was decided, `checkpoint` where it could go on."""

    id: str
    session_id: str
    agent_id: str
    status: ExchangeStatus
    client_exchange_id: str | None = absent()
    resumes: str | None = absent()
    started_at: Timestamp
    ended_at: Timestamp | None = absent()
    usage: TokenUsage
    error: ErrorInfo | None = absent()
    pending: HumanRequests | None = absent()
    decisions: list[HumanDecision] | None = absent()
    checkpoint: CheckpointRecord | None = absent()

    @classmethod
    def of(cls, record: ExchangeRecord) -> "ExchangeView":
        values = {name: getattr(record, name) for name in cls.model_fields}
        is_waiting = record.status is ExchangeStatus.AWAITING_HUMAN
        pending = remaining(record, ()) if is_waiting else None
        return cls(**values | {"pending": pending, "decisions": _last_that_fit(record.decisions) or None})


def _last_that_fit(decisions: Sequence[HumanDecision]) -> list[HumanDecision]:
    """As many of the last decisions as have _DECISIONS_BYTES, one at least: each has the arguments of its call."""
    kept: list[HumanDecision] = []
    size = 0
    for decision in reversed(decisions):
        size += len(decision.model_dump_json())
        if kept and size > _DECISIONS_BYTES:
            break
        kept.append(decision)
    return kept[::-1]


class ExchangesApi:
    def __init__(
        self,
        *,
        calls: RestCalls,
        desk: SessionDesk,
        orchestrator: SessionOrchestrator,
        relay: Relay,
        connections: OpenConnections,
        kpi: Kpi,
        limits: LimitsSettings,
    ) -> None:
        self._calls = calls
        self._desk = desk
        self._orchestrator = orchestrator
        self._relay = relay
        self._connections = connections
        self._kpi = kpi
        self._limits = limits

    def routes(self) -> list[Route]:
        calls = [
            ("GET", "/exchanges/{id}", self._get),
            ("POST", "/exchanges/{id}/resume", self._resume),
            ("GET", "/sessions/{id}/events", self._events),
        ]
        return self._calls.routes(PREFIX, calls)

    async def _get(self, request: Request, user: User) -> Response:
        return json_response(ExchangeView.of(await self._desk.exchange(user, request.path_params["id"])))

    async def _resume(self, request: Request, user: User) -> Response:
        with self._kpi.refusals("resume"):
            body = await body_of(request, ResumeExchange, self._limits.frame_bytes)
        exchange_id, token = request.path_params["id"], token_of(request)
        tokens = Tokens(token) if token else None
        kind = "resume" if body.payload is None else "decision"
        with self._kpi.refusals(kind), self._connections.stream(user.id) as place:
            if body.payload is None:
                exchange = await self._orchestrator.resume(user, exchange_id, tokens, uuid4().hex)
            else:
                exchange = await self._orchestrator.human_resume(user, None, exchange_id, body.payload, tokens)
            events = exchange_events(exchange, self._relay, seconds_left(user))
            return EventStream(events, place.pop_all(), self._limits.send_timeout_s)

    async def _events(self, request: Request, user: User) -> Response:
        with self._connections.stream(user.id) as place:
            events = await self._events_of(request, user)
            return EventStream(events, place.pop_all(), self._limits.send_timeout_s)

    async def _events_of(self, request: Request, user: User) -> AsyncIterator[ServerSentEvent]:
        last_id = _last_event_id(request)
        session, running = await self._orchestrator.running_in(user, request.path_params["id"])
        resumed: ExchangeLog | Final | None = None
        if last_id is not None:
            try:
                resumed = await self._orchestrator.view(user, last_id[0], session.id)
            except ExchangeNotFound:
                raise BadFrame("Last-Event-ID: names no exchange of this session") from None
        seq = last_id[1] if last_id else 0
        return SessionEvents(self._relay, session, running).events(resumed, seq, seconds_left(user))


def _last_event_id(request: Request) -> tuple[str, int] | None:
    """The exchange and the seq that `Last-Event-ID` names. Raises BadFrame where it is none of ours."""
    text = request.headers.get("last-event-id")
    if not text:
        return None
    exchange_id, _, seq = text.rpartition(":")
    if not exchange_id or len(exchange_id) > LONGEST_ID or not (seq.isascii() and seq.isdigit()):
        raise BadFrame("Last-Event-ID: expected the id of an event")
    return exchange_id, min(int(seq[:17]), HIGHEST_SEQ)
