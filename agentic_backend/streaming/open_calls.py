"""The tool calls of one exchange that have been announced, and which of them still wait for their result."""

from agentic_backend.protocol.messages import Channel, MessageDraft, MessageMetadata, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart


class OpenCalls:
    """Every call gets exactly one result; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[str, float]] = {}
        self._known: set[str] = set()
        self.names: list[str] = []
        self.failed = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def announce(self, calls: list[ToolCallPart], at: float) -> list[ToolCallPart]:
        """Note the calls that are new, and return these."""
        new = [call for call in calls if call.call_id not in self._known]
        for call in new:
            self._known.add(call.call_id)
            self._waiting[call.call_id] = (call.name, at)
            self.names.append(call.name)
        return new

    def settle(self, call_id: str, at: float) -> tuple[str, int] | None:
        """The (tool's name, latency in ms) of a call that now has its result; None where none waits for one."""
        waiting = self._waiting.pop(call_id, None)
        return None if waiting is None else (waiting[0], round((at - waiting[1]) * 1000))

    def settle_all(self, at: float, content: str, metadata: MessageMetadata) -> list[MessageDraft]:
        """A failed result for each call that still waits."""
        drafts = []
        for call_id in list(self._waiting):
            settled = self.settle(call_id, at)
            assert settled is not None
            self.failed += 1
            result = ToolResultPart(call_id=call_id, ok=False, latency_ms=settled[1], content=content)
            drafts.append(MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[result], metadata=metadata))
        return drafts
