"""ApiClient: requests to one API for one agent, within bounds.

Invariants: a request goes only to the settings' `base_url`: redirects are not followed, and no proxy of the environment
is used; an answer is read only as far as a model may read of it, uncompressed, so that no small answer becomes a large
one; credentials are taken out of all that the API says.
"""

import mimetypes
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import cache

import httpx
from langchain_core.tools import ToolException

from agentic_backend.apis.operation import Request
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.errors import AuthUnavailable, TokenExpired, Unauthenticated
from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.loop.loop_load import served_timeout
from agentic_backend.mcp.credentials import REFUSALS, Credentials, fixed_headers, refusal, unasked
from agentic_backend.system_errors import summary_of
from agentic_backend.tracing.origin import REQUEST_ID, TRACEPARENT, known_origin

_LONGEST_ERROR_BYTES = 2_000
_LONGEST_URL = 16_000
_MOST_CONNECTIONS = 10
_COMPRESSED = "agentic_backend.compressed"
"""The extension of a response that is compressed."""
# Others may take quadratic time, or fail whatever `errors` says.
_CHARSETS = re.compile(
    r"(?i)(us-)?ascii|utf-?(8|16|32)([lb]e|-[lb]e)?|iso-?8859-\d+|latin-?1|(windows-|cp)\d+|koi8-[ru]|macintosh"
    r"|shift[_-]jis|euc-(jp|kr)|gb(2312|k|18030)|big5"
)
_KNOWN_TYPES = frozenset(mimetypes.MimeTypes().types_map[True].values())
_TEXTS = ("json", "text/", "xml", "yaml", "javascript", "csv", "x-www-form-urlencoded")


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    text: str


class ApiClient:
    """`aclose` closes its connections."""

    def __init__(
        self, api_id: str, settings: ApiSettings, auth: httpx.Auth | None, credentials: Credentials, tls: ssl.SSLContext
    ) -> None:
        """Raises AgentUnavailable if the variable of a header is not set."""
        self._id = api_id
        self._settings = settings
        self._credentials = credentials
        """Those that are sent, to redact them in answers."""
        self._client = httpx.AsyncClient(
            auth=auth,
            headers={**fixed_headers(settings.auth), "Accept-Encoding": "identity", "User-Agent": "agentic-backend"},
            timeout=settings.timeout_s,
            limits=httpx.Limits(max_connections=_MOST_CONNECTIONS),
            follow_redirects=False,
            trust_env=False,
            verify=tls,
            event_hooks={"response": [self._bound]},
        )

    async def send(self, request: Request, idempotency_key: str | None = None) -> str:
        """The answer's text for a model. Raises ToolException, which says why there is none."""
        try:
            async with served_timeout(self._settings.timeout_s):
                answer = await self._answer(request, idempotency_key)
        except (TimeoutError, httpx.TimeoutException):
            raise self._failed(f"did not answer within {self._settings.timeout_s:g} seconds.") from None
        except (Unauthenticated, TokenExpired, AuthUnavailable) as error:
            raise self._failed(f"{unasked(error)}.") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            # Its text may have the URL, and so what the model has sent.
            raise self._failed(f"can't be reached ({summary_of(error, with_host=False)}).") from None
        return self._told(answer)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _answer(self, request: Request, idempotency_key: str | None) -> _Answer:
        headers = {"Accept": "application/json, text/*;q=0.9, */*;q=0.1", **request.headers, **_origin()}
        if idempotency_key is not None and request.method not in ("GET", "HEAD"):
            headers["Idempotency-Key"] = idempotency_key
        url = httpx.URL(self._settings.base_url.rstrip("/") + request.path)
        if request.query:
            url = url.copy_with(params=list(request.query))
        if len(str(url)) > _LONGEST_URL:
            raise ToolException(f"The arguments are too long: the URL has more than {_LONGEST_URL} characters.")
        async with self._client.stream(request.method, url, headers=headers, content=request.body) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            is_text = not kind or any(sign in kind for sign in _TEXTS)
            text = ""
            if _COMPRESSED in response.extensions:
                text = "[the answer is compressed, which was not asked for, and was not read]"
            elif not is_text:
                text = f"[the answer is {_named(kind)}, and was not read]"
            elif not response.is_redirect:
                text = await self._read(response)
            return _Answer(response.status_code, text)

    async def _read(self, response: httpx.Response) -> str:
        most = _LONGEST_ERROR_BYTES if response.is_error else self._settings.max_response_bytes
        body = b"".join([chunk async for chunk in response.aiter_raw()])
        # A text of very many escapes takes long.
        decoded = _decoded(body, response.charset_encoding)
        text = await in_thread_if_long(len(decoded), self._credentials.redacted_text, decoded)
        shown = text.encode(errors="replace")
        if len(body) <= most and len(shown) <= most:
            return text
        return f"{shown[:most].decode(errors='ignore')}\n[cut: {_left_out(response, most)} left out]"

    async def _bound(self, response: httpx.Response) -> None:
        """Bound the body, also that of an answer which httpx reads itself before it tries again with another token."""
        stream = response.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        if response.headers.pop("content-encoding", "identity").strip().lower() != "identity":
            response.extensions[_COMPRESSED] = True
        # A credential that the cut divides would not be found.
        response.stream = _Bounded(stream, self._settings.max_response_bytes + self._credentials.longest() + 1)

    def _told(self, answer: _Answer) -> str:
        # Without its phrase: those are words of the API, which may repeat what it was sent.
        status = answer.status
        if answer.status in REFUSALS:
            raise self._failed(f"{refusal(self._settings.auth)} ({status}). {answer.text}".rstrip())
        if 300 <= answer.status < 400:
            raise self._failed(f"answered {status}; redirects are not followed.")
        if answer.status >= 400:
            raise self._failed(f"answered {status}: {answer.text}".rstrip(": "))
        return answer.text or f"[status {status}, without content]"

    def _failed(self, what: str) -> ToolException:
        return ToolException(f"The API '{self._id}' {what}")


class _Bounded(httpx.AsyncByteStream):
    """The first `most` bytes of a body."""

    def __init__(self, stream: httpx.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def tls() -> ssl.SSLContext:
    """The TLS context of all clients: making one reads the trusted certificates from files."""
    return httpx.create_ssl_context()


def _named(kind: str) -> str:
    """A media type in words that are not the API's: it may put what it was sent into the name."""
    return f"of type {kind}" if kind in _KNOWN_TYPES else "of an unknown type"


def _left_out(response: httpx.Response, most: int) -> str:
    length = response.headers.get("content-length", "")
    is_known = length.isdecimal() and len(length) < 16 and int(length) > most
    return f"{int(length) - most} more bytes" if is_known else "all further bytes"


def _origin() -> Mapping[str, str]:
    origin = known_origin()
    return {} if origin is None else {REQUEST_ID: origin.request_id, TRACEPARENT: origin.traceparent}


def _decoded(body: bytes, charset: str | None) -> str:
    known = charset if charset is not None and _CHARSETS.fullmatch(charset) else "utf-8"
    try:
        return body.decode(known, errors="replace")
    except LookupError:
        return body.decode("utf-8", errors="replace")
