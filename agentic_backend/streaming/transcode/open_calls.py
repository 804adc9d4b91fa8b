"""OpenCalls: the announced tool calls of one exchange, and which of them still wait for a result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentic_backend.protocol.messages import Channel, MessageMetadata, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.stores.records import MessageDraft, MessageRecord


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    """The tool's name."""
    at: float
    """When it was announced."""
    namespace: tuple[str, ...]
    """The namespace of the graph that made it."""


class OpenCalls:
    """Owned by the exchange's StreamTranscoder. Every call gets exactly one result.

    Times are seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, _Call] = {}
        """The calls without a result, by call id."""
        self._known: set[str] = set()
        """The ids of all calls, with or without a result."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def names(self) -> set[str]:
        """The names of the tools whose calls wait for a result."""
        return {call.name for call in self._waiting.values()}

    @property
    def oldest(self) -> str | None:
        """The name of the tool whose call has waited longest for its result."""
        return next((call.name for call in self._waiting.values()), None)

    def announce(
        self, calls: list[ToolCallPart], at: float, namespace: tuple[str, ...], *, streamed: bool
    ) -> list[ToolCallPart]:
        """Note the new calls, which the graph at `namespace` made, and return them.

        A model may restart the numbering of its calls in every message. So the calls of a `streamed` message are new
        even if their ids are known, unless a call with that id still waits.
        """
        new = []
        for call in calls:
            if call.call_id in (self._waiting if streamed else self._known):
                continue
            new.append(call)
            self._known.add(call.call_id)
            self._waiting[call.call_id] = _Call(call.name, at, namespace)
        return new

    def restore(
        self,
        stored: Sequence[MessageRecord],
        namespaces: Mapping[str, tuple[str, ...]],
        at: float,
        *,
        known: Iterable[str],
    ) -> None:
        """Take over the calls of a continued exchange.

        `namespaces` are the calls' graphs, by call id; `known` are the ids of other calls of its run.
        """
        for part in (part for message in stored for part in message.parts):
            if isinstance(part, ToolCallPart):
                self.announce([part], at, namespaces.get(part.call_id, ()), streamed=True)
            elif isinstance(part, ToolResultPart):
                self.settle(part.call_id, at)
        self._known.update(known)

    def settle(self, call_id: str, at: float) -> tuple[str, int] | None:
        """Close a call that has its result: (tool name, latency in ms); None if no such call waits."""
        call = self._waiting.pop(call_id, None)
        return None if call is None else (call.name, round((at - call.at) * 1000))

    def enclose(self, namespace: tuple[str, ...]) -> bool:
        """Whether the graph at `namespace` runs within a tool: an outer graph waits for a result."""
        around = [call.namespace for call in self._waiting.values()]
        return any(len(one) < len(namespace) and namespace[: len(one)] == one for one in around)

    def settle_all(self, at: float, content: str, metadata: MessageMetadata) -> list[MessageDraft]:
        """Close all calls that still wait, each with a failed result."""
        drafts = []
        for call_id in list(self._waiting):
            settled = self.settle(call_id, at)
            assert settled is not None
            result = ToolResultPart(call_id=call_id, ok=False, latency_ms=settled[1], content=content)
            drafts.append(MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[result], metadata=metadata))
        return drafts
