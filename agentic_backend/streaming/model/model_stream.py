"""ModelStream: delivers the tokens of every model call within a graph's run at once.

It replaces LangGraph's stream mode `messages` for model calls, without a queue and a wake-up of the event loop per
token, which are half of that mode's cost. It keeps long answers cheap by folding the chunks that LangChain collects,
and lets other tasks run however fast the tokens come.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar
from uuid import UUID

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, LLMResult

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.loop.event_loop import is_cancelled
from agentic_backend.streaming.model.chunk_folding import ChunkFolding
from agentic_backend.streaming.model.chunk_texts import ChunkTexts
from agentic_backend.streaming.model.model_calls import (
    ModelCall,
    ModelCalls,
    OnBegin,
    begins,
    is_hidden,
    is_shown,
    message_of,
)
from agentic_backend.streaming.model.response_calls import ResponseCalls, ResponseIds
from agentic_backend.streaming.model.said import Said, SaidByCall
from agentic_backend.streaming.model.stream_turns import StreamTurns
from agentic_backend.streaming.model.thought_tags import ThoughtTags

Output = TypeVar("Output")
_Call = tuple[tuple[str, ...], dict[str, Any]]

IS_HIDDEN = "is_hidden"
"""The key by which the metadata of such a call says so."""

# So many chunks of a call don't wait for other streams: its first text is to be seen at once, and the first chunk of
# some providers has none.
_PASS = 2


class _Streamed:
    """A call that streams."""

    __slots__ = ("call", "checked_in", "folding", "ids", "passed", "run_id", "said", "texts", "thoughts")

    def __init__(self, run_id: UUID, call: _Call | None, said: Said, ids: ResponseIds) -> None:
        self.run_id = run_id
        self.ids = ids
        """Names its tool calls."""
        self.call = call
        """Its graph's namespace and its metadata; None if it is hidden."""
        self.texts = ChunkTexts()
        """Cleans its chunks."""
        self.thoughts = ThoughtTags()
        """Tells its thoughts apart."""
        self.folding = ChunkFolding()
        """Folds the chunks that LangChain collects."""
        self.passed = 0
        """How many of its chunks have not waited for other streams."""
        self.said = SaidByCall(said)
        """Counts its output."""
        self.checked_in = 0
        """The turn of the streams in which its task was last known not to be cancelled."""


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
        turns: StreamTurns | None = None,
        calls: ResponseCalls | None = None,
        on_begin: OnBegin = begins,
    ) -> None:
        """See ModelCalls for `on_call` and `on_begin`. `turns` are those of the process's streams; None: this run
        shares none. `calls` are the run's tool calls.
        """
        super().__init__(on_call, on_begin=on_begin)
        self.calls = calls or ResponseCalls()
        self._sink = sink
        self._said = said or Said()
        """Limits the output of the run's models."""
        self._calls: dict[UUID, _Call] = {}
        """The graph's namespace and the metadata of each visible call."""
        self._streamed: dict[UUID, _Streamed] = {}
        """The calls that have sent a token."""
        self._newest: _Streamed | None = None
        """The call that has sent the newest token."""
        self._turns = turns or StreamTurns()

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
        **kwargs: Any,
    ) -> None:
        """A model call begins; of one tagged `nostream`, and of one that middleware makes for itself, no tokens are
        shown.
        """
        if self._is_cut:
            self._end_thread()
        super().on_chat_model_start(serialized, messages, run_id=run_id, tags=tags, metadata=metadata, **kwargs)
        self.calls.begin(run_id, messages[0] if messages else ())
        hidden = is_hidden(tags)
        if metadata is not None and (hidden or is_shown(tags, metadata)):
            # A provider may give its id only to some chunks of a message; the run id is the same for all.
            self._calls[run_id] = (_namespace(metadata), {**metadata, "run_id": str(run_id), IS_HIDDEN: hidden})

    @property
    def on_llm_new_token(self) -> Callable[..., Any]:
        """What takes the next token: a plain function, because a coroutine function costs more, unless the tokens have
        occupied the event loop for too long, and other tasks have to run.
        """
        if threading.get_ident() != self._thread:
            return self._token_in_thread
        return self._token_and_pause if self._turns.used_up() else self._token

    def _token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        streamed = self._newest
        if streamed is None or streamed.run_id is not run_id or streamed.checked_in != self._turns.number:
            # Within a turn, no other task has run that could have cancelled this one.
            self._check_cancelled(run_id)
        if (part := self._taken(chunk, run_id)) is not None:
            self._sink(part)

    def _check_cancelled(self, run_id: UUID) -> None:
        if is_cancelled():
            # OpenAI's package reads chunks with `asyncio.wait_for`, which swallows some cancellations: without this, a
            # stopped model would go on to its end.
            raise asyncio.CancelledError
        if (streamed := self._streamed.get(run_id)) is not None:
            streamed.checked_in = self._turns.number

    async def _token_and_pause(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        self._token(token, chunk=chunk, run_id=run_id)
        streamed = self._streamed.get(run_id)
        if streamed is not None and streamed.passed < _PASS:
            streamed.passed += 1
        else:
            await self._wait_in_line()

    async def _wait_in_line(self) -> None:
        """Let the streams go on that came before."""
        await self._turns.wait()

    def _token_in_thread(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        if (part := self._taken(chunk, run_id)) is not None:
            self._give(part)

    def _taken(self, chunk: object, run_id: UUID) -> StreamPart | None:
        """The part to deliver for a chunk, once it is counted; None for a hidden call."""
        if self._is_cut:
            self._end_thread()
        if not isinstance(chunk, ChatGenerationChunk):
            return None
        streamed = self._newest
        # All tokens of a call come with the same object, and to hash it is slow.
        if streamed is None or streamed.run_id is not run_id:
            streamed = self._newest = self._streaming(run_id)
        message = chunk.message
        if isinstance(message, AIMessageChunk):
            streamed.texts.put_into(message)
            streamed.thoughts.put_into(message)
        if isinstance(message, AIMessage):
            # A hidden call takes memory too.
            streamed.said.add(message)
            if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
                streamed.ids.put_into(message)
        streamed.folding.add(chunk)
        call = streamed.call
        return (call[0], "messages", (message, call[1])) if call is not None else None

    def _streaming(self, run_id: UUID) -> _Streamed:
        streamed = self._streamed.get(run_id)
        if streamed is None:
            streamed = self._streamed[run_id] = _Streamed(
                run_id, self._calls.get(run_id), self._said, self.calls.of_response()
            )
            self.note_chunk(run_id, streamed.said)
        return streamed

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """A call has ended; if it did not stream, its message is delivered as a whole."""
        call, message = self._calls.pop(run_id, None), message_of(response)
        super().on_llm_end(response, run_id=run_id)
        streamed = self._forget(run_id)
        if isinstance(message, AIMessage):
            ids = streamed.ids if streamed is not None else self.calls.of_response()
            if streamed is None:
                ids.put_into(message)
                SaidByCall(self._said).add(message)
            self.calls.end(run_id, message, ids.written)
        if streamed is not None:
            return
        if call is not None and message is not None:
            self._give((call[0], "messages", (message, call[1])))

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error, run_id=run_id, **kwargs)
        if run_id is not None:
            self._calls.pop(run_id, None)
            self._forget(run_id)
            self.calls.fail(run_id)

    def _forget(self, run_id: UUID) -> _Streamed | None:
        """Forget a call that has ended; return what it was if it has streamed."""
        streamed = self._streamed.pop(run_id, None)
        if streamed is not None and self._newest is streamed:
            self._newest = None
        return streamed

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
