"""ToolCalls: asks an agent for a client's call of a tool, and streams what comes of it.

An exchange belongs to its session and not to the stream of its call, as MCP has it: a client whose connection breaks
takes the stream up again (`ResumePoint`), and one that wants no more cancels.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

import orjson
from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError, AgentNotFound, Internal, TokenExpired, Unauthenticated
from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, Event, Final, HumanRequests
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.mcp.agent_tools import (
    GET_ANSWER,
    AskAgent,
    GetAnswer,
    arguments_in,
    ended_result,
    exposed,
    refused_result,
    unfinished_result,
    waiting_result,
)
from agentic_backend.transports.mcp.client_session import ClientSession
from agentic_backend.transports.mcp.elicitations import ElicitationId, form_of
from agentic_backend.transports.mcp.messages import (
    INVALID_PARAMS,
    ClientMessage,
    Json,
    RpcError,
    RpcId,
    ServerMessage,
    id_in,
)
from agentic_backend.transports.mcp.progress import Progress
from agentic_backend.transports.mcp.resume_point import ResumePoint
from agentic_backend.transports.rest.rest_errors import json_response, note_refusal
from agentic_backend.transports.sse import EventStream, ServerSentEvent, followed, why_cut


class ToolCalls:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._orchestrator = services.sessions.orchestrator
        self._sessions = services.sessions.service
        self._open: defaultdict[str, set[_OpenCall]] = defaultdict(set)
        """The calls that are being streamed here, by exchange id: as many as there are streams."""
        self._requests: dict[tuple[str, str | None, RpcId], _OpenCall] = {}
        """The same by the id of the user, the session of MCP and the id of the request."""

    async def call(self, request: Request, user: User, message: ClientMessage, client: ClientSession) -> Response:
        """Ask for what a `tools/call` asks. A refusal is a result too, which models read. Raises RpcError."""
        assert message.id is not None, "a call is a request"
        try:
            with self._door.kpi.calls.refusals("ask"), self._door.connections.stream(user.id) as place:
                # Before anything begins, as it may be wrong.
                token = message.progress_token
                exchange = await self._exchange(request, user, message, client)
                start = ResumePoint(
                    exchange_id=exchange.exchange_id, seq=0, told=0, request_id=message.id, progress_token=token
                )
                feed = followed(self._door, user, exchange, place)
                call = _OpenCall(user.id, exchange, start, client)
                return EventStream(self._streamed(call, feed), place.pop_all())
        except (Unauthenticated, TokenExpired):
            raise
        except AgenticError as error:
            request_id = self.note(error, request, user)
            return json_response(ServerMessage(id=message.id, result=refused_result(ErrorInfo.of(error, request_id))))

    async def resume(self, user: User, point: ResumePoint, client: ClientSession) -> Response:
        """Take up a stream again. Raises ExchangeNotFound."""
        with self._door.connections.stream(user.id) as place:
            exchange = await self._orchestrator.view(user, point.exchange_id)
            # Whoever has its end follows nothing; the answer to the call comes with that.
            after_seq = point.seq if exchange.final is None else min(point.seq, exchange.final.seq - 1)
            call = _OpenCall(user.id, exchange, point, client)
            if exchange.is_waiting and exchange.last_seq <= point.seq:
                call.note_shown(await self.waiting(user, point.exchange_id))
            feed = followed(self._door, user, exchange, place, after_seq=after_seq)
            return EventStream(self._streamed(call, feed), place.pop_all())

    async def cancel(self, user: User, message: ClientMessage, client: ClientSession) -> None:
        """End the call with the notification's `requestId`, without an answer, and stop what it has begun."""
        request_id = id_in(message.params.get("requestId"))
        if client.id is None or request_id is None:
            return
        if (call := self._requests.get((user.id, client.id, request_id))) is not None:
            call.cancel()
        exchange_id = await self._orchestrator.asked_as(user, _key(client.id, request_id))
        if exchange_id is not None:
            await self._orchestrator.stop(user, None, exchange_id)

    def give_up(self, exchange_id: str, reason: str | None = None) -> None:
        """Answer the calls that wait here for a person who has not decided: the exchange goes on waiting.

        `reason` is what was wrong with an answer of theirs.
        """
        for call in self._open.get(exchange_id, ()):
            call.give_up(reason)

    def note(self, error: AgenticError, request: Request, user: User) -> str:
        """Log and count a refusal that is no HTTP error; its request id."""
        self._door.kpi.refusals.refused("rest", error.code, user.id)
        return note_refusal(error, request.url.path, user)

    async def waiting(self, user: User, exchange_id: str) -> HumanRequests:
        """What an exchange of the user asks a person. Raises ExchangeNotFound."""
        return remaining(await self._sessions.exchange(user, exchange_id), ())

    async def _exchange(
        self, request: Request, user: User, message: ClientMessage, client: ClientSession
    ) -> ExchangeLog:
        name = message.params.get("name")
        if name == GET_ANSWER:
            wanted: GetAnswer = arguments_in(message.params, GetAnswer)
            return await self._orchestrator.view(user, wanted.exchange_id)
        tools = exposed(self._door.agents.served_for(user), self._door.mcp_agents)
        if name not in [agent.settings.id for agent in tools]:
            raise RpcError(INVALID_PARAMS, "There is no such tool.")
        asked: AskAgent = arguments_in(message.params, AskAgent)
        turn = Turn(
            parts=[TextPart(text=asked.message)],
            session_id=asked.session_id,
            agent_id=name,
            attachments=asked.attachments,
            client_exchange_id=_key(client.id, message.id)
            if client.id is not None and message.id is not None
            else None,
        )
        try:
            return await self._orchestrator.ask(user, turn, tokens_of(request, user), current_origin().request_id)
        except AgentNotFound:
            raise RpcError(INVALID_PARAMS, "There is no such tool.") from None

    async def _streamed(self, call: "_OpenCall", feed: Feed) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
        with self._opened(call, feed):
            async for events in call.events(feed):
                yield events

    @contextmanager
    def _opened(self, call: "_OpenCall", feed: Feed) -> Iterator[None]:
        calls = self._open[call.exchange_id]
        calls.add(call)
        self._requests[call.request] = call
        call.feed = feed
        try:
            yield
        finally:
            if self._requests.get(call.request) is call:
                del self._requests[call.request]
            calls.discard(call)
            if not calls:
                self._open.pop(call.exchange_id, None)


