"""Reads providers' responses within bounds that their packages and LangChain don't set.

HTTP clients for OpenAI's package bound the responses: the package buffers a whole line, or a whole response that is
not streamed, of any length, and makes an object of each listed item. They also send on the ids of the call. Tool call
arguments are parsed in linear time: LangChain parses each piece anew, and invalid JSON once per character, so that
64 KiB block the event loop for a minute.
"""

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import httpx2
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import BaseMessage, ContentBlock, ai
from langchain_core.utils.json import parse_partial_json
from pydantic_core import from_json

from agentic_backend.agents.models.provider_failures import tells_of_quota
from agentic_backend.agents.run.at_work import note_retry
from agentic_backend.agents.tools.unfit_calls import INVALID, is_object
from agentic_backend.tracing.spans import sent_on

_LONGEST_LINE = 16 * 1024 * 1024
_LONGEST_BODY = 16 * 1024 * 1024
# The largest refusal that is read for its cause, in bytes.
_LONGEST_REFUSAL = 64 * 1024
_STREAMED = re.compile(rb'"stream"\s*:\s*true')
_MOST_OBJECTS = 10_000
# Can't match inside a JSON string, where each quotation mark is escaped.
_NEXT_OBJECT = re.compile(rb'\}\s*,\s*\{\s*"')
# LangChain's own parser still handles arguments up to this length.
_SHORT = 256


def bounded_clients(proxy: str | None = None) -> dict[str, Any]:
    """The options of LangChain's package with clients that bound responses; nodes may call a model either way.

    The clients have the defaults of OpenAI's package, ask by the URL of the `proxy` if there is one, and live as long
    as their model.
    """
    # Imported here, because only models of OpenAI need it.
    import openai

    _take_any_arguments()
    return {
        "http_client": openai.DefaultHttpxClient(
            proxy=proxy, verify=_tls(), event_hooks={"request": [_name, _note_retry], "response": [_bound]}
        ),
        "http_async_client": openai.DefaultAsyncHttpxClient(
            proxy=proxy,
            verify=_tls(),
            event_hooks={"request": [_name_async, _note_retry_async], "response": [_bound_async]},
        ),
    }


@cache
def _tls() -> ssl.SSLContext:
    """The TLS context of all clients: making one reads the trusted certificates from files."""
    return httpx2.create_ssl_context()


def _name(request: httpx2.Request) -> None:
    """Tell the provider of the call and the trace that the request belongs to."""
    request.headers.update(sent_on())


async def _name_async(request: httpx2.Request) -> None:
    _name(request)


def _note_retry(request: httpx2.Request) -> None:
    """The package tells in a header how often it has sent the request before."""
    if request.headers.get("x-stainless-retry-count", "0") != "0":
        note_retry()


async def _note_retry_async(request: httpx2.Request) -> None:
    _note_retry(request)


def _bound(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.SyncByteStream)
    response.stream = _Bounded(response.stream, _Count(response.request))
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        response.read()
        _forbid_hopeless_retries(response)


async def _bound_async(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _AsyncBounded(response.stream, _Count(response.request))
    if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        await response.aread()
        _forbid_hopeless_retries(response)


def _forbid_hopeless_retries(response: httpx2.Response) -> None:
    """Make OpenAI's package raise at once if the quota is used up: by itself it retries each response 429."""
    if len(response.content) > _LONGEST_REFUSAL:
        return
    try:
        is_hopeless = tells_of_quota(response.json())
    # A body may be nested too deep.
    except (ValueError, RecursionError):
        return
    if is_hopeless:
        response.headers["x-should-retry"] = "false"


class _Count:
    """Counts what must be read at once: a line of a stream, or a whole response that is not streamed."""

    def __init__(self, request: httpx2.Request) -> None:
        self._is_stream = _STREAMED.search(request.content) is not None
        """The request decides, not the response's type: the package buffers every response that it did not ask to
        stream.
        """
        self._most = _LONGEST_LINE if self._is_stream else _LONGEST_BODY
        # The bytes and the objects since the last line began.
        self._size = self._objects = 0

    def add(self, data: bytes) -> None:
        """Count `data`, which has arrived. Raises httpx2.DecodingError if it is too much."""
        end = data.rfind(b"\n") if self._is_stream else -1
        if end >= 0:
            self._size = self._objects = 0
        self._size += len(data) - end - 1
        self._objects += len(_NEXT_OBJECT.findall(data, end + 1))
        if self._size > self._most or self._objects > _MOST_OBJECTS:
            raise httpx2.DecodingError("The provider sent more at once than is read.")


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, count: _Count) -> None:
        self._stream = stream
        self._count = count

    def __iter__(self) -> Iterator[bytes]:
        for data in self._stream:
            self._count.add(data)
            yield data

    def close(self) -> None:
        self._stream.close()


class _AsyncBounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, count: _Count) -> None:
        self._stream = stream
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._stream:
            self._count.add(data)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


def _take_any_arguments() -> None:
    """Make LangChain's package for OpenAI mark a call whose arguments are JSON but no object; it would fail."""
    from langchain_openai.chat_models import base as package

    base: Any = package

    parse, construct = base.parse_tool_call, base._construct_lc_result_from_responses_api
    if getattr(construct, "takes_any_arguments", False):
        return

    def parsed(raw: dict[str, Any], **options: Any) -> Any:
        text = raw.get("function", {}).get("arguments")
        if text and not is_object(text):
            raise OutputParserException("The arguments are no JSON object.")
        return parse(raw, **options)

    def constructed(response: Any, *args: Any, **options: Any) -> Any:
        for item in response.output:
            if item.type == "function_call" and item.arguments and not is_object(item.arguments):
                item.arguments = json.dumps({INVALID: item.arguments})
        return construct(response, *args, **options)

    constructed.takes_any_arguments = True  # type: ignore[attr-defined]
    base.parse_tool_call = parsed
    base._construct_lc_result_from_responses_api = constructed


def read_in_linear_time() -> None:
    """Make LangChain's messages use `partial_json`, in the whole process."""
    ai.parse_partial_json = partial_json  # type: ignore[attr-defined]


def partial_json(s: str, *, strict: bool = False) -> Any:
    """Parse JSON that may end too early, as LangChain's function does. Raises json.JSONDecodeError if it is no JSON."""
    if len(s) <= _SHORT:
        return parse_partial_json(s, strict=strict)
    try:
        return json.loads(s, strict=strict)
    except json.JSONDecodeError:
        pass
    except RecursionError as error:
        raise json.JSONDecodeError("nested too deep", "", 0) from error
    try:
        return from_json(s, allow_partial="trailing-strings")
    except ValueError as error:
        raise json.JSONDecodeError("no JSON", "", 0) from error


def standard_blocks(message: BaseMessage) -> Sequence[ContentBlock] | None:
    """The content as LangChain's standard blocks; None if LangChain can't read the provider's content."""
    try:
        return message.content_blocks
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
