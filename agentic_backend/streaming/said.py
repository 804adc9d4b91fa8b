"""Said: how much the models of one run have said, and how much they may.

A provider may stream without end, and each piece is kept until its message is complete. So a call that says too much
fails, at the piece that is too much; what it said before stays.
"""

from uuid import UUID

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


class _Call:
    __slots__ = ("arguments", "calls", "empty", "size")

    def __init__(self) -> None:
        self.size = self.arguments = self.calls = self.empty = 0


class Said:
    """`call_bytes` and `run_bytes` of UTF-8 are the most that one call of a model, and all of them, may say."""

    def __init__(self, call_bytes: int = UNBOUNDED, run_bytes: int = UNBOUNDED) -> None:
        self._call_bytes = call_bytes
        self._run_bytes = run_bytes
        self._size = 0
        self._calls: dict[UUID, _Call] = {}

    def add(self, run_id: UUID, message: AIMessage) -> None:
        """Count a piece of a call's message, or all of it. Raises LimitReached or ModelError where it is too much."""
        call = self._calls.setdefault(run_id, _Call())
        thought, text = delta_of(message)
        arguments, calls = _arguments_of(message)
        size = _bytes(thought) + _bytes(text) + arguments
        call.empty = 0 if size or calls else call.empty + 1
        call.size += size
        call.arguments += arguments
        call.calls += calls
        self._size += size
        self._check(call)

    def end(self, run_id: UUID) -> None:
        self._calls.pop(run_id, None)

    def _check(self, call: _Call) -> None:
        if call.size > self._call_bytes:
            raise LimitReached(f"The model said more than the {self._call_bytes} bytes that one call of it may say.")
        if self._size > self._run_bytes:
            raise LimitReached(f"The models said more than the {self._run_bytes} bytes that one exchange may have.")
        if call.calls > MOST_CALLS:
            raise ModelError(f"The language model made more than {MOST_CALLS} calls at once.")
        if call.arguments > MOST_ARGUMENTS_BYTES:
            raise ModelError(f"The language model gave its calls more than {MOST_ARGUMENTS_BYTES} bytes of arguments.")
        if call.empty > MOST_EMPTY:
            raise ModelError("The language model went on without saying anything.")


def _arguments_of(message: AIMessage) -> tuple[int, int]:
    """(bytes of arguments, calls that begin) of a message or of a piece of one."""
    if isinstance(message, AIMessageChunk):
        chunks = message.tool_call_chunks
        return sum(_bytes(chunk["args"] or "") for chunk in chunks), sum(chunk["id"] is not None for chunk in chunks)
    calls = message.tool_calls
    return sum(len(str(call["args"])) for call in calls), len(calls) + len(message.invalid_tool_calls)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
