"""ResumedRun: what a continued run has already shown, according to its checkpoints and its exchange's messages."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage

from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.protocol.messages import TokenUsage
from agentic_backend.protocol.parts import ToolCallPart
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.transcode.open_calls import OpenCalls
from agentic_backend.streaming.transcode.updates import messages_in

_Namespace = tuple[str, ...]


class ResumedRun:
    """Immutable. Made for the transcoder before the run continues."""

    def __init__(
        self, checkpoints: ExchangeCheckpoints, stored: Sequence[MessageRecord], first_block: int, usage: TokenUsage
    ) -> None:
        self.stored = stored
        """The messages of the exchange so far; only the opening message if the run continues in a new exchange."""
        self.first_block = first_block
        """The number of the next block."""
        self.usage = usage
        """The models' usage so far."""
        self._graphs = _messages_by_graph(checkpoints)
        """The messages of each graph, by namespace, outer graphs first."""
        told = {part.call_id for message in stored for part in message.parts if isinstance(part, ToolCallPart)}
        self.to_announce = [
            (namespace, message)
            for namespace, message in _with_open_calls(self._graphs)
            if told.isdisjoint(call["id"] for call in message.tool_calls)
        ]
        """The messages with open calls that this exchange has not announced, each with its graph's namespace."""

    @property
    def messages(self) -> list[BaseMessage]:
        """The messages of all graphs of the run, those of the root graph last."""
        return [message for graph in reversed(self._graphs.values()) for message in graph]

    def calls(self, at: float) -> OpenCalls:
        """The calls of the exchange, and earlier calls of its run."""
        namespaces = {
            str(call["id"]): namespace
            for namespace, messages in reversed(self._graphs.items())
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        to_announce = {call["id"] for _, message in self.to_announce for call in message.tool_calls}
        calls = OpenCalls()
        calls.restore(self.stored, namespaces, at, known=namespaces.keys() - to_announce)
        return calls


def _messages_by_graph(checkpoints: ExchangeCheckpoints) -> dict[_Namespace, list[BaseMessage]]:
    """The messages of each graph, outer graphs first. A message that was written again keeps its place."""
    graphs: dict[_Namespace, dict[str | None, BaseMessage]] = {(): {}}
    for name, value in checkpoints.values_of("messages"):
        graph = graphs.setdefault(tuple(name.split("|")) if name else (), {})
        for message in messages_in({"messages": value}):
            if not isinstance(message, RemoveMessage):
                graph[message.id] = message
    return {namespace: list(graph.values()) for namespace, graph in graphs.items()}


def _with_open_calls(graphs: dict[_Namespace, list[BaseMessage]]) -> list[tuple[_Namespace, AIMessage]]:
    """The last model message of each graph, reduced to its calls without a result; left out if it has none."""
    lasts: list[tuple[_Namespace, AIMessage]] = []
    settled: set[str | None] = set()
    for namespace, messages in graphs.items():
        place = max(
            (index for index, one in enumerate(messages) if isinstance(one, AIMessage | HumanMessage)), default=0
        )
        if messages and isinstance(last := messages[place], AIMessage):
            lasts.append((namespace, last))
        settled |= {one.tool_call_id for one in messages[place:] if isinstance(one, ToolMessage)}
    found = []
    for namespace, last in lasts:
        calls = [call for call in last.tool_calls if call["id"] not in settled]
        # A graph may have got the messages of another graph, which makes the calls.
        settled |= {call["id"] for call in calls}
        if calls:
            found.append((namespace, last.model_copy(update={"tool_calls": calls, "invalid_tool_calls": []})))
    return found
