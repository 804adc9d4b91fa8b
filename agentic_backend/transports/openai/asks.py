"""Asks: begins or continues the exchange that a request asks for, in the conversation that it names."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.errors import (
    AgenticError,
    ApprovalNotFound,
    BadFrame,
    SessionBusy,
    SessionNotFound,
    StoreUnavailable,
)
from agentic_backend.protocol.events import ErrorInfo, HumanRequests
from agentic_backend.protocol.frames import LONGEST_ID
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.attached import GivenFile
from agentic_backend.sessions.asking.turn import PastMessage, Turn
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.openai.answering import Answering, Asked, Ended
from agentic_backend.transports.openai.errors import error_of
from agentic_backend.transports.openai.output_format import OutputFormat
from agentic_backend.transports.openai.people import decisions_of, said_in_words, words_of
from agentic_backend.transports.openai.told import EncodedFile, Told
from agentic_backend.transports.rest.operation import Header
from agentic_backend.transports.sse import EventStream, ServerSentEvent, followed
from agentic_backend.transports.whole_answer import WholeAnswer

IDEMPOTENCY = Header(
    "Idempotency-Key", "The client's own id for what it asks in a conversation: sent again, it begins nothing.", "a-1"
)


class Place(NamedTuple):
    """The session of a conversation: one that there is, or the id of the one to open. Without both nothing is kept."""

    session_id: str | None
    new_session_id: str | None
    branch_rank: int | None = None
    """Where a branch of that session begins, in which it is asked; None if it is asked in the session itself."""


NOWHERE = Place(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a request asks, whatever its form."""

    agent_id: str
    told: Told
    output: OutputFormat | None = None
    place: Place


Chunks = Callable[[Answering, Feed], AsyncGenerator[Sequence[ServerSentEvent], None]]
"""Renders an answer as it grows."""
Whole = Callable[[Answering, Ended, str], Response]
"""Renders an answer that has ended, with the thoughts before it."""


