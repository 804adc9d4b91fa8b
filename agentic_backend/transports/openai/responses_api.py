"""The REST calls of responses: create one, fetch it, cancel it."""

import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.feed import Feed
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.openai.answering import Answering, Ended, NewText, NewThought, Step, ended_by, waiting
from agentic_backend.transports.openai.asks import IDEMPOTENCY, NOWHERE, Ask, Asks, Place
from agentic_backend.transports.openai.errors import OpenAIError, named_as_openai
from agentic_backend.transports.openai.response_bodies import CreateResponse, GivenText, OpenAIResponse, ResponseEvent
from agentic_backend.transports.openai.response_events import ResponseEvents
from agentic_backend.transports.openai.told import Told, told_by
from agentic_backend.transports.rest.operation import ATTACHING, RESUMING, RUNNING, Operation, Streamed
from agentic_backend.transports.rest.rest_errors import json_response
from agentic_backend.transports.rest.rest_input import NoFields
from agentic_backend.transports.sse import ServerSentEvent

_PREFIX = "resp_"


class ResponsesApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._asks = Asks(services)
        self._sessions = services.sessions.service
        self._orchestrator = services.sessions.orchestrator

    def operations(self) -> list[Operation]:
        path, found = "/v1/responses/{id}", (ExchangeNotFound,)
        return [
            Operation(
                "POST",
                "/v1/responses",
                self.create_response,
                answer=Streamed("application/json", OpenAIResponse, or_events=ResponseEvent),
                headers=(IDEMPOTENCY,),
                errors=(*ATTACHING, *RESUMING, *RUNNING),
                error_form=OpenAIError,
                refused_as="ask",
                has_files=True,
            ),
            Operation("GET", path, self.get_response, errors=found, error_form=OpenAIError),
            Operation("POST", f"{path}/cancel", self.cancel_response, errors=found, error_form=OpenAIError),
        ]

    async def create_response(self, request: Request, user: User, body: CreateResponse) -> Response:
        """Ask an agent; it stops when the client goes.

        With `stream` the answer is a stream of events, which ends with `response.completed`, `response.incomplete` or
        `response.failed`.
        """
        with self._door.kpi.calls.refusals("ask"), named_as_openai("input"):
            told = told_by(body.said())
            place = await self._place_of(user, body, told)
            ask = Ask(agent_id=body.model, told=told, output=body.text.output, place=place)
            stream = partial(_streamed, body) if body.stream else None
            return await self._asks.answer(request, user, ask, stream=stream, whole=partial(_whole, body))

    async def get_response(self, user: User, id: str) -> OpenAIResponse:
        """A response that is kept: the answer of any exchange in a session, whoever has asked it."""
        record = await self._sessions.exchange(user, _exchange_id(id))
        begun = OpenAIResponse(
            id=f"{_PREFIX}{record.id}",
            created_at=int(record.started_at.timestamp()),
            status="in_progress",
            model=record.agent_id,
            store=True,
            conversation={"id": record.session_id},
        )
        if record.status is ExchangeStatus.RUNNING:
            return begun
        if record.status is ExchangeStatus.AWAITING_HUMAN:
            return _answered(begun, waiting(record.id, remaining(record, ())), begun.created_at)
        log = await self._orchestrator.view(user, record.id)
        if log.final is None:
            return begun
        ended_at = record.ended_at or record.started_at
        return _answered(begun, ended_by(log.final, record.request_id), int(ended_at.timestamp()))

    async def cancel_response(self, user: User, id: str, body: NoFields) -> OpenAIResponse:
        """Stop a response that is being answered, or that waits for a person; one that has ended stays as it is."""
        await self._orchestrator.stop(user, None, _exchange_id(id))
        return await self.get_response(user, id)

    async def _place_of(self, user: User, body: CreateResponse, told: Told) -> Place:
        if body.conversation_name is not None:
            return await self._asks.place_of(user, body.conversation_name)
        if body.previous_response_id is not None:
            return await self._after(user, _exchange_id(body.previous_response_id))
        # A session can't begin with messages that nobody has asked in it.
        return Place(None, uuid4().hex) if body.store and not told.past else NOWHERE

    async def _after(self, user: User, exchange_id: str) -> Place:
        """In the exchange's session or, where that has gone on since, in a branch of it."""
        record = await self._sessions.exchange(user, exchange_id)
        if not record.status.ended:
            return Place(record.session_id, None)
        log = await self._orchestrator.view(user, exchange_id)
        session = await self._sessions.record(user, record.session_id)
        next_rank = session.next_rank if log.final is None else log.final.messages[-1].rank + 1
        if next_rank == session.next_rank:
            return Place(session.id, None)
        return Place(session.id, None, branch_rank=next_rank)


def _exchange_id(response_id: str) -> str:
    """Raises ExchangeNotFound."""
    if not response_id.startswith(_PREFIX):
        raise ExchangeNotFound
    return response_id.removeprefix(_PREFIX)


def _begun(body: CreateResponse, answering: Answering) -> OpenAIResponse:
    conversation = answering.session_id
    return OpenAIResponse(
        id=f"{_PREFIX}{answering.exchange_id}",
        created_at=int(time.time()),
        status="in_progress",
        model=body.model,
        instructions=body.instructions,
        previous_response_id=body.previous_response_id,
        conversation=None if conversation is None else {"id": conversation},
        store=conversation is not None,
        text=GivenText.of(body.text),
        metadata=body.metadata,
    )


def _whole(body: CreateResponse, answering: Answering, ended: Ended, thought: str) -> Response:
    return json_response(_answered(_begun(body, answering), ended, int(time.time()), thought))


def _answered(begun: OpenAIResponse, ended: Ended, now: int, thought: str = "") -> OpenAIResponse:
    steps: list[Step] = [NewThought(thought)] if thought else []
    if ended.text:
        steps.append(NewText(ended.text))
    return ResponseEvents(begun).whole(iter([*steps, ended]), now)


async def _streamed(
    body: CreateResponse, answering: Answering, feed: Feed
) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    events = ResponseEvents(_begun(body, answering))
    yield list(map(_sent, events.begin()))
    async for steps in answering.steps(feed):
        yield [_sent(event) for step in steps for event in events.of(step, int(time.time()))]


def _sent(event: ResponseEvent) -> ServerSentEvent:
    return ServerSentEvent(data=event.model_dump_json(), event=event.type)
