"""AnswerText: the text of an exchange's answer as it grows, for clients that show nothing but the answer. Pure.

While a text is being written, nobody knows whether it will be the answer: the model may call a tool after it, another
text may follow, a module may change it. So a client is given new text at once, and a piece that `replaces` all text
before it where that turns out to be something else. Invariant: what a client has put together so is, once the exchange
has ended, the text of its final message.
"""

from collections.abc import Sequence
from typing import NamedTuple

from agentic_backend.growing_text import GrowingText
from agentic_backend.protocol.events import Delta, Event, Final, Reset, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, Role
from agentic_backend.protocol.parts import text_of


class Piece(NamedTuple):
    text: str
    replaces: bool
    """Whether it takes the place of all text before it."""


class AnswerText:
    def __init__(self) -> None:
        self._text = GrowingText()
        """What the client has put together."""
        self._is_empty = True
        self._block: int | None = None
        """The block in which that text is being written."""

    @property
    def text(self) -> str:
        return self._text.joined()

    def take(self, event: Event) -> Piece | None:
        """What `event` changes in the client's text, if anything."""
        match event:
            case Delta(channel=Channel.FINAL):
                return self._written(event.block, event.text)
            case Stream() if _is_answer(event.message):
                return self._become(text_of(event.message.parts))
            case Stream() if event.block is not None and event.block == self._block:
                return self._become("")
            case Reset():
                return self._begin_anew(event)
            case Final():
                answer = answer_in(event.messages)
                return self._become("" if answer is None else text_of(answer.parts))
        return None

    def _written(self, block: int, text: str) -> Piece | None:
        """Of texts that are written at the same time, only the one that began last is shown."""
        if self._block is None or block > self._block:
            self._block = block
            return self._replace(text)
        return self._add(text) if block == self._block else None

    def _begin_anew(self, reset: Reset) -> Piece | None:
        unfinished = max(
            (text for text in reset.partial if text.channel is Channel.FINAL), key=lambda text: text.block, default=None
        )
        if (answer := answer_in(reset.messages)) is not None:
            return self._become(text_of(answer.parts))
        if unfinished is None:
            return self._become("")
        self._block = unfinished.block
        return self._become(unfinished.text)

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
