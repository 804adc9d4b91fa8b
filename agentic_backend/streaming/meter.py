"""Meter: what the messages of one exchange cost. Times are seconds of one monotonic clock."""

from langchain_core.messages import AIMessage

from agentic_backend.protocol.messages import MessageMetadata, TokenUsage
from agentic_backend.streaming.content import agent_of, finish_reason_of, model_of, usage_of


class Meter:
    """`since` is when the last message or result was complete; `model` names the one that spoke last."""

    def __init__(self, agent_id: str, since: float, usage: TokenUsage) -> None:
        self._agent_id = agent_id
        self.since = since
        self.usage = usage
        self.model: str | None = None

    def latency_ms(self, at: float) -> int:
        return round((at - self.since) * 1000)

    def metadata_of(self, message: AIMessage, at: float) -> MessageMetadata:
        """The metadata of a message that is complete, whose cost is counted here."""
        usage, latency_ms = usage_of(message), self.latency_ms(at)
        self.since = at
        self.usage += usage or TokenUsage()
        self.model = model_of(message) or self.model
        return MessageMetadata(
            model=model_of(message),
            token_usage=usage,
            agent_id=self._agent_id,
            latency_ms=latency_ms,
            finish_reason=finish_reason_of(message),
            extras=agent_of(message),
        )
