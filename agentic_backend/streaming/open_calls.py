"""The tool calls of one exchange that have been announced, and which of them still wait for their result."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentic_backend.protocol.messages import Channel, ChatMessage, MessageDraft, MessageMetadata, Role
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    at: float
    namespace: tuple[str, ...]


class OpenCalls:
    """Every call gets exactly one result; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Call] = {}
        self._known: set[str] = set()
        self.names: list[str] = []
        self.failed = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def announce(
        self, calls: list[ToolCallPart], at: float, namespace: tuple[str, ...], *, streamed: bool
    ) -> list[ToolCallPart]:
        """Note the calls that are new, made in the graph at `namespace`, and return these.

        A model may number its calls from the first again in every message. So those of a message that it `streamed` are
        new though their ids are known, unless a call of that id still waits.
        """
        new = []
        for call in calls:
            if call.call_id in (self._waiting if streamed else self._known):
                continue
            new.append(call)
            self._known.add(call.call_id)
            self._waiting[call.call_id] = _Call(call.name, at, namespace)
            self.names.append(call.name)
        return new

    def restore(
        self,
        stored: Sequence[ChatMessage],
        namespaces: Mapping[str, tuple[str, ...]],
        at: float,
        *,
        known: Iterable[str],
    ) -> None:
        """Take over the calls of an exchange that goes on, made in the graphs at `namespaces`; `known` are other calls
        that its run has made.
        """
        for part in (part for message in stored for part in message.parts):
            if isinstance(part, ToolCallPart):
                self.announce([part], at, namespaces.get(part.call_id, ()), streamed=True)
            elif isinstance(part, ToolResultPart) and self.settle(part.call_id, at) is not None:
                self.failed += part.ok is False
        self._known.update(known)

    def settle(self, call_id: str, at: float) -> tuple[str, int] | None:
        """The (tool's name, latency in ms) of a call that now has its result; None where none waits for one."""
        call = self._waiting.pop(call_id, None)
        return None if call is None else (call.name, round((at - call.at) * 1000))

    def enclose(self, namespace: tuple[str, ...]) -> bool:
        """Whether a graph at `namespace` runs within a tool: a graph around it waits for a result."""
        around = [call.namespace for call in self._waiting.values()]
        return any(len(one) < len(namespace) and namespace[: len(one)] == one for one in around)

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
