"""Call ids: the tool calls of a run get ids of their own where a provider repeats them.

Some providers number the calls of each response from 0, so those of a leader, of its expert and of its next turn are
the same. Results, approvals and records are found by a call's id. An id that is unique stays the provider's.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import cast

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from agentic_backend.agents.runtime_context import find_context

_AT_MOST = 10_000
"""The ids of one run that are compared."""


class ResponseIds:
    """Renames the repeated ids of one response, in place."""

    def __init__(self) -> None:
        context = find_context()
        self._taken = context.call_ids if context is not None else {}
        # The id of each call so far, by its place in the response and the provider's id: a later chunk may repeat it.
        self._named: dict[tuple[object, str], str] = {}

    def put_into(self, message: BaseMessage) -> None:
        if not isinstance(message, AIMessage):
            return
        calls = message.tool_call_chunks if isinstance(message, AIMessageChunk) else message.tool_calls
        # Nearly all chunks have none. Providers that tell calls in content blocks have unique ids, which those blocks
        # must keep.
        if not calls or not isinstance(message.content, str):
            return
        changed: dict[str, str] = {}
        for place, call in enumerate(calls):
            if given := call["id"]:
                index = call.get("index")
                own = self._own((place if index is None else index, given))
                if own != given:
                    call["id"] = changed[given] = own
        if changed and isinstance(message, AIMessageChunk):
            for parsed in (*message.tool_calls, *message.invalid_tool_calls):
                parsed["id"] = changed.get(parsed["id"] or "", parsed["id"])

    def _own(self, key: tuple[object, str]) -> str:
        if key not in self._named:
            given, number = key[1], 1
            own, mark = given, object()
            # By setdefault, because models may run in threads.
            while len(self._taken) < _AT_MOST and self._taken.setdefault(own, mark) is not mark:
                number += 1
                own = f"{given}_{number}"
            self._named[key] = own
        return self._named[key]


def with_own_ids(result: ChatResult) -> ChatResult:
    ids = ResponseIds()
    for generation in result.generations:
        ids.put_into(generation.message)
    return result


def stream_with_own_ids(stream: Iterator[ChatGenerationChunk]) -> Iterator[ChatGenerationChunk]:
    ids = ResponseIds()
    for chunk in stream:
        ids.put_into(chunk.message)
        yield chunk


async def astream_with_own_ids(stream: AsyncIterator[ChatGenerationChunk]) -> AsyncIterator[ChatGenerationChunk]:
    ids = ResponseIds()
    async with aclosing(cast("AsyncGenerator[ChatGenerationChunk]", stream)):
        async for chunk in stream:
            ids.put_into(chunk.message)
            yield chunk
