"""Gives models the faster way to read their streams, after a check that it and the packages' own give the same.

The way goes through parts of the packages that a release may change. So before the first model of an API gets it, a
recorded stream is read in both ways, in memory. If anything differs, all models keep the ordinary way for that API.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import httpx2
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.agents.provider_streams import recorded_streams
from agentic_backend.agents.provider_streams.fast_clients import COMPLETIONS, MESSAGES, RESPONSES, apis_of, speed_up

log = logging.getLogger(__name__)


def with_fast_streams(model: BaseChatModel) -> BaseChatModel:
    """Make `model` read its streams in the faster way, as far as there is one that passes its check; return it."""
    if apis := [api for api in apis_of(model) if _passes(api)]:
        speed_up(model, apis)
    return model


@cache
def _passes(api: str) -> bool:
    try:
        # In a thread, as a loop may run in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _check(api)).result()
    except Exception:
        # Whatever a release of a package has changed.
        log.warning("provider's streams are read in the ordinary way", extra={"api": api}, exc_info=True)
        return False
    return True


async def _check(api: str) -> None:
    """Raises AssertionError if the recorded stream differs, and whatever the faster way raises."""
    build, recorded = _CASES[api]
    async with httpx2.AsyncClient(transport=_Recorded(recorded())) as client:
        ordinary, fast = build(client), build(client)
        speed_up(fast, [api])
        if await _chunks(ordinary) != await _chunks(fast):
            raise AssertionError("the recorded stream is read otherwise")


async def _chunks(model: BaseChatModel) -> list[ChatGenerationChunk]:
    # The provider's own part of a call, which no tracing sees.
    return [chunk async for chunk in model._astream([HumanMessage("?")])]


def _completions(client: httpx2.AsyncClient) -> BaseChatModel:
    return _openai(client, use_responses_api=False)


def _responses(client: httpx2.AsyncClient) -> BaseChatModel:
    return _openai(client, use_responses_api=True)


def _openai(client: httpx2.AsyncClient, **options: Any) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    # What the environment may say of a proxy or of another server is not for these.
    own = {"base_url": _NOWHERE, "openai_proxy": None, "max_retries": 0, "http_client": httpx2.Client()}
    return ChatOpenAI(model="recorded", api_key="-", http_async_client=client, **own, **options)


def _messages(client: httpx2.AsyncClient) -> BaseChatModel:
    from anthropic import AsyncAnthropic
    from langchain_anthropic import ChatAnthropic

    # Without tools, LangChain warns of calls.
    tools = {"tools": [{"name": "look_up", "input_schema": {"type": "object"}}]}
    model = ChatAnthropic(model_kwargs=tools, model="recorded", max_tokens=9, api_key="-", max_retries=0)
    # A cached property, which no argument sets.
    model.__dict__["_async_client"] = AsyncAnthropic(api_key="-", base_url=_NOWHERE, http_client=client)
    return model


_NOWHERE = "http://recorded.invalid/v1"
_CASES: dict[str, tuple[Callable[[httpx2.AsyncClient], BaseChatModel], Callable[[], bytes]]] = {
    COMPLETIONS: (_completions, recorded_streams.completions),
    RESPONSES: (_responses, recorded_streams.responses),
    MESSAGES: (_messages, recorded_streams.messages),
}


class _Recorded(httpx2.AsyncBaseTransport):
    """Answers each request with a recorded stream; no request leaves the process."""

    def __init__(self, recorded: bytes) -> None:
        self._recorded = recorded

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=self._recorded)
