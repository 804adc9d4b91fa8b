"""SessionStreamRenderer: the events of one exchange as those of the session stream."""

from collections.abc import Iterable, Iterator, Sequence

from agentic_backend.errors import AgenticError, Internal
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, Event, ExchangeEvent, Final, Reset, Stream
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.transports.answer_text import AnswerText, answer_in
from agentic_backend.transports.session_stream.events import (
    Chunk,
    Done,
    DoneMeta,
    StreamError,
    StreamEvent,
    Tokens,
    ToolCall,
    ToolCalled,
    ToolResult,
    ToolReturned,
    server_sent,
)
from agentic_backend.transports.sse import ServerSentEvent


class SessionStreamRenderer:
    """One per stream."""

    def __init__(self, request_id: str) -> None:
        self.is_over = False
        self._request_id = request_id
        self._exchange_id: str | None = None
        """Known from the first event on."""
        self._answer = AnswerText()
        self._last_rank = -1
        """The highest rank of the messages whose tool calls and results the client has."""

    def render(self, event: Event) -> Iterable[ServerSentEvent]:
        return map(server_sent, self._events_of(event))

    def cut(self, error: AgenticError) -> Iterable[ServerSentEvent]:
        return [server_sent(self._error(ErrorInfo.of(error, self._request_id)))]

    def _events_of(self, event: Event) -> Iterator[StreamEvent]:
        if not isinstance(event, ExchangeEvent):
            return
        self._exchange_id = event.exchange_id
        if (piece := self._answer.take(event)) is not None:
            yield Chunk(content=piece.text, replaces=True if piece.replaces else None)
        match event:
            case Stream():
                yield from self._tools_in([event.message])
            case Reset():
                yield from self._tools_in(event.messages)
            case AwaitingHuman():
                self.is_over = True
                yield self._waits()
            case Final():
                self.is_over = True
                yield self._end(event)

    def _tools_in(self, messages: Sequence[ChatMessage]) -> Iterator[StreamEvent]:
        """The tool calls and results that the client does not have."""
        for message in messages:
            if message.rank <= self._last_rank:
                continue
            self._last_rank = message.rank
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    yield ToolCalled(tool_call=ToolCall.of(part))
                elif isinstance(part, ToolResultPart):
                    yield ToolReturned(tool_result=ToolResult.of(part))

    def _end(self, final: Final) -> StreamEvent:
        if final.status.failed:
            return self._error(final.error or ErrorInfo.of(Internal(), self._request_id))
        return Done(meta=_meta_of(final))

    def _error(self, info: ErrorInfo) -> StreamError:
        return StreamError.of(info).model_copy(update={"exchange_id": self._exchange_id})

    def _waits(self) -> StreamError:
        """A person has to decide, and this stream has no event to ask them."""
        return StreamError(
            error="The exchange waits for a person's decision. It can be made at "
            f"/agentic/v1/exchanges/{self._exchange_id}/resume.",
            category="conflict",
            code="awaiting_human",
            retryable=False,
            request_id=self._request_id,
            exchange_id=self._exchange_id,
        )


def _meta_of(final: Final) -> DoneMeta:
    messages = final.messages
    answer = answer_in(messages)
    models = (message.metadata.model for message in reversed(messages))
    took = messages[-1].timestamp - messages[0].timestamp
    return DoneMeta(
        model=next((model for model in models if model is not None), None),
        tokens=Tokens.of(final.usage),
        latency_ms=round(took.total_seconds() * 1000),
        exchange_id=final.exchange_id,
        seq=answer.rank if answer is not None else None,
        finish_reason=answer.metadata.finish_reason if answer is not None else None,
        blocked=True if final.status is ExchangeStatus.BLOCKED else None,
        cancelled=True if final.status is ExchangeStatus.STOPPED else None,
    )
