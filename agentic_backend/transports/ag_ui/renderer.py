"""RunRenderer: renders the events of an exchange as those of a run of AG-UI. Pure.

Each text and thought that is being written is a message of its own. Nothing is taken back; where a text that was shown
is not what is stored in the end, such as one that a module has changed, a snapshot of all messages comes before the
end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.events import (
    Activity,
    AwaitingHuman,
    Delta,
    ErrorInfo,
    Event,
    Final,
    Reset,
    Stream,
)
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart, text_of
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.text.growing_text import GrowingText
from agentic_backend.transports.ag_ui.events import (
    ActivitySnapshot,
    AgUiEvent,
    Json,
    MessagesSnapshot,
    Outcome,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunError,
    RunFinished,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    TokenCounts,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from agentic_backend.transports.ag_ui.interrupts import interrupts_of
from agentic_backend.transports.ag_ui.told_messages import (
    arguments_of,
    result_id_of,
    stored_id_of,
    told,
    tool_call_id_of,
)


@dataclass(slots=True)
class _OpenText:
    """A text or a thought that is being written."""

    id: str
    is_thought: bool
    text: GrowingText


class RunRenderer:
    def __init__(
        self,
        named: Mapping[str, str],
        exchange: ExchangeLog,
        known: Sequence[ChatMessage],
        before: Callable[[], Sequence[Json]],
        request_id: str,
    ) -> None:
        """`named` are the ids of the thread and the run.

        The client has the messages `known` of the exchange already, and those that `before` gives of its thread.
        """
        self._named = named
        self._exchange = exchange
        self._before = before
        self._request_id = request_id
        self._known = {message.rank for message in known}
        self._ids: dict[int, str] = {}
        """The ids of the messages that the client has been shown whole, by rank."""
        self._written: dict[int, _OpenText] = {}
        """The texts that are being written, by block."""
        self._newest_block = -1
        self._open_calls: set[str] = set()
        self._snapshot_is_due = False
        self.is_over = False
        """Whether the run has its last event."""
        for message in known:
            self._note_calls(message)

    def render(self, event: Event) -> Iterator[AgUiEvent]:
        match event:
            case Delta():
                yield from self._delta(event)
            case Stream():
                yield from self._stored(event.message, event.block)
            case Activity():
                place = f"{event.exchange_id}:{event.kind}"
                yield ActivitySnapshot(message_id=place, activity_type=event.kind, content=event.data)
            case Reset():
                yield from self._anew(event)
            case AwaitingHuman() if event.seq == self._exchange.last_seq:
                yield from self._close_all()
                asked = Outcome(type="interrupt", interrupts=interrupts_of(event.exchange_id, event.payload))
                yield self._finished(asked)
            case Final():
                yield from self._end(event)

    def cut(self, error: AgenticError) -> Iterator[AgUiEvent]:
        """What the client gets if the stream ends before the run."""
        yield from self._failed(ErrorInfo.of(error, self._request_id))

    def _delta(self, delta: Delta) -> Iterator[AgUiEvent]:
        is_new, self._newest_block = delta.block > self._newest_block, max(self._newest_block, delta.block)
        written = self._written.get(delta.block)
        if written is None:
            # Of a block that has begun before, the beginning is missing; it comes whole when it is stored.
            if not is_new or not self._may_show(delta.channel):
                return
            name = f"{delta.exchange_id}:{delta.block}"
            written = self._written[delta.block] = _OpenText(name, delta.channel is Channel.THOUGHT, GrowingText())
            yield from _opened(written)
        written.text.add(delta.text)
        yield _content(written, delta.text)

    def _may_show(self, channel: Channel) -> bool:
        """What graphs within a tool say is the tool's affair."""
        return channel is not Channel.OBSERVATION or not self._open_calls

    def _stored(self, message: ChatMessage, block: int | None) -> Iterator[AgUiEvent]:
        if message.role is Role.USER or message.rank in self._known or message.rank in self._ids:
            return
        text, is_thought = text_of(message.parts), message.channel is Channel.THOUGHT
        written = self._written.pop(block, None) if block is not None else None
        if written is not None:
            self._ids[message.rank] = written.id
            self._snapshot_is_due |= written.text.joined() != text
            yield from _closed(written)
        elif message.role is Role.ASSISTANT and self._may_show(message.channel):
            self._ids[message.rank] = stored_id_of(self._exchange.exchange_id, message.rank)
            if text:
                whole = _OpenText(self._ids[message.rank], is_thought, GrowingText(text))
                yield from (*_opened(whole), _content(whole, text), *_closed(whole))
        yield from self._tools(message)

    def _tools(self, message: ChatMessage) -> Iterator[AgUiEvent]:
        exchange_id = self._exchange.exchange_id
        parent = self._ids.setdefault(message.rank, stored_id_of(exchange_id, message.rank))
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                named = tool_call_id_of(exchange_id, part.call_id)
                yield ToolCallStart(tool_call_id=named, tool_call_name=part.name, parent_message_id=parent)
                yield ToolCallArgs(tool_call_id=named, delta=arguments_of(part))
                yield ToolCallEnd(tool_call_id=named)
            elif isinstance(part, ToolResultPart):
                named = tool_call_id_of(exchange_id, part.call_id)
                yield ToolCallResult(message_id=result_id_of(named), tool_call_id=named, content=part.content)
        self._note_calls(message)

    def _note_calls(self, message: ChatMessage) -> None:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                self._open_calls.add(part.call_id)
            elif isinstance(part, ToolResultPart):
                self._open_calls.discard(part.call_id)

    def _anew(self, reset: Reset) -> Iterator[AgUiEvent]:
        """The client's place is lost: it gets all messages, and what is being written from its beginning."""
        yield from self._close_all()
        for message in reset.messages:
            if message.role is Role.USER:
                continue
            self._ids.setdefault(message.rank, stored_id_of(self._exchange.exchange_id, message.rank))
            self._note_calls(message)
        yield self._snapshot(reset.messages)
        for partial in reset.partial:
            if self._may_show(partial.channel):
                name = f"{self._exchange.exchange_id}:{partial.block}:{reset.seq}"
                is_thought = partial.channel is Channel.THOUGHT
                written = self._written[partial.block] = _OpenText(name, is_thought, GrowingText(partial.text))
                yield from (*_opened(written), _content(written, partial.text))
            self._newest_block = max(self._newest_block, partial.block)

    def _end(self, final: Final) -> Iterator[AgUiEvent]:
        # A text that is written and not stored, such as one that a module has blocked, is none.
        self._snapshot_is_due |= bool(self._written)
        yield from self._close_all()
        for message in final.messages:
            yield from self._stored(message, None)
        if final.status.failed:
            yield from self._failed(final.error or ErrorInfo.of(Internal(), self._request_id))
            return
        if self._snapshot_is_due:
            yield self._snapshot(final.messages)
        stopped = final.status is ExchangeStatus.STOPPED
        usage = final.usage
        counts = TokenCounts(
            input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, total_tokens=usage.total_tokens
        )
        yield self._finished(Outcome(type="cancelled" if stopped else "success"), counts)

    def _finished(self, outcome: Outcome, counts: TokenCounts | None = None) -> AgUiEvent:
        self.is_over = True
        return RunFinished(**self._named, outcome=outcome, usage=None if counts is None else [counts])

    def _failed(self, error: ErrorInfo) -> Iterator[AgUiEvent]:
        yield from self._close_all()
        self.is_over = True
        yield RunError(message=error.content, code=error.code)

    def _close_all(self) -> Iterator[AgUiEvent]:
        for written in self._written.values():
            yield from _closed(written)
        self._written.clear()

    def _snapshot(self, messages: Sequence[ChatMessage]) -> AgUiEvent:
        new = [message for message in messages if message.rank in self._ids and message.rank not in self._known]
        exchange_id = self._exchange.exchange_id
        own = [each for message in new for each in told(message, exchange_id, self._ids[message.rank])]
        return MessagesSnapshot(messages=[*self._before(), *own])


def _opened(written: _OpenText) -> Sequence[AgUiEvent]:
    if written.is_thought:
        return (ReasoningStart(message_id=written.id), ReasoningMessageStart(message_id=written.id))
    return (TextMessageStart(message_id=written.id),)


def _content(written: _OpenText, text: str) -> AgUiEvent:
    if written.is_thought:
        return ReasoningMessageContent(message_id=written.id, delta=text)
    return TextMessageContent(message_id=written.id, delta=text)


def _closed(written: _OpenText) -> Sequence[AgUiEvent]:
    if written.is_thought:
        return (ReasoningMessageEnd(message_id=written.id), ReasoningEnd(message_id=written.id))
    return (TextMessageEnd(message_id=written.id),)
