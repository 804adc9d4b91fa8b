"""Writing: a model's message while its tokens arrive."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentic_backend.growing_text import GrowingText
from agentic_backend.protocol.parts import Part, TextPart
from agentic_backend.streaming.content import delta_of, parts_of

# Providers use at most two ids per message; this bounds the list if each chunk has another id.
_MOST_IDS = 16

Place = tuple[tuple[str, ...], str]
"""Where in the graph a message is written: the namespace and the node."""


@dataclass(slots=True)
class Writing:
    """Owned by the exchange's StreamTranscoder until a node returns the message."""

    # The id of the model call.
    call: str
    place: Place
    # The possible ids of the message: some providers send theirs in one chunk only, and LangChain adds its own to the
    # others.
    ids: list[str | None] = field(default_factory=list)
    # The blocks of its text and its thought; None until they begin.
    text_block: int | None = None
    thought_block: int | None = None
    # Whether the model has finished it.
    ended: bool = False
    # Its content so far.
    _text: GrowingText = field(default_factory=GrowingText)
    _thought: GrowingText = field(default_factory=GrowingText)
    _usage: UsageMetadata | None = None
    _metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, chunk: AIMessageChunk, thought: str, text: str) -> None:
        """Add a chunk with this new thought and text."""
        if len(self.ids) < _MOST_IDS and chunk.id not in self.ids:
            self.ids.append(chunk.id)
        self._thought.add(thought)
        self._text.add(text)
        self.ended = self.ended or chunk.chunk_position == "last"
        self._metadata |= chunk.response_metadata
        if chunk.usage_metadata is not None:
            self._usage = add_usage(self._usage, chunk.usage_metadata)

    @property
    def text(self) -> str:
        return self._text.joined()

    @property
    def thought(self) -> str:
        return self._thought.joined()

    def message(self) -> AIMessage:
        """The message so far, without calls. Unlike LangChain's sum of chunks, this can't fail."""
        return AIMessage(
            self.text,
            id=next((known for known in self.ids if known and not known.startswith("lc_")), self.ids[0]),
            additional_kwargs={"reasoning_content": self.thought},
            response_metadata=self._metadata,
            usage_metadata=self._usage,
        )

    def copied_in(self, message: AIMessage, place: Place) -> bool:
        """Whether `message`, which the node at `place` returns, is a copy of this finished message."""
        return self.ended and self.place == place and self.text == message.text


def claimed_by(message: AIMessage, place: Place, writings: Sequence[Writing]) -> Writing | None:
    """The Writing of `message`, found by its id or, if its node made a copy, by its text."""
    for writing in writings:
        if message.id is not None and message.id in writing.ids:
            return writing
    return next((writing for writing in writings if writing.copied_in(message, place)), None)


def shown_of(message: AIMessage, writing: Writing | None) -> tuple[str, list[Part]]:
    """The thought and the parts to store. They close every open block, even if the node returned less."""
    thought, parts = delta_of(message)[0], parts_of(message)
    if writing is not None and writing.thought_block is not None and not thought:
        thought = writing.thought
    if writing is not None and writing.text_block is not None and not parts:
        parts = [TextPart(text="")]
    return thought, parts
