"""The REST call of a run of AG-UI."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import NamedTuple

import orjson
from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import ApprovalNotFound, BadFrame, Internal, MessageTooLarge, SessionNotFound
from agentic_backend.protocol.messages import ChatMessage, Role
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.ag_ui.bodies import RunAgentInput, Told, told_by
from agentic_backend.transports.ag_ui.events import (
    AgUiEvent,
    Json,
    MessagesSnapshot,
    Outcome,
    RunFinished,
    RunStarted,
)
from agentic_backend.transports.ag_ui.interrupts import decisions_of
from agentic_backend.transports.ag_ui.renderer import RunRenderer
from agentic_backend.transports.ag_ui.told_messages import stored_id_of, told
from agentic_backend.transports.camel_case import CamelValue
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ATTACHING, RESUMING, Operation, Streamed
from agentic_backend.transports.sse import EventStream, ServerSentEvent, followed, why_cut

_SHOWN = 400
"""How many messages of a thread a run shows that asks nothing: the last ones."""


class _Run(NamedTuple):
    exchange: ExchangeLog | None
    """None: there is nothing to do."""
    before: Callable[[], Sequence[Json]]
    """Gives the messages of the thread before the exchange."""
    after_seq: int = 0
    known: Sequence[ChatMessage] = ()
    """The messages of the exchange that the client has, up to `after_seq`."""
    only_shows: bool = False
    """Whether nothing is asked: the client is shown the thread."""


_NAMES = {
    "agent_id": "id",
    "attachments": "messages",
    "client_exchange_id": "runId",
    "instructions": "context",
    "message": "messages",
    "payload": "resume",
    "runtime_context": "forwardedProps",
}


@contextmanager
def _named_as_ag_ui() -> Iterator[None]:
    """Raises what its block raises of a field with the name that this has in the body."""
    try:
        yield
    except (BadFrame, MessageTooLarge) as error:
        named = re.sub(r"^\w+(?=[.:])", lambda field: _NAMES.get(field[0], field[0]), error.content)
        raise type(error)(named) from None


class AgUiApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service
        self._orchestrator = services.sessions.orchestrator

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                "/ag-ui/agents/{id}",
                self.run_ag_ui_agent,
                answer=Streamed("text/event-stream", AgUiEvent),
                errors=(*ATTACHING, *RESUMING),
                refused_as="ask",
            )
        ]

    async def run_ag_ui_agent(self, request: Request, user: User, id: str, body: RunAgentInput) -> EventStream:
        """Run an agent in a thread, or go on from its pause; it stops when the client goes.

        A run that asks nothing shows the thread, and what runs or waits in it, which goes on without the client.
        """
        with (
            self._door.kpi.calls.refusals("ask"),
            _named_as_ag_ui(),
            self._door.connections.stream(user.id) as place,
        ):
            run = await self._run(request, user, id, body)
            named = {"thread_id": body.thread_id, "run_id": body.run_id}
            first: list[AgUiEvent] = [RunStarted(**named)]
            if run.only_shows:
                first.append(MessagesSnapshot(messages=list(run.before())))
            if run.exchange is None:
                ended = RunFinished(**named, outcome=Outcome(type="success"))
                return EventStream(_nothing_done([*first, ended]), place.pop_all())
            stops = not run.only_shows
            feed = followed(self._door, user, run.exchange, place, after_seq=run.after_seq, stops_with_client=stops)
            request_id = current_origin().request_id
            renderer = RunRenderer(named, run.exchange, run.known, run.before, request_id)
            return EventStream(_rendered(feed, renderer, first), place.pop_all())

    async def _run(self, request: Request, user: User, agent_id: str, body: RunAgentInput) -> _Run:
        if body.resume:
            return await self._resumed(request, user, body)
        if (asked := told_by(body)) is not None:
            return await self._asked(request, user, agent_id, body, asked)
        return await self._thread(user, body.thread_id)

    async def _asked(self, request: Request, user: User, agent_id: str, body: RunAgentInput, asked: Told) -> _Run:
        session_id, new_session_id = await self._session_of(user, body.thread_id)
        turn = Turn(
            parts=[TextPart(text=asked.text)],
            session_id=session_id,
            new_session_id=new_session_id,
            agent_id=agent_id,
            attachments=asked.attachments,
            instructions=asked.instructions,
            runtime_context=body.forwarded_props,
            client_exchange_id=f"ag-ui-{_named(body.thread_id, body.run_id)}",
        )
        tokens, request_id = tokens_of(request, user), current_origin().request_id
        return _Run(await self._orchestrator.ask(user, turn, tokens, request_id), body.sent)

    async def _resumed(self, request: Request, user: User, body: RunAgentInput) -> _Run:
        session_id, _ = await self._session_of(user, body.thread_id)
        if session_id is None:
            raise ApprovalNotFound
        _, exchange = await self._orchestrator.running_in(user, session_id)
        if exchange is None:
            raise ApprovalNotFound
        asked = remaining(await self._sessions.exchange(user, exchange.exchange_id), ())
        decided = await asyncio.to_thread(decisions_of, exchange.exchange_id, asked, body.resume)
        # As it stands before, so that the client is shown no more than follows.
        after_seq, known = exchange.last_seq, exchange.messages
        if decided is None:
            await self._orchestrator.stop(user, session_id, exchange.exchange_id)
            return _Run(await self._orchestrator.view(user, exchange.exchange_id), body.sent, after_seq, known)
        tokens = tokens_of(request, user)
        going_on = await self._orchestrator.human_resume(user, None, exchange.exchange_id, decided, tokens)
        return _Run(going_on, body.sent, after_seq, known)

    async def _thread(self, user: User, thread_id: str) -> _Run:
        """What runs or waits in a thread, with what was said before it, or all messages if nothing does."""
        session_id, _ = await self._session_of(user, thread_id)
        if session_id is None:
            return _Run(None, list, only_shows=True)
        session, exchange = await self._orchestrator.running_in(user, session_id)
        _, messages = await self._sessions.messages(user, session_id, max(-1, session.next_rank - 1 - _SHOWN), _SHOWN)
        running = None if exchange is None else exchange.exchange_id
        past = [each for each in messages if each.exchange_id != running or each.role is Role.USER]
        shown = [
            told_message
            for each in past
            for told_message in told(each, each.exchange_id, stored_id_of(each.exchange_id, each.rank))
        ]
        return _Run(exchange, lambda: shown, only_shows=True)

    async def _session_of(self, user: User, thread_id: str) -> tuple[str | None, str | None]:
        """The id of a thread's session, or of the one to open. A name of the client's own names the same each time."""
        named = _named(user.id, thread_id)
        for session_id in (thread_id, named):
            with suppress(SessionNotFound):
                return (await self._sessions.record(user, session_id)).id, None
        return None, named


async def _nothing_done(events: Sequence[AgUiEvent]) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    yield _sent(events)


async def _rendered(
    feed: Feed, renderer: RunRenderer, first: Sequence[AgUiEvent]
) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    yield _sent(first)
    async for events in feed.batches():
        rendered: list[AgUiEvent] = []
        for event in events:
            rendered += renderer.render(event)
            if renderer.is_over:
                yield _sent(rendered)
                return
        yield _sent(rendered)
    yield _sent(renderer.cut(why_cut(feed) or Internal()))


def _sent(events: Iterable[CamelValue]) -> list[ServerSentEvent]:
    return [ServerSentEvent(data=event.model_dump_json()) for event in events]


def _named(*parts: str) -> str:
    return sha256(orjson.dumps(["ag-ui", *parts])).hexdigest()[:32]
