"""REST calls about exchanges: get one, its checkpoint or what its answer rests on, resume one, and stream the events of
a session.
"""

from collections.abc import Sequence

from pydantic import Field
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import BadFrame, CheckpointMissing, ExchangeNotFound, SessionNotFound
from agentic_backend.protocol.events import ErrorInfo, HumanRequests
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.protocol.messages import ExchangeStatus, Timestamp, TokenUsage
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.protocol.seq import HIGHEST_SEQ
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.reading.exchange_kpi import ExchangeKpi
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.stores.records import CheckpointRecord, ExchangeRecord, HumanDecision
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ASKING, PREFIX, RESUMING, Header, Operation
from agentic_backend.transports.rest.rest_input import ResumeExchange
from agentic_backend.transports.sse import EVENTS, ChatV2Renderer, EventStream, exchange_stream, session_stream

_DECISIONS_BYTES = 1024 * 1024
_LAST_EVENT_ID = Header(
    "Last-Event-ID",
    "The id of the last event that the client has; the stream continues after it.",
    "9d27aa:4",
)


class TrustApi:
    """The trust call: what the answer of an exchange rests on."""

    def __init__(self, reports: TrustReports) -> None:
        self._reports = reports

    def operations(self) -> list[Operation]:
        return [Operation("GET", f"{PREFIX}/exchanges/{{id}}/trust", self.get_trust, errors=(ExchangeNotFound,))]

    async def get_trust(self, user: User, id: str) -> TrustSummary:
        """What the answer of an exchange rests on: its statements, tools, sources, and objections to its texts."""
        return await self._reports.of(user, id)


class ExchangeView(Value):
    """`pending`: the requests that wait for a person. `decisions`: those made. `checkpoint`: where it can continue.

    Of a query, which has no session, only the KPIs are stored, at its end.
    """

    id: str = Field(examples=["9d27aa"])
    session_id: str | None
    agent_id: str
    status: ExchangeStatus = Field(examples=["ok"])
    client_exchange_id: str | None = absent()
    resumes: str | None = absent()
    started_at: Timestamp
    ended_at: Timestamp | None = absent()
    usage: TokenUsage
    error: ErrorInfo | None = absent()
    pending: HumanRequests | None = absent()
    decisions: list[HumanDecision] | None = absent()
    checkpoint: CheckpointRecord | None = absent()
    kpi: ExchangeKpi

    @classmethod
    def of(cls, record: ExchangeRecord, kpi: ExchangeKpi) -> "ExchangeView":
        values = {name: getattr(record, name) for name in cls.model_fields if name != "kpi"}
        is_waiting = record.status is ExchangeStatus.AWAITING_HUMAN
        pending = remaining(record, ()) if is_waiting else None
        changed = {"pending": pending, "decisions": last_that_fit(record.decisions) or None, "kpi": kpi}
        return cls(**values | changed | {"session_id": record.session_id or None})


def last_that_fit(decisions: Sequence[HumanDecision]) -> list[HumanDecision]:
    """The last decisions up to _DECISIONS_BYTES, at least one: each holds the arguments of its call."""
    kept: list[HumanDecision] = []
    size = 0
    for decision in reversed(decisions):
        size += len(decision.model_dump_json())
        if kept and size > _DECISIONS_BYTES:
            break
        kept.append(decision)
    return kept[::-1]


class ExchangesApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._orchestrator = services.sessions.orchestrator
        self._sessions = services.sessions.service
        self._reports = services.sessions.reports

    def operations(self) -> list[Operation]:
        path, found = f"{PREFIX}/exchanges/{{id}}", (ExchangeNotFound,)
        return [
            Operation("GET", path, self.get_exchange, errors=found),
            Operation("GET", f"{path}/checkpoint", self.get_checkpoint, errors=(*found, CheckpointMissing)),
            Operation(
                "POST",
                f"{path}/resume",
                self.resume_exchange,
                answer=EVENTS,
                errors=(*ASKING, *RESUMING),
                refused_as="resume",
            ),
            Operation(
                "GET",
                f"{PREFIX}/sessions/{{id}}/events",
                self.follow_session,
                answer=EVENTS,
                headers=(_LAST_EVENT_ID,),
                errors=(SessionNotFound,),
            ),
        ]

    async def get_exchange(self, user: User, id: str) -> ExchangeView:
        """One exchange: its state, what waits for a person, where it can continue, and what it took."""
        return ExchangeView.of(*await self._reports.exchange(user, id))

    async def get_checkpoint(self, user: User, id: str) -> CheckpointRecord:
        """The envelope of an exchange's last checkpoint: what it was taken at and when, never the state in it."""
        checkpoint = (await self._sessions.exchange(user, id)).checkpoint
        if checkpoint is None:
            raise CheckpointMissing("The exchange has no checkpoint yet.")
        return checkpoint

    async def resume_exchange(self, request: Request, user: User, id: str, body: ResumeExchange) -> EventStream:
        """Decide on the requests of a waiting exchange; or, without a `payload`, resume an interrupted one."""
        tokens = tokens_of(request, user)
        kind = "resume" if body.payload is None else "decision"
        with self._door.kpi.calls.refusals(kind), self._door.connections.stream(user.id) as place:
            if body.payload is None:
                exchange = await self._orchestrator.resume(user, id, tokens, current_origin().request_id)
            else:
                exchange = await self._orchestrator.human_resume(user, None, id, body.payload, tokens)
            return exchange_stream(self._door, user, exchange, place, ChatV2Renderer())

    async def follow_session(self, request: Request, user: User, id: str) -> EventStream:
        """The events of a session: what runs, and all that begins later. Continues after `Last-Event-ID`."""
        with self._door.connections.stream(user.id) as place:
            last_id = _last_event_id(request)
            session, running = await self._orchestrator.running_in(user, id)
            seen: tuple[ExchangeLog, int] | None = None
            if last_id is not None:
                try:
                    seen = await self._orchestrator.view(user, last_id[0], session.id), last_id[1]
                except ExchangeNotFound:
                    raise BadFrame("Last-Event-ID: names no exchange of this session") from None
            return session_stream(self._door, user, session, running, seen, place)


def _last_event_id(request: Request) -> tuple[str, int] | None:
    """The exchange id and seq in `Last-Event-ID`; None without the header. Raises BadFrame if it is malformed."""
    text = request.headers.get("last-event-id")
    if not text:
        return None
    exchange_id, _, seq = text.rpartition(":")
    if not exchange_id or len(exchange_id) > LONGEST_ID or not (seq.isascii() and seq.isdigit()):
        raise BadFrame("Last-Event-ID: expected the id of an event")
    return exchange_id, min(int(seq[:17]), HIGHEST_SEQ)
