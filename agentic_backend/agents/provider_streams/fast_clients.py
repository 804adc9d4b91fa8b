"""Makes the clients of OpenAI's and Anthropic's packages read their streams faster, with equal results.

A client gets a subclass of its class, as a wrapper would be no client for LangChain and authors. Nothing is patched:
other clients of the process stay as they are.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.provider_streams.event_decoder import EventDecoder
from agentic_backend.agents.provider_streams.exact_events import ExactEvents
from agentic_backend.agents.provider_streams.plain_chunks import copy_plain_chunks
from agentic_backend.agents.provider_streams.silence import Silence

COMPLETIONS, RESPONSES, MESSAGES = "completions", "responses", "messages"
"""OpenAI's two APIs, and Anthropic's."""


def apis_of(model: BaseChatModel) -> Collection[str]:
    """The APIs that `model` streams by, as far as they can be read faster."""
    kinds = [type(client) for client in _clients(model)]
    # A class of somebody else's that has its own way keeps it.
    if not kinds or any(getattr(kind, hook).__module__ not in _BASES for kind in kinds for hook in _HOOKS):
        return []
    if not hasattr(model, "root_async_client"):
        return [MESSAGES]
    # Which one a call takes is decided by its tools too.
    responses = getattr(model, "_use_responses_api", lambda payload: False)({"tools": [_TOOL]})
    return [COMPLETIONS, RESPONSES] if responses else [COMPLETIONS]


def speed_up(model: BaseChatModel, apis: Collection[str]) -> None:
    """Give the clients of `model` the faster way to read streams of `apis`, which are among its own."""
    events = ExactEvents([streamed for api in apis for streamed in _STREAMED[api]()])
    silence = _silence(model)
    for client in _clients(model):
        client.__class__ = _fast(type(client), events, silence)
    if COMPLETIONS in apis:
        copy_plain_chunks(model)


def _clients(model: Any) -> Sequence[Any]:
    """The clients by which `model` streams, of OpenAI's package or Anthropic's."""
    openai, anthropic = sys.modules.get("openai"), sys.modules.get("langchain_anthropic")
    if openai is not None and isinstance(getattr(model, "root_async_client", None), openai.AsyncOpenAI):
        # A model whose key comes from a coroutine has no synchronous client.
        return [client for client in (model.root_client, model.root_async_client) if client is not None]
    if anthropic is not None and isinstance(model, anthropic.ChatAnthropic):
        # The synchronous one is made by its first call, if there ever is one.
        return [model._async_client]
    return []


def _silence(model: Any) -> Callable[[], Silence]:
    """Makes what bounds the silence of a stream of `model`, in place of LangChain's bound, which is switched off."""
    longest_s = getattr(model, "stream_chunk_timeout", None)
    if not longest_s:
        return lambda: Silence(None, TimeoutError)
    from langchain_openai import StreamChunkTimeoutError

    name, model.stream_chunk_timeout = model.model_name, None

    def error(longest_s: float, events: int) -> Exception:
        return StreamChunkTimeoutError(longest_s, model_name=name, chunks_received=events)

    return lambda: Silence(longest_s, error)


def _fast(kind: Any, events: ExactEvents, silence: Callable[[], Silence]) -> type:
    """The class that a client of the class `kind` gets."""
    read_otherwise, make_own_decoder = kind._process_response_data, kind._make_sse_decoder

    def process_response_data(self: Any, *, data: object, cast_to: Any, response: Any) -> Any:
        read = events.read(data, cast_to)
        if read is not None:
            return read
        return read_otherwise(self, data=data, cast_to=cast_to, response=response)

    def make_sse_decoder(self: Any) -> EventDecoder:
        return EventDecoder(make_own_decoder(self), silence())

    # With one base: an object can only get a class of the same layout, which a mixin would change.
    return type(kind.__name__, (kind,), dict(zip(_HOOKS, (process_response_data, make_sse_decoder), strict=True)))


# What the packages' classes leave to their clients, and where those begin.
_HOOKS = ("_process_response_data", "_make_sse_decoder")
_BASES = ("openai._base_client", "anthropic._base_client")

# What the streams of the APIs are cast to; imported where it is used, as only models of the packages need it.


def _completions() -> Sequence[Any]:
    from openai.types.chat import ChatCompletionChunk

    return [ChatCompletionChunk]


def _responses() -> Sequence[Any]:
    from openai.types.responses import ResponseStreamEvent

    return [ResponseStreamEvent]


def _messages() -> Sequence[Any]:
    from anthropic.types import RawMessageStreamEvent
    from anthropic.types.beta import BetaRawMessageStreamEvent

    return [RawMessageStreamEvent, BetaRawMessageStreamEvent]


_STREAMED = {COMPLETIONS: _completions, RESPONSES: _responses, MESSAGES: _messages}
_TOOL = {"type": "function", "name": "look_up"}
