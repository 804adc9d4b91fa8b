"""AnswerText: the text of an exchange's answer as it grows, for clients that show nothing but the answer. Pure.

While a text is being written, nobody knows whether it will be the answer: the model may call a tool after it, another
text may follow, a module may change it. So a client is given new text at once, and a piece that `replaces` all text
before it where that turns out to be something else. Invariant: what a client has put together so is, once the exchange
has ended, the text of its final message.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agentic_backend.protocol.events import Delta, Event, Final, PartialText, Reset, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of
from agentic_backend.text.growing_text import GrowingText


class Piece(NamedTuple):
    text: str
    replaces: bool
    """Whether it takes the place of all text before it."""


class AnswerText:
    """Of texts that are written at the same time, only one is shown: the one that began last, the agent's own before
    those of graphs within it. What a graph within a tool says is the tool's affair.
    """

    def __init__(self, known: Iterable[ChatMessage] = ()) -> None:
        """`known` are the messages before the first event."""
        self._text = GrowingText()
        """What the client has put together."""
        self._is_empty = True
        self._block: int | None = None
        """The block in which that text is being written; None if it is not."""
        self._is_own = False
        """Whether that is a text of the agent's own graph."""
        self._newest_block = -1
        self._open_calls: set[str] = set()
        """The ids of the tool calls that have no result yet."""
        self._note_calls(known)

    @property
    def text(self) -> str:
        return self._text.joined()

    def take(self, event: Event) -> Piece | None:
        """What `event` changes in the client's text, if anything."""
        match event:
            case Delta():
                return self._written(event)
            case Stream():
                return self._stored(event.message, event.block)
            case Reset():
                self._note_calls(event.messages)
                return self._begin_anew(_text_in(event.messages), event.partial)
            case Final():
                return self._become(_text_in(event.messages) or "")
        return None

    def _written(self, delta: Delta) -> Piece | None:
        is_new, self._newest_block = delta.block > self._newest_block, max(self._newest_block, delta.block)
        if delta.block == self._block:
            return self._add(delta.text)
        # Of a block that has begun before, the beginning is missing.
        if not is_new or not self._may_show(delta.channel):
            return None
        self._block, self._is_own = delta.block, delta.channel is Channel.FINAL
        return self._replace(delta.text)

    def _may_show(self, channel: Channel) -> bool:
        """Whether a text on this channel may take the place of the one that is being written."""
        if channel is Channel.OBSERVATION:
            is_own_in_the_way = self._block is not None and self._is_own
            return not self._open_calls and not is_own_in_the_way
        return channel is Channel.FINAL

    def _stored(self, message: ChatMessage, block: int | None) -> Piece | None:
        self._note_calls([message])
        is_shown = block is not None and block == self._block
        if is_shown:
            self._block = None
        if _is_answer(message):
            return self._become(text_of(message.parts))
        return self._become("") if is_shown else None

    def _begin_anew(self, answer: str | None, partial: Sequence[PartialText]) -> Piece | None:
        self._block = None
        shown = [text for text in partial if self._may_show(text.channel)]
        if answer is None and shown:
            last = max(shown, key=lambda text: (text.channel is Channel.FINAL, text.block))
            self._block, self._is_own, answer = last.block, last.channel is Channel.FINAL, last.text
        self._newest_block = max((text.block for text in partial), default=self._newest_block)
        return self._become(answer or "")

    def _note_calls(self, messages: Iterable[ChatMessage]) -> None:
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    self._open_calls.add(part.call_id)
                elif isinstance(part, ToolResultPart):
                    self._open_calls.discard(part.call_id)

    def _become(self, text: str) -> Piece | None:
        shown = self._text.joined()
        return self._add(text[len(shown) :]) if text.startswith(shown) else self._replace(text)

    def _add(self, text: str) -> Piece | None:
        if not text:
            return None
        self._text.add(text)
        self._is_empty = False
        return Piece(text, replaces=False)

    def _replace(self, text: str) -> Piece | None:
        if self._is_empty:
            return self._add(text)
        self._text, self._is_empty = GrowingText(text), not text
        return Piece(text, replaces=True)


def _is_answer(message: ChatMessage) -> bool:
    return message.role is Role.ASSISTANT and message.channel is Channel.FINAL


def answer_in(messages: Sequence[ChatMessage]) -> ChatMessage | None:
    """The answer among the messages of an exchange, if it has one."""
    return next(filter(_is_answer, reversed(messages)), None)


def _text_in(messages: Sequence[ChatMessage]) -> str | None:
    answer = answer_in(messages)
    return text_of(answer.parts) if answer is not None else None
