"""ChunkFolding: reduces the memory that LangChain needs for a model call while it streams.

LangChain collects all chunks of a call and adds them up when it ends: 1.8 kB a token, and seconds that block the event
loop. A callback sees the same chunk objects. So they are added up as they come, with LangChain's own sum: the first
chunk of each group takes the sum, and the others are emptied. The sums are grouped again, as digits carry, so that a
long text is not copied at each step. The final sum calls the first chunk's `+`, which skips the empty chunks. Those of
a very long answer are taken out of LangChain's list, which only grows at its end meanwhile.
"""

import gc
import logging
import sys

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

log = logging.getLogger(__name__)

# This many chunks are no burden, and most answers have fewer.
_LEFT_ALONE = 1_000
# Others may still use the newest chunks.
_GROUP, _NEWEST = 64, 2
_EMPTY = ChatGenerationChunk(message=AIMessageChunk(content=""))
# So many emptied chunks are worth a look for the list that they are in, which visits every object of the process.
_WORTH_A_LOOK = 16_384
# The references to a chunk that nothing else uses: LangChain's list, ours, the loop variable, and the call that counts.
_OWN_REFERENCES = 4


class _FirstChunk(ChatGenerationChunk):
    """The first chunk of a model call."""

    def __add__(self, other: ChatGenerationChunk | list[ChatGenerationChunk]) -> ChatGenerationChunk:
        if isinstance(other, list) and len(other) >= _LEFT_ALONE:
            other = [chunk for chunk in other if chunk.__dict__ is not _EMPTY.__dict__]
        return super().__add__(other)


class ChunkFolding:
    """Folds the chunks of one model call."""

    def __init__(self) -> None:
        self._count = 0
        """The number of chunks so far."""
        self._form: type | None = None
        """The content type of the chunks below: a text, or a list of blocks."""
        self._newest: list[ChatGenerationChunk] = []
        """The newest chunks, which are not folded yet."""
        self._levels: list[list[ChatGenerationChunk]] = [[]]
        """The chunks to fold next, by level: single chunks, sums of _GROUP chunks, and so on."""
        self._is_over = False
        """Whether folding has failed: later chunks are left unchanged."""
        self._first: ChatGenerationChunk | None = None
        """The first chunk of all."""
        self._emptied = 0
        """The chunks emptied since the empty ones were taken out of LangChain's list."""
        self._collected: list[ChatGenerationChunk] | None = None
        """LangChain's list, once it was looked for; None if it was not found."""
        self._has_looked = False

    def add(self, chunk: ChatGenerationChunk) -> None:
        """Add the newest chunk, which other callbacks have not seen yet; earlier ones may be folded."""
        self._count += 1
        if self._count > _LEFT_ALONE:
            self._add(chunk)
            if self._emptied >= _WORTH_A_LOOK:
                self._take_out_empty()
        elif self._count == 1 and type(chunk) is ChatGenerationChunk:
            object.__setattr__(chunk, "__class__", _FirstChunk)
            self._first = chunk

    def _take_out_empty(self) -> None:
        self._emptied = 0
        if not self._has_looked:
            self._has_looked = True
            self._collected = _list_of(self._first, self._count - 1)
        if self._collected is not None:
            self._collected[:] = [chunk for chunk in self._collected if chunk.__dict__ is not _EMPTY.__dict__]

    def _add(self, chunk: ChatGenerationChunk) -> None:
        if self._is_over:
            return
        if not isinstance(chunk.message, AIMessageChunk) or chunk.message.tool_call_chunks:
            # Sums of incomplete arguments are slow, and folding across a call would change the order of blocks.
            self._newest, self._levels = [], [[]]
            return
        form = type(chunk.message.content)
        if form is not self._form:
            # Only neighbours of one form are added up: the sum of a text and blocks depends on the chunks before.
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
                if any(sys.getrefcount(chunk) > _OWN_REFERENCES for chunk in level):
                    # A model may keep its chunks and send the same objects again. What follows these chunks must not
                    # be added to what is before them.
                    self._levels = [[]]
                    break
                self._levels[place] = []
                if place + 1 == len(self._levels):
                    self._levels.append([])
                self._levels[place + 1].append(_folded(level))
                self._emptied += len(level) - 1
        except Exception as error:
            # LangChain adds up the rest at the end, and raises the error if the chunks can't be added.
            self._is_over = True
            log.info("model chunks can't be added", extra={"reason": type(error).__name__})


def _folded(chunks: list[ChatGenerationChunk]) -> ChatGenerationChunk:
    """The first of `chunks`, which now holds the sum of all."""
    first, *others = chunks
    total = first + others
    first.message, first.generation_info = total.message, total.generation_info
    # LangChain's own is a copy of the content.
    first.text = total.message.content if isinstance(total.message.content, str) else total.text
    for other in others:
        # With a shared dictionary and set, an object takes a fifth of the memory.
        object.__setattr__(other, "__dict__", _EMPTY.__dict__)
        object.__setattr__(other, "__pydantic_fields_set__", _EMPTY.__pydantic_fields_set__)
    return first


def _list_of(first: ChatGenerationChunk | None, length: int) -> list[ChatGenerationChunk] | None:
    """The only list of this length that begins with `first`; None if there is none."""
    lists = [one for one in gc.get_referrers(first) if type(one) is list and len(one) == length and one[0] is first]
    return lists[0] if len(lists) == 1 else None
