"""ChunkFolding: keeps small what LangChain keeps of a model call while it streams.

LangChain collects each chunk of a call, and adds them all up in one go once it has ended: 1.8 kB a token, and seconds
in which nothing else runs. The chunks that it collects are those that a callback sees. So they are added up as they
come, by LangChain's own sum: of each group the first chunk takes all, and the others are emptied. The sums are grouped
again, as digits carry, so that a long text is not copied at each step. What adds all up at the end is the first chunk's
own `+`, which passes over the empty ones.
"""

import logging
import sys

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

log = logging.getLogger(__name__)

# So many are no burden, and most answers have no more.
_LEFT_ALONE = 1_000
# The newest chunks may still be in somebody's hands.
_GROUP, _NEWEST = 64, 2
_EMPTY = ChatGenerationChunk(message=AIMessageChunk(content=""))
# LangChain's list and ours, the loop that looks at it, and the call that counts.
_OWN_REFERENCES = 4


class _FirstChunk(ChatGenerationChunk):
    """The first chunk of a model call."""

    def __add__(self, other: ChatGenerationChunk | list[ChatGenerationChunk]) -> ChatGenerationChunk:
        if isinstance(other, list):
            other = [chunk for chunk in other if chunk.__dict__ is not _EMPTY.__dict__]
        return super().__add__(other)


class ChunkFolding:
    """Of one model call."""

    def __init__(self) -> None:
        self._count = 0
        self._form: type | None = None
        """What the content of these is: a text, or a list of blocks."""
        self._newest: list[ChatGenerationChunk] = []
        self._levels: list[list[ChatGenerationChunk]] = [[]]
        """What is folded next: chunks that hold 1 of those that came, chunks that hold _GROUP of them, and so on."""
        self._is_over = False

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Take note of the newest chunk, which others have yet to see; those before it may be folded."""
        self._count += 1
        if self._count > _LEFT_ALONE:
            self._add(chunk)
        elif self._count == 1 and type(chunk) is ChatGenerationChunk:
            object.__setattr__(chunk, "__class__", _FirstChunk)

    def _add(self, chunk: ChatGenerationChunk) -> None:
        if self._is_over:
            return
        if not isinstance(chunk.message, AIMessageChunk) or chunk.message.tool_call_chunks:
            # Sums of arguments that are not complete are dear; and across a call the order of blocks would change.
            self._newest, self._levels = [], [[]]
            return
        form = type(chunk.message.content)
        if form is not self._form:
            # Which of a text's neighbours it belongs to is told by what comes before them.
            self._form, self._newest, self._levels = form, [], [[]]
        self._newest.append(chunk)
        if len(self._newest) > _NEWEST:
            self._levels[0].append(self._newest.pop(0))
            self._fold()

    def _fold(self) -> None:
        try:
            for place, level in enumerate(self._levels):
                if len(level) < _GROUP:
                    break
                self._levels[place] = []
                if any(sys.getrefcount(chunk) > _OWN_REFERENCES for chunk in level):
                    # A model may keep its chunks, and give the same ones again.
                    break
                if place + 1 == len(self._levels):
                    self._levels.append([])
                self._levels[place + 1].append(_folded(level))
        except Exception as error:
            # What can't be added up is left to LangChain, which says what is wrong with it.
            self._is_over = True
            log.info("chunks of a model can't be added up", extra={"reason": type(error).__name__})


def _folded(chunks: list[ChatGenerationChunk]) -> ChatGenerationChunk:
    """The first of `chunks`, which now holds all of them."""
    first, *others = chunks
    total = first + others
    first.message, first.text, first.generation_info = total.message, total.text, total.generation_info
    for other in others:
        # Without a dictionary and a set of its own an object takes a fifth of the memory.
        object.__setattr__(other, "__dict__", _EMPTY.__dict__)
        object.__setattr__(other, "__pydantic_fields_set__", _EMPTY.__pydantic_fields_set__)
    return first
