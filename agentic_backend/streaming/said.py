"""Said: how much the models of one run have said, and how much they may.

A provider may stream without end, and each piece is kept until its message is complete. So a call that says too much
fails, at the piece that is too much; what it said before stays.
"""

from langchain_core.messages import AIMessage, AIMessageChunk

from agentic_backend.errors import LimitReached, ModelError
from agentic_backend.streaming.content import delta_of

MOST_CALLS = 128
"""Calls of tools in one message."""

MOST_ARGUMENTS_BYTES = 524_288
"""Bytes of all their arguments; LangChain puts these together in a time that grows with their square."""

MOST_EMPTY = 10_000
"""Pieces in a row that say nothing."""

UNBOUNDED = 2**63


class Said:
    """`call_bytes` and `run_bytes` of UTF-8 are the most that one call of a model, and all of them, may say."""

    def __init__(self, call_bytes: int = UNBOUNDED, run_bytes: int = UNBOUNDED) -> None:
        self.call_bytes = call_bytes
        self.run_bytes = run_bytes
        self.size = 0
        """Bytes that all calls have said so far."""


class SaidByCall:
    """What one call of a model has said, of all that is `said`."""

    __slots__ = ("_arguments", "_calls", "_empty", "_said", "_size")

    def __init__(self, said: Said) -> None:
        self._said = said
        self._size = self._arguments = self._calls = self._empty = 0

    def add(self, message: AIMessage) -> None:
        """Count a piece of the call's message, or all of it. Raises LimitReached or ModelError where it is too much."""
        thought, text = delta_of(message)
        size, calls = _bytes(text) + _bytes(thought) if thought else _bytes(text), 0
        if has_calls := _has_calls(message):
            arguments, calls = _arguments_of(message)
            size += arguments
            self._arguments += arguments
            self._calls += calls
        self._size += size
        said = self._said
        said.size += size
        self._empty = 0 if size or calls else self._empty + 1
        if self._size > said.call_bytes or said.size > said.run_bytes or has_calls or self._empty > MOST_EMPTY:
            self._check()

    def _check(self) -> None:
        said = self._said
        if self._size > said.call_bytes:
            raise LimitReached(f"The model said more than the {said.call_bytes} bytes that one call of it may say.")
        if said.size > said.run_bytes:
            raise LimitReached(f"The models said more than the {said.run_bytes} bytes that one exchange may have.")
        if self._calls > MOST_CALLS:
            raise ModelError(f"The language model made more than {MOST_CALLS} calls at once.")
        if self._arguments > MOST_ARGUMENTS_BYTES:
            raise ModelError(f"The language model gave its calls more than {MOST_ARGUMENTS_BYTES} bytes of arguments.")
        if self._empty > MOST_EMPTY:
            raise ModelError("The language model went on without saying anything.")


def _has_calls(message: AIMessage) -> bool:
    if isinstance(message, AIMessageChunk):
        return bool(message.tool_call_chunks)
    return bool(message.tool_calls or message.invalid_tool_calls)


def _arguments_of(message: AIMessage) -> tuple[int, int]:
    """(bytes of arguments, calls that begin) of a message or of a piece of one."""
    if isinstance(message, AIMessageChunk):
        chunks = message.tool_call_chunks
        return sum(_bytes(chunk["args"] or "") for chunk in chunks), sum(chunk["id"] is not None for chunk in chunks)
    calls = message.tool_calls
    return sum(len(str(call["args"])) for call in calls), len(calls) + len(message.invalid_tool_calls)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
