"""Said: counts and limits the output of the models of one run.

A provider may stream without end, and each chunk is kept until its message is complete. So a call that exceeds a limit
fails at that chunk; its earlier output stays.
"""

from langchain_core.messages import AIMessage, AIMessageChunk

from agentic_backend.errors import LimitReached, ModelError
from agentic_backend.streaming.content.conversion import delta_of, is_only_text

MOST_CALLS = 128
"""The most tool calls in one message."""

MOST_ARGUMENTS_BYTES = 524_288
"""The most bytes of all their arguments; LangChain's time to join them grows with the square of their length."""

MOST_EMPTY = 10_000
"""The most empty chunks in a row."""

UNBOUNDED = 2**63


class Said:
    """`call_bytes` limits the output of one model call, `run_bytes` that of all calls, both in bytes of UTF-8."""

    def __init__(self, call_bytes: int = UNBOUNDED, run_bytes: int = UNBOUNDED) -> None:
        self.call_bytes = call_bytes
        self.run_bytes = run_bytes
        self.size = 0
        """The output of all calls so far, in bytes."""


class SaidByCall:
    """Counts the output of one model call, and adds it to `said`."""

    __slots__ = ("_arguments", "_calls", "_empty", "_said", "_size")

    def __init__(self, said: Said) -> None:
        self._said = said
        # The bytes of this call, the bytes of its tool calls' arguments, the number of its tool calls, and the number
        # of its latest chunks that were empty.
        self._size = self._arguments = self._calls = self._empty = 0

    @property
    def size(self) -> int:
        """The output of this call so far, in bytes of UTF-8: its texts, its reasoning, its calls' arguments."""
        return self._size

    def add(self, message: AIMessage) -> None:
        """Count a chunk of the call's message, or all of it. Raises LimitReached or ModelError if it is too much."""
        calls, has_calls = 0, False
        if is_only_text(message):
            # Nearly all chunks of most models.
            text = str(message.content)
            size = len(text) if text.isascii() else _bytes(text)
        else:
            thought, text = delta_of(message)
            size, has_calls = _bytes(text) + _bytes(thought), _has_calls(message)
        if has_calls:
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
    """(bytes of arguments, new calls) of a message or a chunk."""
    if isinstance(message, AIMessageChunk):
        chunks = message.tool_call_chunks
        return sum(_bytes(chunk["args"] or "") for chunk in chunks), sum(chunk["id"] is not None for chunk in chunks)
    calls = message.tool_calls
    return sum(len(str(call["args"])) for call in calls), len(calls) + len(message.invalid_tool_calls)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
