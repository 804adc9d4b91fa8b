"""ModelCalls: notes every model call beneath it: which model, what for, how long, how many tokens.

A LangChain callback of one run, or of one call of the server's own. It lets models answer as they would without it: it
does not make them stream.
"""

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from langchain.agents.middleware.internal_call_transformer import internal_call_metadata
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM

from agentic_backend.agents.models.model_failures import ModelFailures
from agentic_backend.agents.models.provider_failures import failure_type, may_have_cost
from agentic_backend.agents.state.clean_values import clean_value
from agentic_backend.errors import AgenticError
from agentic_backend.stores.protocol.trail import Purpose
from agentic_backend.streaming.content.conversion import cached_input_of, model_name, model_of, usage_of
from agentic_backend.streaming.model.call_spans import chat_span, end_chat, fail_span
from agentic_backend.streaming.model.said import Said, SaidByCall
from agentic_backend.streaming.model.thought_tags import untagged
from agentic_backend.tracing.spans import OpenSpan

HIDDEN_TAGS = frozenset({"hidden", TAG_HIDDEN})
"""The tags of a model call whose text is for nobody to see: neither its tokens nor the message that a node returns."""

CUT = "cut"
"""The error of a call that its run ends without."""

# The name of a model that has none.
_UNKNOWN = "unknown"
# How long a call runs before `on_call` is told of it, in seconds.
_LONG_S = 0.5


class CallTokens(NamedTuple):
    """The tokens of a call. `cached_input` are those of `input` that the provider had cached."""

    input: int
    output: int
    cached_input: int = 0


