"""SeenMessages: which messages of one exchange were processed, however often its graphs return them."""

from collections import Counter
from collections.abc import Iterable

from langchain_core.messages import AIMessage, BaseMessage

from agentic_backend.streaming.content.conversion import text_in


class SeenMessages:
    """Owned by the exchange's StreamTranscoder."""

    def __init__(self, history: Iterable[BaseMessage]) -> None:
        self._history = {message.id for message in history}
        """The ids of the graph's input messages."""
        self._ids: set[str] = set()
        """The ids of the processed messages and model calls."""
        self._depths: dict[tuple[str, ...], int] = {}
        """By a message's text and call ids: the depth of the graph that returned it last,"""
        self._nameless: Counter[tuple[str, ...]] = Counter()
        """and how many such messages without an id still expect a parent's copy."""

    def __contains__(self, message_id: str | None) -> bool:
        return message_id in self._ids

    def add(self, message_id: str | None) -> None:
        if message_id:
            self._ids.add(message_id)

    def is_history(self, message: BaseMessage) -> bool:
        return message.id is not None and message.id in self._history

    def repeats(self, message: AIMessage, namespace: tuple[str, ...]) -> bool:
        """Whether a parent returns its subgraph's message: a copy, or the message with the id that it got later."""
        depth, signature = len(namespace), (text_in(message), *(str(call["id"]) for call in message.tool_calls))
        before = self._depths.get(signature, -1)
        self._depths[signature] = depth
        if message.id is None:
            self._nameless[signature] += 1
        elif depth <= before and self._nameless[signature]:
            self._nameless[signature] -= 1
            return True
        return depth < before
