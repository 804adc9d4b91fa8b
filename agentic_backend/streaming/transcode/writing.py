"""Writing: a model's message while its tokens arrive."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from agentic_backend.protocol.parts import Part, TextPart
from agentic_backend.streaming.content.conversion import delta_of, parts_of, text_in
from agentic_backend.streaming.content.media import is_media
from agentic_backend.text.growing_text import GrowingText

# What is kept of a message beside its text, until its node returns it: blocks, and bytes of their data.
_MOST_BESIDE, _MOST_BESIDE_BYTES = 256, 4_000_000
# Providers use at most two ids per message; this bounds the list if each chunk has another id.
_MOST_IDS = 16

Place = tuple[tuple[str, ...], str]
"""Where in the graph a message is written: the namespace and the node."""


@dataclass(slots=True)
class Writing:
    """Owned by the exchange's StreamTranscoder until a node returns the message."""

    call: str
    """The id of the model call."""
    place: Place
    ids: list[str | None] = field(default_factory=list)
    """The possible ids of the message: some providers send theirs in one chunk only, and LangChain adds its own to the
    others.
    """
    # The blocks of its text and its thought; None until they begin.
    text_block: int | None = None
    thought_block: int | None = None
    is_hidden: bool = False
    """Whether people see none of its text."""
    ended: bool = False
    """Whether the model has finished it."""
    first_character: str = ""
    """The first character of its text that is no space; empty until it comes."""
    emitted: list[Part] = field(default_factory=list)
    """The parts that its graph emitted meanwhile, to be shown with it."""
    _text: GrowingText = field(default_factory=GrowingText)
    """Its content so far."""
    _thought: GrowingText = field(default_factory=GrowingText)
    _usage: UsageMetadata | None = None
    _metadata: dict[str, Any] = field(default_factory=dict)
    # Media, and texts that cite sources, as standard blocks; and the characters of their texts and data.
    _beside: list[Mapping[str, Any]] = field(default_factory=list)
    _beside_bytes: int = 0
    _left_out: int = 0
    """The number of files and the like that were too many or too large to be kept."""

    def add(self, chunk: AIMessageChunk, thought: str, text: str, beside: Sequence[Mapping[str, Any]] = ()) -> None:
        """Add a chunk with this new thought and text, and the blocks `beside` its text (see beside_text)."""
        for block in beside:
            # The text is kept already.
            kept = {**block, "text": ""} if block.get("type") == "text" else dict(block)
            size = sum(len(value) for value in kept.values() if isinstance(value, str))
            if len(self._beside) < _MOST_BESIDE and self._beside_bytes + size <= _MOST_BESIDE_BYTES:
                self._beside.append(kept)
                self._beside_bytes += size
            else:
                self._left_out += is_media(block)
        if len(self.ids) < _MOST_IDS and chunk.id not in self.ids:
            self.ids.append(chunk.id)
        self.first_character = self.first_character or text.lstrip()[:1]
        self._thought.add(thought)
        self._text.add(text)
        self.ended = self.ended or chunk.chunk_position == "last"
        self._metadata |= chunk.response_metadata
        if chunk.usage_metadata is not None:
            self._usage = add_usage(self._usage, chunk.usage_metadata)

    def rest_of(self, text: str) -> str | None:
        """What `text`, a complete one, adds to that of this message so far; None if it begins otherwise."""
        return text[self._text.length :] if self._text.begins(text) else None

    @property
    def text(self) -> str:
        return self._text.joined()

    @property
    def thought(self) -> str:
        return self._thought.joined()

    def message(self) -> AIMessage:
        """The message so far, without calls. Unlike LangChain's sum of chunks, this can't fail."""
        content: Any = self.text
        metadata, thought = self._metadata, {"reasoning_content": self.thought}
        if self._beside or self._left_out:
            # The blocks are LangChain's own, whatever the provider's are.
            texts = [{"type": "reasoning", "reasoning": self.thought}, {"type": "text", "text": self.text}]
            note = {"type": "text-plain", "text": f"[cut: {self._left_out} more files left out]"}
            content, thought = [*texts, *([note] if self._left_out else []), *map(dict, self._beside)], {}
            metadata = {**metadata, "output_version": "v1"}
        return AIMessage(
            content,
            id=next((known for known in self.ids if known and not known.startswith("lc_")), self.ids[0]),
            additional_kwargs=thought,
            response_metadata=metadata,
            usage_metadata=self._usage,
        )

    def completed(self, message: AIMessage) -> AIMessage:
        """`message`, which its node returned, with what only the model's stream told, such as its usage."""
        return message.model_copy(
            update={
                "response_metadata": {**self._metadata, **message.response_metadata},
                "usage_metadata": message.usage_metadata or self._usage,
            }
        )

    def copied_in(self, message: AIMessage, place: Place) -> bool:
        """Whether `message`, which the node at `place` returns, is a copy of this finished message."""
        return self.ended and self.place == place and self.text in (text_in(message), delta_of(message)[1])


def is_written(message: BaseMessage, writings: Iterable[Writing]) -> bool:
    """Whether a model writes this message: some providers use the id of an earlier answer again."""
    return any(message.id in writing.ids for writing in writings)


def claimed_by(message: AIMessage, place: Place, writings: Sequence[Writing]) -> Writing | None:
    """The Writing of `message`, found by its id or, if its node made a copy, by its text."""
    for writing in writings:
        if message.id is not None and message.id in writing.ids:
            return writing
    return next((writing for writing in writings if writing.copied_in(message, place)), None)


def shown_of(message: AIMessage, writing: Writing | None) -> tuple[str, list[Part]]:
    """The thought and the parts to store. They close every open block, even if the node returned less."""
    is_streamed = writing is not None and writing.text_block is not None
    thought, parts = delta_of(message)[0], parts_of(message, is_streamed=is_streamed)
    if writing is not None and writing.thought_block is not None and not thought:
        thought = writing.thought
    if writing is not None and writing.text_block is not None and not parts:
        parts = [TextPart(text="")]
    return thought, [*parts, *(writing.emitted if writing is not None else ())]


def rest_of_text(parts: Sequence[Part], writing: Writing | None) -> str:
    """What the text in `parts` adds to that which was streamed, such as a note of an image that can't be shown."""
    if writing is None or writing.text_block is None or not isinstance(parts[0], TextPart):
        return ""
    return writing.rest_of(parts[0].text) or ""
