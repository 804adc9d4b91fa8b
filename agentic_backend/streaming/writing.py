"""A model message while its tokens arrive."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentic_backend.growing_text import GrowingText
from agentic_backend.protocol.parts import Part, TextPart
from agentic_backend.streaming.content import delta_of, parts_of

# Providers have two at most; one that gives each chunk another is none to search through.
_MOST_IDS = 16

Place = tuple[tuple[str, ...], str]
"""Where in the graph a message is written: the namespace and the node."""


@dataclass(slots=True)
class Writing:
    """`call` names the model's call; `text_block` and `thought_block` are None until their first text; `ended` when the
    model has said all. `ids` are those that its message may have: some providers give theirs in one chunk only, and
    LangChain fills in its own in the others.
    """

    call: str
    place: Place
    ids: list[str | None] = field(default_factory=list)
    text_block: int | None = None
    thought_block: int | None = None
    ended: bool = False
    _text: GrowingText = field(default_factory=GrowingText)
    _thought: GrowingText = field(default_factory=GrowingText)
    _usage: UsageMetadata | None = None
    _metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, chunk: AIMessageChunk, thought: str, text: str) -> None:
        """Add a chunk, which has brought this thought and this text."""
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
        """What has been shown and told of it, without calls. LangChain's own sum of chunks may fail; this can't."""
        return AIMessage(
            self.text,
            id=next((known for known in self.ids if known and not known.startswith("lc_")), self.ids[0]),
            additional_kwargs={"reasoning_content": self.thought},
            response_metadata=self._metadata,
            usage_metadata=self._usage,
        )

    def copied_in(self, message: AIMessage, place: Place) -> bool:
        """Whether the node at `place`, whose model has said all, hands over its own copy in `message`."""
        return self.ended and self.place == place and self.text == message.text


def claimed_by(message: AIMessage, place: Place, writings: Sequence[Writing]) -> Writing | None:
    """What was streamed of `message`: by its id or, where its node made a copy of it, by its text."""
    for writing in writings:
        if message.id is not None and message.id in writing.ids:
            return writing
    return next((writing for writing in writings if writing.copied_in(message, place)), None)


def shown_of(message: AIMessage, writing: Writing | None) -> tuple[str, list[Part]]:
    """The thought and the parts to store. What was streamed has to be closed, though the node handed over less."""
    thought, parts = delta_of(message)[0], parts_of(message)
    if writing is not None and writing.thought_block is not None and not thought:
        thought = writing.thought
    if writing is not None and writing.text_block is not None and not parts:
        parts = [TextPart(text="")]
    return thought, parts