class Asks:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service
        self._orchestrator = services.sessions.orchestrator
        self._attachments = services.sessions.attachments
        self._branches = services.sessions.branches

    async def place_of(self, user: User, conversation: str) -> Place:
        """Where the conversation of this name is. A name of the client's own leads to the same session each time."""
        named = sha256(orjson.dumps(["openai", user.id, conversation])).hexdigest()[:32]
        for session_id in (conversation, named):
            with suppress(SessionNotFound):
                return Place((await self._sessions.record(user, session_id)).id, None)
        return Place(None, named)

    async def answer(self, request: Request, user: User, ask: Ask, *, stream: Chunks | None, whole: Whole) -> Response:
        """Begin what is asked, and answer it: with a `stream`, else once it has ended. It stops with its client."""
        door, request_id = self._door, current_origin().request_id
        with door.connections.stream(user.id) as place:
            asked = await self.begin(request, user, ask)
            feed = followed(door, user, asked.exchange, place, after_seq=asked.after_seq, stops_with_client=True)
            answering = Answering(asked, ask.output, request_id)
            if stream is not None:
                return EventStream(stream(answering, feed), place.pop_all())

            async def answered() -> Response:
                async for steps in answering.steps(feed):
                    for step in steps:
                        match step:
                            case Ended(error=ErrorInfo() as error):
                                return error_of(error, may_repeat=answering.session_id is None)
                            case Ended():
                                return whole(answering, step, answering.thought)
                raise AssertionError("an answer ends")

            return WholeAnswer(answered, place.pop_all())

    async def begin(self, request: Request, user: User, ask: Ask) -> Asked:
        """Raises as SessionOrchestrator.ask and human_resume do."""
        if ask.told.answers:
            return await self._decided(request, user, ask)
        if ask.place == NOWHERE:
            return await self._ask(request, user, await self._query(user, ask))
        try:
            return await self._asked_in_session(request, user, ask)
        except SessionBusy:
            decided = await self._decided_in_words(request, user, ask)
            if decided is None:
                raise
            return decided

    async def _ask(self, request: Request, user: User, turn: Turn) -> Asked:
        request_id = current_origin().request_id
        return Asked(await self._orchestrator.ask(user, turn, tokens_of(request, user), request_id))

    def _check_number(self, files: int) -> None:
        """Raise BadFrame for more files than an ask may have, before one is looked at."""
        if files > self._door.limits.attachments_per_ask:
            raise BadFrame(f"messages: more files than the limit of {self._door.limits.attachments_per_ask}")

    async def _query(self, user: User, ask: Ask) -> Turn:
        self._check_number(sum(len(each.files) for each in (*ask.told.past, *ask.told.asked)))
        past = [
            PastMessage(
                "user" if each.role == "user" else "assistant",
                _words(each.text, each.files),
                await self._given(user, each.files),
            )
            for each in ask.told.past
        ]
        return Turn(
            parts=[TextPart(text=_words(ask.told.text, ask.told.files))],
            mode="query",
            agent_id=ask.agent_id,
            instructions=_instructions(ask),
            history=past,
            files=await self._given(user, ask.told.files),
        )

    async def _given(self, user: User, files: Sequence[EncodedFile]) -> list[GivenFile]:
        given: list[GivenFile] = []
        for file in files:
            async with self._attachments.uploading(user):
                name, content = await self._decoded(file)
                given.append(await self._attachments.examined(user, name, content))
        return given

    async def _decoded(self, file: EncodedFile) -> tuple[str, bytes]:
        return await asyncio.to_thread(file.decoded, self._door.limits.attachment_bytes)

    async def _asked_in_session(self, request: Request, user: User, ask: Ask) -> Asked:
        key = _idempotency_key(request)
        if key is not None and (asked_before := await self._orchestrator.asked_as(user, key)) is not None:
            # Before a branch is made and files are kept, which nobody would need.
            return Asked(await self._orchestrator.view(user, asked_before))
        session_id = ask.place.session_id
        if session_id is None or ask.place.branch_rank is None:
            return await self._asked_in(request, user, ask, session_id, key)
        branch = await self._branches.fork(user, session_id, ask.place.branch_rank)
        try:
            return await self._asked_in(request, user, ask, branch.id, key)
        except StoreUnavailable:
            # The exchange may have begun.
            raise
        except AgenticError:
            with suppress(AgenticError):
                await self._sessions.delete(user, branch.id)
            raise

    async def _asked_in(self, request: Request, user: User, ask: Ask, session_id: str | None, key: str | None) -> Asked:
        self._check_number(len(ask.told.files))
        attachments: list[str] = []
        try:
            for file in ask.told.files:
                async with self._attachments.uploading(user):
                    name, content = await self._decoded(file)
                    attachments.append((await self._attachments.add_bytes(user, name, content)).id)
            turn = Turn(
                parts=[TextPart(text=_words(ask.told.text, ask.told.files))],
                session_id=session_id,
                new_session_id=ask.place.new_session_id,
                agent_id=ask.agent_id,
                attachments=attachments,
                client_exchange_id=key,
                instructions=_instructions(ask),
            )
            return await self._ask(request, user, turn)
        except AgenticError:
            for attachment_id in attachments:
                # What was sent all the same belongs to its session.
                with suppress(AgenticError):
                    await self._attachments.delete(user, attachment_id)
            raise

    async def _decided(self, request: Request, user: User, ask: Ask) -> Asked:
        waiting = await self._waiting_in(user, ask.place)
        if waiting is None:
            raise ApprovalNotFound
        exchange, asked = waiting
        return await self._decide(request, user, exchange, asked, ask.told)

    async def _decided_in_words(self, request: Request, user: User, ask: Ask) -> Asked | None:
        """Take the user's message as the answer to what was asked, if the client shows that just before it."""
        if (waiting := await self._waiting_in(user, ask.place)) is None:
            return None
        exchange, asked = waiting
        answers = said_in_words(exchange.exchange_id, asked, ask.told.text)
        if answers is None or not ask.told.last_answer.endswith(words_of(exchange.exchange_id, asked)):
            raise SessionBusy("The conversation waits for a person's answer to what was asked last.")
        told = Told(ask.told.instructions, ask.told.past, (), answers)
        return await self._decide(request, user, exchange, asked, told)

    async def _decide(
        self, request: Request, user: User, exchange: ExchangeLog, asked: HumanRequests, told: Told
    ) -> Asked:
        decisions = await asyncio.to_thread(decisions_of, exchange.exchange_id, asked, told.answers)
        # As it stands before, so that the client is shown no more than follows.
        after_seq, known = exchange.last_seq, exchange.messages
        decided = await self._orchestrator.human_resume(
            user, None, exchange.exchange_id, decisions, tokens_of(request, user)
        )
        return Asked(decided, after_seq, known)

    async def _waiting_in(self, user: User, place: Place) -> tuple[ExchangeLog, HumanRequests] | None:
        """The exchange that waits for a person there, and what it asks; none in a branch that is to be made."""
        if place.session_id is None or place.branch_rank is not None:
            return None
        _, running = await self._orchestrator.running_in(user, place.session_id)
        if running is None:
            return None
        record = await self._sessions.exchange(user, running.exchange_id)
        asked = remaining(record, ())
        return (running, asked) if asked.requests else None


def _words(text: str, files: Sequence[EncodedFile]) -> str:
    """The words of a message; of files that come without, their names: providers refuse messages without a word."""
    words = text or ", ".join(file.name or "a file" for file in files)
    if not words:
        raise BadFrame("messages: the user's message is empty")
    return words


def _instructions(ask: Ask) -> str:
    output = ask.output.instructions if ask.output is not None else ""
    return "\n\n".join(filter(None, [ask.told.instructions, output]))


def _idempotency_key(request: Request) -> str | None:
    """Raises BadFrame."""
    key = request.headers.get(IDEMPOTENCY.name)
    if key is not None and not 0 < len(key) <= LONGEST_ID:
        raise BadFrame(f"{IDEMPOTENCY.name}: expected up to {LONGEST_ID} characters")
    return key
