"""ModelStream: delivers the tokens of every model call within a graph's run at once.

It replaces LangGraph's stream mode `messages` for model calls, without a queue and a wake-up of the event loop per
token, which are half of that mode's cost. It keeps long answers cheap by folding the chunks that LangChain collects,
and lets other tasks run however fast the tokens come.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, LLMResult

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.event_loop import is_cancelled
from agentic_backend.streaming.chunk_folding import ChunkFolding
from agentic_backend.streaming.model_calls import ModelCall, ModelCalls, is_hidden, is_shown, message_of
from agentic_backend.streaming.said import Said, SaidByCall

Output = TypeVar("Output")
_Call = tuple[tuple[str, ...], dict[str, Any]]

IS_HIDDEN = "is_hidden"
"""The key by which the metadata of such a call says so."""

# How long the tokens of a model that never waits may occupy the event loop, in seconds.
_SLICE_S = 0.005


class _Streamed:
    """A call that streams."""

    __slots__ = ("call", "folding", "said")

    def __init__(self, call: _Call | None, said: Said) -> None:
        # Its graph's namespace and its metadata; None if it is hidden.
        self.call = call
        # Folds the chunks that LangChain collects.
        self.folding = ChunkFolding()
        # Counts its output.
        self.said = SaidByCall(said)


class ModelStream(ModelCalls):
    """A LangChain callback, owned by one run; `sink` gets the parts in order, in the event loop's thread.

    LangChain streams from models that can if a handler has the two `tap_output` methods.
    """

    # An error in the sink is an error of the run, not a line in LangChain's log.
    raise_error = True

    def __init__(
        self,
        sink: Callable[[StreamPart], None],
        said: Said | None = None,
        on_call: Callable[[ModelCall], None] = lambda call: None,
    ) -> None:
        """See ModelCalls for `on_call`."""
        super().__init__(on_call)
        self._sink = sink
        # Limits the output of the run's models.
        self._said = said or Said()
        # The graph's namespace and the metadata of each visible call.
        self._calls: dict[UUID, _Call] = {}
        # The calls that have sent a token.
        self._streamed: dict[UUID, _Streamed] = {}
        # When tokens began to occupy the event loop, and the callback that resets this once other tasks have run.
        self._slice_began = 0.0
        self._slice_ends: asyncio.Handle | None = None

    def cut(self) -> None:
        """End the run. A model in a thread, which can't be cancelled, ends at its next token or call."""
        super().cut()

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Output]) -> AsyncIterator[Output]:
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Output]) -> Iterator[Output]:
        return output

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A model call begins; of one tagged `nostream`, and of one that middleware makes for itself, no tokens are
        shown.
        """
        if self._is_cut:
            self._end_thread()
        super().on_chat_model_start(serialized, messages, run_id=run_id, tags=tags, metadata=metadata)
        hidden = is_hidden(tags)
        if metadata is not None and (hidden or is_shown(tags, metadata)):
            # A provider may give its id only to some chunks of a message; the run id is the same for all.
            self._calls[run_id] = (_namespace(metadata), {**metadata, "run_id": str(run_id), IS_HIDDEN: hidden})

    @property
    def on_llm_new_token(self) -> Callable[..., Any]:
        """A coroutine function in the event loop's thread, else a plain one: awaiting in another thread is slow."""
        return self._token if threading.get_ident() == self._thread else self._token_in_thread

    async def _token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        if is_cancelled():
            # OpenAI's package reads chunks with `asyncio.wait_for`, which swallows some cancellations: without this, a
            # stopped model would go on to its end.
            raise asyncio.CancelledError
        if self._slice_ends is None:
            self._slice_began = time.monotonic()
            self._slice_ends = self._loop.call_soon(self._end_slice)
        self._take(chunk, run_id)
        if time.monotonic() - self._slice_began > _SLICE_S:
            await asyncio.sleep(0)

    def _end_slice(self) -> None:
        self._slice_ends = None

    def _token_in_thread(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        self._take(chunk, run_id)

    def _take(self, chunk: object, run_id: UUID) -> None:
        if self._is_cut:
            self._end_thread()
        if not isinstance(chunk, ChatGenerationChunk):
            return
        streamed = self._streamed.get(run_id)
        if streamed is None:
            self.note_chunk(run_id)
            streamed = self._streamed[run_id] = _Streamed(self._calls.get(run_id), self._said)
        if isinstance(chunk.message, AIMessage):
            # A hidden call takes memory too.
            streamed.said.add(chunk.message)
        streamed.folding.add(chunk)
        if (call := streamed.call) is not None:
            self._give((call[0], "messages", (chunk.message, call[1])))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """A call has ended; if it did not stream, its message is delivered as a whole."""
        call, message = self._calls.pop(run_id, None), message_of(response)
        super().on_llm_end(response, run_id=run_id)
        if self._streamed.pop(run_id, None) is not None:
            return
        if isinstance(message, AIMessage):
            SaidByCall(self._said).add(message)
        if call is not None and message is not None:
            self._give((call[0], "messages", (message, call[1])))

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error, run_id=run_id, **kwargs)
        if run_id is not None:
            self._calls.pop(run_id, None)
            self._streamed.pop(run_id, None)

    def _end_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise asyncio.CancelledError

    def _give(self, part: StreamPart) -> None:
        if threading.get_ident() == self._thread:
            self._sink(part)
        else:
            # A synchronous node runs in a thread, and its model too.
            self._loop.call_soon_threadsafe(self._sink, part)


def _namespace(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The namespace of the graph in which a model speaks: its node's namespace without the node and, in a `@task`,
    without the chain of tasks that called it: such a call has the path `(_, <its caller's path>, <index>, True)`.
    """
    place = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")[:-1]
    path = metadata.get("langgraph_path", ())
    while len(path) == 4 and path[3] is True:
        place, path = place[:-1], path[1]
    return tuple(place)