class _OpenCall:
    """One stream of a call."""

    def __init__(self, user_id: str, exchange: ExchangeLog, start: ResumePoint, client: ClientSession) -> None:
        self.request = (user_id, client.id, start.request_id)
        self._exchange = exchange
        self._point = start
        self._client = client
        self._progress = Progress()
        self._asked: HumanRequests | None = None
        """What the exchange waits for, if it waits."""
        self._elicited: set[str] = set()
        self.feed: Feed | None = None
        self._is_cancelled = False
        """Whether the client wants no answer any more."""
        self._is_given_up = False
        self._reason: str | None = None

    @property
    def exchange_id(self) -> str:
        return self._exchange.exchange_id

    def cancel(self) -> None:
        self._is_cancelled = True
        if self.feed is not None:
            self.feed.end(CloseCode.GOING_AWAY)

    def note_shown(self, asked: HumanRequests) -> None:
        """Take note of what the client was asked on the stream that this one goes on with."""
        self._asked = asked
        self._elicited = {ElicitationId.of(self.exchange_id, each).encode() for each in asked.requests[:1]}

    def give_up(self, reason: str | None) -> None:
        if self._asked is not None and self.feed is not None:
            self._is_given_up, self._reason = True, reason
            self.feed.end(CloseCode.GOING_AWAY)

    async def events(self, feed: Feed) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
        if self._client.primes and not self._point.seq:
            # So that the stream can be taken up again before there is anything to tell.
            yield [ServerSentEvent(data="", id=self._point.encode())]
        async for events in feed.batches():
            sent: list[ServerSentEvent] = []
            for event in events:
                sent += map(self._sent, self._messages(event))
                if (result := self._result(event)) is not None:
                    yield sent if self._is_cancelled else [*sent, self._answer(result)]
                    return
            if sent:
                yield sent
        if self._is_cancelled:
            return
        if self._is_given_up and self._asked is not None:
            waiting = waiting_result(self._asked, self._exchange.session_id, self.exchange_id, self._reason)
            yield [self._answer(waiting)]
        elif not self._client.primes:
            error = ErrorInfo.of(why_cut(feed) or Internal(), current_origin().request_id)
            yield [self._answer(unfinished_result(error, self._exchange.session_id, self.exchange_id))]
        # Any other client takes the stream up again: with a new token, or at another instance.

    def _messages(self, event: Event) -> Iterator[ServerMessage]:
        """What the client is told of an event before the answer."""
        seq = getattr(event, "seq", self._point.seq)
        self._point = self._point.model_copy(update={"seq": seq})
        if self._point.progress_token is not None:
            for words in self._progress.told_by(event):
                told = self._point.told + 1
                self._point = self._point.model_copy(update={"told": told})
                params: Json = {"progressToken": self._point.progress_token, "progress": told, "message": words}
                yield ServerMessage(method="notifications/progress", params=params)
        self._asked = event.payload if self._waits(event) and isinstance(event, AwaitingHuman) else None
        if self._asked is not None and (form := self._next_form()) is not None:
            yield form

    def _waits(self, event: Event) -> bool:
        """Whether the exchange waits with this event; a later one tells that it was decided on."""
        return isinstance(event, AwaitingHuman) and event.seq == self._exchange.last_seq

    def _next_form(self) -> ServerMessage | None:
        """The form of the first thing that is asked and that this stream has not shown: one at a time."""
        assert self._asked is not None
        if not self._client.elicits:
            return None
        for request in self._asked.requests:
            elicitation_id = ElicitationId.of(self.exchange_id, request).encode()
            form = form_of(request, self._asked.title)
            if elicitation_id not in self._elicited and form is not None:
                self._elicited.add(elicitation_id)
                return ServerMessage(id=elicitation_id, method="elicitation/create", params=form)
        return None

    def _result(self, event: Event) -> Json | None:
        """The result that the event brings, if it does."""
        if isinstance(event, Final):
            return ended_result(event, current_origin().request_id)
        if self._asked is not None and not any(
            ElicitationId.of(self.exchange_id, request).encode() in self._elicited for request in self._asked.requests
        ):
            return waiting_result(self._asked, self._exchange.session_id, self.exchange_id)
        return None

    def _answer(self, result: Json) -> ServerSentEvent:
        return self._sent(ServerMessage(id=self._point.request_id, result=result))

    def _sent(self, message: ServerMessage) -> ServerSentEvent:
        return ServerSentEvent(data=message.model_dump_json(), id=self._point.encode())


def _key(session_id: str, request_id: RpcId) -> str:
    """The client's id for the exchange of a call."""
    return f"mcp-{sha256(orjson.dumps([session_id, request_id])).hexdigest()[:32]}"
