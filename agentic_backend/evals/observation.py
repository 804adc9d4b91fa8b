"""Observation: what was seen of a case's conversation, as far as checks need it."""

from dataclasses import dataclass, field

from agentic_backend.protocol.events import Event, Final, Reset, Stream
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus
from agentic_backend.protocol.parts import ToolCallPart


@dataclass(slots=True)
class Observation:
    """`answer` and `status` are of the last exchange, the others of all.

    `fault` says why the conversation could not be held to its end; then nothing else counts.
    """

    answer: str = ""
    status: ExchangeStatus | None = None
    error: str | None = None
    """Why the last exchange has failed, in words."""
    latencies_s: list[float] = field(default_factory=list)
    tokens: int | None = None
    """None where no model has told its tokens."""
    calls: dict[tuple[str, str], ToolCallPart] = field(default_factory=dict)
    """The calls of tools by exchange and call id, in their order."""
    session_id: str | None = None
    exchange_ids: list[str] = field(default_factory=list)
    fault: str | None = None

    def see(self, event: Event) -> None:
        match event:
            case Stream(message=message):
                self._see_calls([message])
            case Reset(messages=messages):
                self._see_calls(messages)
            case Final():
                self._see_calls(event.messages)
                self._see_end(event)

    def _see_calls(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCallPart):
                    self.calls[message.exchange_id, part.call_id] = part

    def _see_end(self, final: Final) -> None:
        self.status = final.status
        self.error = None
        if final.error is not None:
            detail = final.error.detail
            told = "" if detail is None else f" ({detail.type}: {detail.text}, at {detail.where})"
            self.error = f"{final.error.code}: {final.error.content}{told}"
        self.exchange_ids.append(final.exchange_id)
        if final.usage.total_tokens is not None:
            self.tokens = (self.tokens or 0) + final.usage.total_tokens
