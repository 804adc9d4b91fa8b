"""The HTTP client that OpenAI's package is given: it reads responses within bounds.

The package keeps a line until it ends, and a response that is not streamed as a whole, however long they get; and makes
objects of all that they list.
"""

import re
from collections.abc import AsyncIterator

import httpx2
import openai

_LONGEST_LINE = 16 * 1024 * 1024
_LONGEST_BODY = 16 * 1024 * 1024
_STREAMED = re.compile(rb'"stream"\s*:\s*true')
_MOST_OBJECTS = 10_000
# Not within a text, where each quotation mark has a backslash.
_NEXT_OBJECT = re.compile(rb'\}\s*,\s*\{\s*"')


def bounded_client() -> httpx2.AsyncClient:
    """One with the package's own defaults; it is as long-lived as the model that has it."""
    return openai.DefaultAsyncHttpxClient(event_hooks={"response": [_bound]})


async def _bound(response: httpx2.Response) -> None:
    # Whatever the response says that it is: the package reads all of what it did not ask to be streamed.
    is_stream = _STREAMED.search(response.request.content) is not None
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, is_stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, is_stream: bool) -> None:
        self._stream = stream
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        most, size, objects = _LONGEST_LINE if self._is_stream else _LONGEST_BODY, 0, 0
        async for data in self._stream:
            end = data.rfind(b"\n") if self._is_stream else -1
            if end >= 0:
                size = objects = 0
            size += len(data) - end - 1
            objects += len(_NEXT_OBJECT.findall(data, end + 1))
            if size > most or objects > _MOST_OBJECTS:
                raise httpx2.DecodingError("The provider sent more at once than is read.")
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