@dataclass(slots=True, weakref_slot=True)
class Asked:
    """What a model is asked with: references, no copies."""

    messages: Sequence[BaseMessage] = field(repr=False)
    tools: Sequence[Any] = field(default=(), repr=False)
    """The definitions of the tools that it may call."""
    most_output: int | None = None
    """The most output tokens that it was allowed; None if nothing limits them."""
    input_tokens: int | None = None
    """How many tokens these are by an estimate, once there is one."""
    task: "weakref.ref[asyncio.Task[Any]] | None" = field(default=None, repr=False)
    """The one that has begun the call; None in a thread."""
    is_left: bool = False
    """Whether its task has begun another call, and so waits no longer for this one."""

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the call: LangChain tells of no end if one that it doesn't stream is cancelled."""
        if self.is_left or self.task is None:
            return self.is_left
        task = self.task()
        return task is None or task.done()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A model call that has ended, that its run no longer waits for, or that runs for long."""

    id: str
    """The id of its LangChain run."""
    model: str
    purpose: Purpose
    duration_s: float
    tokens: CallTokens | None = None
    """None if the provider did not report them."""
    error: str = ""
    """What kind of failure it was if the call failed (see `failure_type`), else empty."""
    # LangChain's name of the provider, and the model's name as the provider was asked for it; empty if not known.
    provider: str = ""
    requested: str = ""
    first_chunk_s: float | None = None
    """From the call to the first chunk; None if it did not stream."""
    asked: Asked | None = None
    """What it was asked with; None if the provider reported the tokens, and if it has done nothing for them."""
    output_bytes: int = 0
    """Its output so far, in bytes of UTF-8."""
    is_running: bool = False


class _Begun(NamedTuple):
    """A call that has not ended. `at` is in seconds of the monotonic clock."""

    at: float
    model: str
    purpose: Purpose
    span: OpenSpan | None
    asked: Asked
    provider: str = ""


class _Streaming(NamedTuple):
    """A call that streams. `at` is when its first chunk came, in seconds of the monotonic clock."""

    at: float
    said: SaidByCall


OnBegin = Callable[[str, str, Asked], None]
"""Gets a call that is about to begin, in its own thread: its id, the name of its model, and what is asked."""


def begins(call_id: str, model: str, asked: Asked) -> None:
    """Every call may begin."""


class ModelCalls(ModelFailures):
    def __init__(
        self,
        on_call: Callable[[ModelCall], None] = lambda call: None,
        purpose: Purpose = "answer",
        on_begin: OnBegin = begins,
    ) -> None:
        """`on_call` gets each call once it has run for `_LONG_S`, if it does, and when it has ended, both in the event
        loop's thread. `purpose` is that of visible calls. What `on_begin` raises refuses the call.
        """
        super().__init__()
        self._on_call = on_call
        self._on_begin = on_begin
        self._purpose = purpose
        # The event loop and its thread; a model may run in another thread.
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._begun: dict[UUID, _Begun] = {}
        """The calls that have not ended."""
        self._streaming_calls: dict[UUID, _Streaming] = {}
        """Those of them that stream."""
        self.ended: list[ModelCall] = []
        """The calls that have ended, for the metrics."""
        self._is_cut = False
        """Whether the run is over."""

    @property
    def begun_at(self) -> list[float]:
        """When the calls began that have not ended, in seconds of the monotonic clock. From any thread."""
        return [begun.at for begun in list(self._begun.values())]

    @property
    def unended(self) -> list[ModelCall]:
        """The calls that have not ended, as those of a run that ends without them."""
        return [self._call(run_id, begun, None, CUT) for run_id, begun in self._begun.items()]

    def cut(self) -> None:
        """End the run: calls that go on are told of no more."""
        self._is_cut = True
        for begun in list(self._begun.values()):
            fail_span(begun.span, CUT)

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        invocation_params: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        is_seen = is_shown(tags, metadata) and not is_hidden(tags)
        asked = _asked(messages[0] if messages else [], metadata, invocation_params)
        self._begin_call(run_id, metadata or {}, asked, is_seen=is_seen)

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
        asked = _asked([HumanMessage(prompt) for prompt in prompts], metadata, None)
        self._begin_call(run_id, metadata or {}, asked, is_seen=False)

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        """A model streams by itself."""
        if run_id not in self._streaming_calls:
            self.note_chunk(run_id, SaidByCall(Said()))
        if isinstance(chunk, ChatGenerationChunk) and isinstance(chunk.message, AIMessage):
            _count(self._streaming_calls[run_id].said, chunk.message)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        # In place, before anybody gets it.
        message = untagged(clean_value(message_of(response)))
        self._note_end(run_id, message if isinstance(message, AIMessage) else None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID | None = None, **kwargs: Any) -> None:
        super().on_llm_error(error, run_id=run_id)
        if run_id is not None:
            self._note_end(run_id, None, failure_type(error), has_cost=may_have_cost(error))

    def model_called(self, run_id: UUID | None) -> str:
        begun = self._begun.get(run_id) if run_id is not None else None
        return "" if begun is None or begun.model == _UNKNOWN else begun.model

    def tell_if_running(self, run_id: UUID) -> None:
        """Tell `on_call` of the call, unless it, or the run, has ended."""
        if not self._is_cut and (begun := self._begun.get(run_id)) is not None:
            self._on_call(replace(self._call(run_id, begun, None, ""), is_running=True))

    def note_chunk(self, run_id: UUID, said: SaidByCall) -> None:
        """The first chunk of the call has come; `said` counts its output."""
        self._streaming_calls.setdefault(run_id, _Streaming(time.monotonic(), said))

    def _begin_call(self, run_id: UUID, metadata: Mapping[str, Any], asked: Asked, *, is_seen: bool) -> None:
        model = model_name(metadata.get("ls_model_name")) or _UNKNOWN
        self._end_left(asked)
        if not self._is_cut:
            self._on_begin(str(run_id), model, asked)
        unseen: Purpose = "summary" if _summarizes(metadata) else "internal"
        provider = str(metadata.get("ls_provider") or "")
        purpose = self._purpose if is_seen else unseen
        span = chat_span(model, metadata, asked.messages)
        self._begun[run_id] = _Begun(time.monotonic(), model, purpose, span, asked, provider)
        # Weak and without the run's context: a run that has ended must leave no text in memory.
        tell = partial(_tell_if_running, weakref.ref(self), run_id)
        tell_later = partial(self._loop.call_later, _LONG_S, tell, context=Context())
        if threading.get_ident() == self._thread:
            tell_later()
        else:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(tell_later)

    def _end_left(self, asked: Asked) -> None:
        """End the calls that were cancelled before this one begins."""
        if asked.task is None:
            return
        for run_id, begun in list(self._begun.items()):
            if begun.asked.is_over and not begun.asked.is_left:
                self.on_llm_error(asyncio.CancelledError(), run_id=run_id)
            elif begun.asked.task == asked.task:
                # It may run still, within this one: a model may ask another.
                begun.asked.is_left = True

    def _note_end(self, run_id: UUID, message: AIMessage | None, error: str = "", *, has_cost: bool = True) -> None:
        begun = self._begun.pop(run_id, None)
        if begun is None:
            # A limit has refused the call before it began.
            return
        if error:
            fail_span(begun.span, error)
        else:
            end_chat(begun.span, message)
        call = self._call(run_id, begun, message, error, has_cost=has_cost)
        self._streaming_calls.pop(run_id, None)
        # Without the texts, for the run may be long.
        self.ended.append(replace(call, asked=None))
        if threading.get_ident() == self._thread:
            self._on_call(call)
        else:
            # After the event loop's end it is of no use: a thread may outlive it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_call, call)

    def _call(
        self, run_id: UUID, begun: _Begun, message: AIMessage | None, error: str, *, has_cost: bool = True
    ) -> ModelCall:
        streaming = self._streaming_calls.get(run_id)
        tokens = _tokens_of(message) if message is not None else None
        said = streaming.said if streaming is not None else SaidByCall(Said())
        if streaming is None and message is not None and tokens is None:
            _count(said, message)
        return ModelCall(
            id=str(run_id),
            model=(model_of(message) if message is not None else None) or begun.model,
            purpose=begun.purpose,
            duration_s=time.monotonic() - begun.at,
            tokens=tokens,
            error=error,
            provider=begun.provider,
            requested="" if begun.model == _UNKNOWN else begun.model,
            first_chunk_s=None if streaming is None else streaming.at - begun.at,
            # Whatever it has failed with, the provider was at work once a chunk has come.
            asked=begun.asked if tokens is None and (has_cost or streaming is not None) else None,
            output_bytes=said.size,
        )


def is_hidden(tags: list[str] | None) -> bool:
    """Whether the text of a call with these tags is for nobody to see."""
    return not HIDDEN_TAGS.isdisjoint(tags or ())


def is_shown(tags: list[str] | None, metadata: Mapping[str, Any] | None) -> bool:
    """Whether the tokens of a call are shown: it is not tagged `nostream`, and no middleware makes it for itself."""
    return TAG_NOSTREAM not in (tags or ()) and not _is_internal(metadata or {})


def message_of(response: LLMResult) -> BaseMessage | None:
    """The message that a call has ended with."""
    generation = response.generations[0][0] if response.generations and response.generations[0] else None
    return generation.message if isinstance(generation, ChatGeneration) else None


def _tell_if_running(calls: "weakref.ref[ModelCalls]", run_id: UUID) -> None:
    if (still_there := calls()) is not None:
        still_there.tell_if_running(run_id)


def _is_internal(metadata: Mapping[str, Any]) -> bool:
    """Whether LangChain's middleware makes this call for itself, such as to summarize the conversation."""
    return _summarizes(metadata) or internal_call_metadata().items() <= metadata.items()


def _summarizes(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("lc_source") == "summarization"


def _count(said: SaidByCall, message: AIMessage) -> None:
    # Whether it is too much is not asked here: it counts all the same.
    with contextlib.suppress(AgenticError):
        said.add(message)


def _asked(
    messages: Sequence[BaseMessage], metadata: Mapping[str, Any] | None, params: Mapping[str, Any] | None
) -> Asked:
    tools, most = (params or {}).get("tools"), (metadata or {}).get("ls_max_tokens")
    return Asked(
        messages,
        tools if isinstance(tools, list | tuple) else (),
        most if isinstance(most, int) and most > 0 else None,
        task=_current_task(),
    )


def _current_task() -> "weakref.ref[asyncio.Task[Any]] | None":
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # No event loop runs in this thread.
        return None
    return None if task is None else weakref.ref(task)


def _tokens_of(message: AIMessage) -> CallTokens | None:
    usage = usage_of(message)
    if usage is None:
        return None
    return CallTokens(usage.input_tokens or 0, usage.output_tokens or 0, cached_input_of(message))
