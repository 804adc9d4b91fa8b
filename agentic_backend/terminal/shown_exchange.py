"""ShownExchange: the events of one exchange as text."""

from typing import assert_never

from agentic_backend.client import (
    Activity,
    AwaitingHuman,
    ChatMessage,
    Delta,
    Event,
    ExchangeError,
    Final,
    Reset,
    Started,
    Stream,
)
from agentic_backend.protocol.events import ErrorDetail
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    FilePart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)
from agentic_backend.terminal.safe_text import safe_line
from agentic_backend.terminal.screen import Screen, Style
from agentic_backend.text.growing_text import GrowingText
from agentic_backend.text.invisible_characters import shown, shown_json

_ANSWERS = frozenset({Channel.FINAL})
_AGAIN = "The answer is shown again from its beginning:"
_SPOKEN = frozenset({Channel.FINAL, Channel.PLAN, Channel.THOUGHT, Channel.OBSERVATION})


class ShownExchange:
    """Writes each event to a screen: texts as they come where somebody watches, else whole messages."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._block: int | None = None
        """The block whose text is being written."""
        self._texts: dict[int, GrowingText] = {}
        """The text so far of each open block, also of those that wait for their turn."""
        self._ranks: set[int] = set()
        """The messages that were shown."""
        self._begun = False
        self._error_shown = False
        self._faults: set[str] = set()
        """What was shown in red."""

    def show(self, event: Event) -> None:
        match event:
            case Started():
                self._begin([])
            case Reset(messages=messages, partial=partial):
                self._begin(messages)
                for text in partial:
                    self._add(text.block, text.channel, text.text)
            case Delta(block=block, channel=channel, text=text):
                self._add(block, channel, text)
            case Stream(message=message, block=block):
                self._complete(message, block)
            case Activity(kind=kind, data=data):
                self._screen.note(safe_line(f"· {kind}: {_facts(data)}"))
            case AwaitingHuman():
                self._screen.end_line()
            case ExchangeError(content=content, detail=detail):
                self._fail(content, detail)
            case Final():
                self._end(event)

    def _begin(self, messages: list[ChatMessage]) -> None:
        """Show it from its beginning."""
        if self._begun:
            self._screen.note(_AGAIN)
        self._begun = True
        self._block, self._texts, self._ranks = None, {}, set()
        for message in messages:
            self._message(message)

    def _add(self, block: int, channel: Channel, text: str) -> None:
        so_far = self._texts.setdefault(block, GrowingText())
        so_far.add(text)
        if not self._screen.is_live or channel not in _SPOKEN:
            return
        if self._block is None:
            # One block at a time: a line of two voices can't be read.
            self._block, text = block, so_far.joined()
            self._screen.end_line()
        if self._block == block:
            self._screen.write(text, _style(channel))

    def _complete(self, message: ChatMessage, block: int | None) -> None:
        written = GrowingText() if block is None else self._texts.pop(block, GrowingText())
        if block is None or block != self._block:
            self._message(message)
            return
        self._block = None
        self._screen.end_line()
        text = text_of([part for part in message.parts if not isinstance(part, ToolResultPart)])
        if text.strip() != written.joined().strip():
            self._message(message)
            return
        self._ranks.add(message.rank)
        self._beside_text(message)

    def _message(self, message: ChatMessage) -> None:
        """A whole message."""
        if message.rank in self._ranks:
            return
        self._ranks.add(message.rank)
        if message.role is Role.USER:
            return
        text = text_of([part for part in message.parts if not isinstance(part, ToolResultPart)])
        if text.strip() and message.channel in _ANSWERS:
            self._screen.say(text)
        elif text.strip() and message.channel is Channel.ERROR:
            self._fault(text.rstrip("\n"))
        elif text.strip():
            self._screen.note(text.rstrip("\n"))
        self._beside_text(message)

    def _beside_text(self, message: ChatMessage) -> None:
        """The parts of a message that are no text, and what it cites."""
        for part in message.parts:
            line = told(part)
            if line is not None:
                self._screen.note(line)
        for source in message.metadata.sources:
            named = source.get("title") or shown(str(source.get("file_name") or ""))
            self._screen.note(safe_line(f"[{source.get('number', '')}] {named} {source.get('url') or ''}"))

    def _fail(self, content: str, detail: ErrorDetail | None) -> None:
        self._error_shown = True
        self._fault(content)
        if detail is not None:
            self._screen.note(f"{detail.type}: {detail.text}\n  at {detail.where}")

    def _fault(self, text: str) -> None:
        """Once, though the failure and the session's message both tell it."""
        if text not in self._faults:
            self._faults.add(text)
            self._screen.fault(text)

    def _end(self, final: Final) -> None:
        self._screen.end_line()
        more = [each for each in final.messages if each.rank not in self._ranks]
        if self._block is not None and any(map(_is_answer, more)):
            self._screen.note(_AGAIN)
        self._block = None
        for message in final.messages:
            self._message(message)
        if final.error is not None and not self._error_shown:
            self._fail(final.error.content, final.error.detail)
        if final.status != "ok":
            self._screen.note(f"({final.status})")


def told(part: Part) -> str | None:
    """One line of a part that is no text; None of a text."""
    match part:
        case ToolCallPart():
            return safe_line(f"→ {shown(part.title or part.name)}({_facts(part.args)})")
        case ToolResultPart():
            took = f" in {part.latency_ms} ms" if part.latency_ms is not None else ""
            return safe_line(f"{'✗' if part.ok is False else '←'}{took} {part.content}")
        case LinkPart():
            return safe_line(f"{part.title or shown(part.file_name or part.kind)} {part.href or ''}", 2_000)
        case ImageUrlPart():
            return safe_line(f"(image) {part.alt or ''} {part.url if not part.url.startswith('data:') else ''}")
        case FilePart():
            return safe_line(f"(file) {shown(part.name)}, {part.size} bytes")
        case TextPart() | CodePart() | CustomPart() | GeoPart():
            return None
        case _:
            assert_never(part)


def _is_answer(message: ChatMessage) -> bool:
    return message.role is Role.ASSISTANT and message.channel in _ANSWERS


def _style(channel: Channel) -> Style:
    return "plain" if channel in _ANSWERS else "faint"


def _facts(facts: dict[str, object]) -> str:
    return ", ".join(f"{shown(name)}={shown_json(value)}" for name, value in facts.items())
