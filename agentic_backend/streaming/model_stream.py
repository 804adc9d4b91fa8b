"""ModelStream: delivers the tokens of every model call within a graph's run at once.

It replaces LangGraph's stream mode `messages` for model calls, without a queue and a wake-up of the event loop per
token, which are half of that mode's cost. It keeps long answers cheap by folding the chunks that LangChain collects,
and lets other tasks run however fast the tokens come.
"""

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM

from agentic_backend.agents.agent_flow import StreamPart
from agentic_backend.agents.model_failures import ModelFailures
from agentic_backend.event_loop import is_cancelled
from agentic_backend.streaming.chunk_folding import ChunkFolding
from agentic_backend.streaming.content import cached_input_of, model_name, model_of, usage_of
from agentic_backend.streaming.said import Said, SaidByCall

Output = TypeVar("Output")
_Call = tuple[tuple[str, ...], dict[str, Any]]

HIDDEN_TAGS = frozenset({"hidden", TAG_HIDDEN})
"""The tags of a model call whose text is for nobody to see: neither its tokens nor the message that a node returns."""

IS_HIDDEN = "is_hidden"
"""The key by which the metadata of such a call says so."""

Purpose = Literal["answer", "title", "summary", "module", "internal"]
"""What a model is called for; `internal` are calls whose text nobody sees."""

# The name of a model that has none.
_UNKNOWN = "unknown"
# How long the tokens of a model that never waits may occupy the event loop, in seconds.
_SLICE_S = 0.005
# How long a call runs before `on_call` is told of it, in seconds.
_LONG_S = 0.5


