"""The REST call of a chat completion."""

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from agentic_backend.auth.user import User
from agentic_backend.relay.feed import Feed
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.openai.answering import Answering, Ended, Finish, NewText, NewThought, Step
from agentic_backend.transports.openai.asks import IDEMPOTENCY, NOWHERE, Ask, Asks
from agentic_backend.transports.openai.chat_bodies import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatDelta,
    ChatToolCall,
    ChatUsage,
    ChunkChoice,
    CreateChatCompletion,
)
from agentic_backend.transports.openai.errors import OpenAIError, named_as_openai
from agentic_backend.transports.openai.told import told_by
from agentic_backend.transports.rest.operation import ATTACHING, RESUMING, RUNNING, Header, Operation, Streamed
from agentic_backend.transports.rest.rest_errors import json_response
from agentic_backend.transports.sse import ServerSentEvent

CONVERSATION = Header(
    "X-Conversation-Id", "The conversation that the server keeps: a name that the client chooses.", "weather-in-bern"
)
_DONE = ServerSentEvent(data="[DONE]")


class ChatCompletionsApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._asks = Asks(services)

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                "/v1/chat/completions",
                self.create_chat_completion,
                answer=Streamed(
                    "application/json", ChatCompletion, or_events=ChatCompletionChunk, plain_data=_DONE.data
                ),
                headers=(CONVERSATION, IDEMPOTENCY),
                errors=(*ATTACHING, *RESUMING, *RUNNING),
                error_form=OpenAIError,
                refused_as="ask",
                has_files=True,
            )
        ]

    async def create_chat_completion(self, request: Request, user: User, body: CreateChatCompletion) -> Response:
        """Ask an agent, in a conversation that the request names or brings with it; it stops when the client goes.

        With `stream` the answer is a stream of chunks, which ends with `[DONE]`. A failure in a stream is an object
        with an `error`.
        """
        with self._door.kpi.calls.refusals("ask"), named_as_openai():
            told = told_by(body.said())
            conversation = request.headers.get(CONVERSATION.name) or body.metadata.get("conversation_id")
            place = NOWHERE if conversation is None else await self._asks.place_of(user, conversation)
            output = body.response_format.output if body.response_format is not None else None
            ask = Ask(agent_id=body.model, told=told, output=output, place=place)
            stream = partial(_streamed, body) if body.stream else None
            return await self._asks.answer(request, user, ask, stream=stream, whole=partial(_whole, body))


def _whole(body: CreateChatCompletion, answering: Answering, ended: Ended, thought: str) -> Response:
    return json_response(ChatCompletion.of(_id(answering), int(time.time()), body.model, ended, thought))


def _streamed(
    body: CreateChatCompletion, answering: Answering, feed: Feed
) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
    includes_usage = body.stream_options is not None and body.stream_options.include_usage
    return _Chunks(answering, body.model, includes_usage=includes_usage).sent(feed)


def _id(answering: Answering) -> str:
    return f"chatcmpl-{answering.exchange_id}"


class _Chunks:
    """The chunks of one answer."""

    def __init__(self, answering: Answering, model: str, *, includes_usage: bool) -> None:
        self._answering = answering
        self._of_all = {"id": _id(answering), "created": int(time.time()), "model": model}
        self._includes_usage = includes_usage

    async def sent(self, feed: Feed) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
        yield [self._chunk(ChatDelta(role="assistant", content=""))]
        async for steps in self._answering.steps(feed):
            yield [event for step in steps for event in self._events(step)]

    def _events(self, step: Step) -> Iterator[ServerSentEvent]:
        match step:
            case NewText(text):
                yield self._chunk(ChatDelta(content=text))
            case NewThought(text):
                yield self._chunk(ChatDelta(reasoning_content=text))
            case Ended():
                yield from self._end(step)

    def _end(self, ended: Ended) -> Iterator[ServerSentEvent]:
        if ended.error is not None:
            yield ServerSentEvent(data=OpenAIError.of(ended.error).model_dump_json())
            return
        if ended.calls:
            calls = [ChatToolCall.of(call, index) for index, call in enumerate(ended.calls)]
            yield self._chunk(ChatDelta(tool_calls=calls))
        yield self._chunk(ChatDelta(), ended.finish)
        if self._includes_usage:
            yield _sent(ChatCompletionChunk(**self._of_all, choices=[], usage=ChatUsage.of(ended.usage)))
        yield _DONE

    def _chunk(self, delta: ChatDelta, finish: Finish | None = None) -> ServerSentEvent:
        return _sent(ChatCompletionChunk(**self._of_all, choices=[ChunkChoice(delta=delta, finish_reason=finish)]))


def _sent(chunk: ChatCompletionChunk) -> ServerSentEvent:
    return ServerSentEvent(data=chunk.model_dump_json())
