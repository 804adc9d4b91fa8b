"""Follows an exchange for a client to which an answer only grows: its new text, its thoughts, and how it has ended.

OpenAI's forms take no text back. Where another text turns out to be the answer, that follows after an empty line. An
answer in a format is given whole, once it has been checked.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.events import AwaitingHuman, Delta, ErrorInfo, Event, Final, HumanRequests, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, FinishReason, TokenUsage
from agentic_backend.protocol.parts import text_of
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.transports.answer_text import AnswerText, answer_in
from agentic_backend.transports.openai.output_format import OutputFormat
from agentic_backend.transports.openai.people import PersonCall, calls_of, words_of
from agentic_backend.transports.sse import why_cut


@dataclass(frozen=True, slots=True)
class Asked:
    """An exchange, and what the client has of it."""

    exchange: ExchangeLog
    after_seq: int = 0
    known: Sequence[ChatMessage] = ()


_NO_USAGE = TokenUsage()

Finish = Literal["stop", "length", "content_filter", "tool_calls"]


@dataclass(frozen=True, slots=True)
class NewText:
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewThought:
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an answer has ended for its client: with a text, with an error, or with what a person is asked."""

    text: str = field(default="", repr=False)
    finish: Finish = "stop"
    """`length` also where it was stopped: it is not whole."""
    was_stopped: bool = False
    calls: Sequence[PersonCall] = ()
    usage: TokenUsage = _NO_USAGE
    error: ErrorInfo | None = None


Step = NewText | NewThought | Ended


class Answering:
    """One per request. `request_id` is told with an error of the connection."""

    def __init__(self, asked: Asked, output: OutputFormat | None, request_id: str) -> None:
        self._exchange = asked.exchange
        self._known = {message.rank for message in asked.known}
        self._output = output
        self._request_id = request_id
        self._answer = AnswerText(asked.known)
        self._is_parted = False
        """Whether an empty line comes before new text."""
        self._has_text = False
        self._block_of_thought: int | None = None

    @property
    def exchange_id(self) -> str:
        return self._exchange.exchange_id

    @property
    def session_id(self) -> str | None:
        """None if nothing is kept."""
        return self._exchange.session_id

    @property
    def thought(self) -> str:
        """The thoughts as they are stored: modules may have changed what was shown while they were written."""
        final = self._exchange.final
        messages = self._exchange.messages if final is None else final.messages
        thoughts = (each for each in messages if each.channel is Channel.THOUGHT and each.rank not in self._known)
        return "\n\n".join(text_of(each.parts) for each in thoughts)

    async def steps(self, feed: Feed) -> AsyncIterator[Sequence[Step]]:
        """The steps that come at once, in lists; the last one of all is an Ended."""
        async for events in feed.batches():
            steps: list[Step] = []
            for event in events:
                steps += self._thought(event)
                if self._output is None:
                    steps += self._text(event)
                if (ended := self._ended(event)) is not None:
                    yield [*steps, *await self._checked(ended)]
                    return
            if steps:
                yield steps
        yield [self._failed(why_cut(feed) or Internal())]

    def _text(self, event: Event) -> list[Step]:
        piece = self._answer.take(event)
        if piece is None:
            return []
        self._is_parted |= piece.replaces and self._has_text
        if not piece.text:
            return []
        text, self._is_parted, self._has_text = f"\n\n{piece.text}" if self._is_parted else piece.text, False, True
        return [NewText(text)]

    def _thought(self, event: Event) -> list[Step]:
        if isinstance(event, Delta) and event.channel is Channel.THOUGHT:
            begins = self._block_of_thought not in (None, event.block)
            self._block_of_thought = event.block
            return [NewThought(f"\n\n{event.text}" if begins else event.text)]
        if isinstance(event, Stream) and event.message.channel is Channel.THOUGHT and event.block is None:
            return [NewThought(text_of(event.message.parts))]
        return []

    def _ended(self, event: Event) -> Ended | None:
        match event:
            case AwaitingHuman() if event.seq == self._exchange.last_seq:
                return waiting(event.exchange_id, event.payload)
            case Final():
                return ended_by(event, self._request_id)
        return None

    async def _checked(self, ended: Ended) -> list[Step]:
        """The end, and before it what the client has not got of the text."""
        if ended.calls:
            words = f"\n\n{ended.text}" if self._has_text else ended.text
            return [NewText(words), ended]
        if self._output is None or ended.error is not None:
            return [ended]
        if ended.finish != "stop":
            return [NewText(ended.text), ended]
        try:
            text = await self._output.checked(ended.text)
        except AgenticError as error:
            return [self._failed(error)]
        return [NewText(text), Ended(text=text, usage=ended.usage)]

    def _failed(self, error: AgenticError) -> Ended:
        return Ended(error=ErrorInfo.of(error, self._request_id))


def waiting(exchange_id: str, asked: HumanRequests) -> Ended:
    """The answer of an exchange that waits for a person."""
    return Ended(text=words_of(exchange_id, asked), finish="tool_calls", calls=calls_of(exchange_id, asked))


def ended_by(final: Final, request_id: str) -> Ended:
    """The answer of an exchange that has ended."""
    if final.status.failed:
        return Ended(error=final.error or ErrorInfo.of(Internal(), request_id), usage=final.usage)
    answer = answer_in(final.messages)
    text = text_of(answer.parts) if answer is not None else ""
    if final.status is ExchangeStatus.STOPPED:
        return Ended(text=text, finish="length", was_stopped=True, usage=final.usage)
    reason = answer.metadata.finish_reason if answer is not None else None
    finish: Finish = "stop"
    if final.status is ExchangeStatus.BLOCKED or reason is FinishReason.CONTENT_FILTER:
        finish = "content_filter"
    elif reason is FinishReason.LENGTH:
        finish = "length"
    return Ended(text=text, finish=finish, usage=final.usage)
