"""A model message while its tokens arrive."""

from dataclasses import dataclass, field

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks

Place = tuple[tuple[str, ...], str]
"""Where in the graph a message is written: the namespace and the node."""


@dataclass(slots=True)
class Writing:
    """`text_block` and `thought_block` are None until their first text; `ended` when the model has said all."""

    place: Place
    chunks: list[AIMessageChunk] = field(default_factory=list)
    text_block: int | None = None
    thought_block: int | None = None
    ended: bool = False

    def whole(self) -> AIMessageChunk:
        """All that has arrived as one message."""
        first, *others = self.chunks
        return add_ai_message_chunks(first, *others)