class CallTokens(NamedTuple):
    """The tokens of a call. `cached_input` are those of `input` that the provider had cached."""

    input: int
    output: int
    cached_input: int = 0


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call that has ended, that its run no longer waits for, or that runs for long."""

    # The id of its LangChain run.
    id: str
    model: str
    purpose: Purpose
    duration_s: float
    # None if the provider did not report them.
    tokens: CallTokens | None = None
    # The type of the exception if the call failed, else empty.
    error: str = ""


class _Begun(NamedTuple):
    """A call that has not ended. `at` is in seconds of the monotonic clock."""

    at: float
    model: str
    purpose: Purpose


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


class ModelStream(ModelFailures):
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
        purpose: Purpose = "answer",
    ) -> None:
        """`on_call` gets each call once it has run for `_LONG_S`, if it does, and when it has ended, both in the event
        loop's thread. `purpose` is that of visible calls.
        """
        super().__init__()
        self._sink = sink
        self._on_call = on_call
        self._purpose = purpose
        # Limits the output of the run's models.
        self._said = said or Said()
        # The event loop and its thread; a model may run in another thread.
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        # The graph's namespace and the metadata of each visible call.
        self._calls: dict[UUID, _Call] = {}
        # The calls that have sent a token.
        self._streamed: dict[UUID, _Streamed] = {}
        # The calls that have not ended.
        self._begun: dict[UUID, _Begun] = {}
        # The calls that have ended, for the metrics.
        self.ended: list[ModelCall] = []
        # Whether the run is over.
        self._is_cut = False
        # When tokens began to occupy the event loop, and the callback that resets this once other tasks have run.
        self._slice_began = 0.0
        self._slice_ends: asyncio.Handle | None = None

    @property
    def running(self) -> int:
        """The number of calls that have not ended."""
        return len(self._begun)

    @property
    def unended(self) -> list[ModelCall]:
        """The calls that have not ended, as those of a run that ends without them."""
        return [_running(run_id, begun) for run_id, begun in self._begun.items()]

    def cut(self) -> None:
        """End the run. A model in a thread, which can't be cancelled, ends at its next token or call."""
        self._is_cut = True

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
        is_hidden = not HIDDEN_TAGS.isdisjoint(tags or ())
        is_shown = TAG_NOSTREAM not in (tags or ()) and not _is_internal(metadata or {})
        self._begin_call(run_id, metadata or {}, is_seen=is_shown and not is_hidden)
        if metadata is not None and (is_hidden or is_shown):
            # A provider may give its id only to some chunks of a message; the run id is the same for all.
            self._calls[run_id] = (_namespace(metadata), {**metadata, "run_id": str(run_id), IS_HIDDEN: is_hidden})

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """A call of a model without messages begins; none of its text is shown."""
        self._begin_call(run_id, metadata or {}, is_seen=False)

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
            streamed = self._streamed[run_id] = _Streamed(self._calls.get(run_id), self._said)
        if isinstance(chunk.message, AIMessage):
            # A hidden call takes memory too.
            streamed.said.add(chunk.message)
        streamed.folding.add(chunk)
        if (call := streamed.call) is not None:
            self._give((call[0], "messages", (chunk.message, call[1])))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """A call has ended; if it did not stream, its message is delivered as a whole."""
        call = self._calls.pop(run_id, None)
        generation = response.generations[0][0] if response.generations and response.generations[0] else None
        message = generation.message if isinstance(generation, ChatGeneration) else None
        self._note_end(run_id, message if isinstance(message, AIMessage) else None)
        if self._streamed.pop(run_id, None) is not None:
            return
        if isinstance(message, AIMessage):
            SaidByCall(self._said).add(message)
        if call is not None and message is not None:
            self._give((call[0], "messages", (message, call[1])))

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error, run_id=run_id)
        if run_id is not None:
            self._note_end(run_id, None, type(error).__name__)
            self._calls.pop(run_id, None)
            self._streamed.pop(run_id, None)

    def model_called(self, run_id: UUID | None) -> str:
        begun = self._begun.get(run_id) if run_id is not None else None
        return "" if begun is None or begun.model == _UNKNOWN else begun.model

    def _begin_call(self, run_id: UUID, metadata: Mapping[str, Any], *, is_seen: bool) -> None:
        model = model_name(metadata.get("ls_model_name")) or _UNKNOWN
        unseen: Purpose = "summary" if _summarizes(metadata) else "internal"
        self._begun[run_id] = _Begun(time.monotonic(), model, self._purpose if is_seen else unseen)
        # Weak and without the run's context: a run that has ended must leave no text in memory.
        tell = partial(_tell_if_running, weakref.ref(self), run_id)
        tell_later = partial(self._loop.call_later, _LONG_S, tell, context=Context())
        if threading.get_ident() == self._thread:
            tell_later()
        else:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(tell_later)

    def tell_if_running(self, run_id: UUID) -> None:
        """Tell `on_call` of the call, unless it, or the run, has ended."""
        if not self._is_cut and (begun := self._begun.get(run_id)) is not None:
            self._on_call(_running(run_id, begun))

    def _note_end(self, run_id: UUID, message: AIMessage | None, error: str = "") -> None:
        begun = self._begun.pop(run_id, None)
        if begun is None:
            # A limit has refused the call before it began.
            return
        call = ModelCall(
            id=str(run_id),
            model=(model_of(message) if message is not None else None) or begun.model,
            purpose=begun.purpose,
            duration_s=time.monotonic() - begun.at,
            tokens=_tokens_of(message) if message is not None else None,
            error=error,
        )
        self.ended.append(call)
        if threading.get_ident() == self._thread:
            self._on_call(call)
        else:
            # After the event loop's end it is of no use: a thread may outlive it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_call, call)

    def _end_thread(self) -> None:
        if threading.get_ident() != self._thread:
            raise asyncio.CancelledError

    def _give(self, part: StreamPart) -> None:
        if threading.get_ident() == self._thread:
            self._sink(part)
        else:
            # A synchronous node runs in a thread, and its model too.
            self._loop.call_soon_threadsafe(self._sink, part)


def _tell_if_running(stream: "weakref.ref[ModelStream]", run_id: UUID) -> None:
    if (still_there := stream()) is not None:
        still_there.tell_if_running(run_id)


def _running(run_id: UUID, begun: _Begun) -> ModelCall:
    """The call as it is while it runs, and if it never ends."""
    return ModelCall(str(run_id), begun.model, begun.purpose, time.monotonic() - begun.at, error="Unended")


def _is_internal(metadata: Mapping[str, Any]) -> bool:
    """Whether LangChain's middleware makes this call for itself, such as to summarize the conversation."""
    return _summarizes(metadata) or internal_call_metadata().items() <= metadata.items()


def _summarizes(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("lc_source") == "summarization"


def _tokens_of(message: AIMessage) -> CallTokens | None:
    usage = usage_of(message)
    if usage is None:
        return None
    return CallTokens(usage.input_tokens or 0, usage.output_tokens or 0, cached_input_of(message))


def _namespace(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The namespace of the graph in which a model speaks: its node's namespace without the node and, in a `@task`,
    without the chain of tasks that called it: such a call has the path `(_, <its caller's path>, <index>, True)`.
    """
    place = str(metadata.get("langgraph_checkpoint_ns", "")).split("|")[:-1]
    path = metadata.get("langgraph_path", ())
    while len(path) == 4 and path[3] is True:
        place, path = place[:-1], path[1]
    return tuple(place)
