"""Credentials: signs the requests to an MCP server, and redacts credentials in its answers.

An `httpx.Auth` per session signs the requests. It reads the agent's runtime context at every request, so the next
request uses a token that was refreshed, or came with a new exchange. Servers repeat what clients send, in tools that
show headers and in errors. So a session's `Credentials` redact each value in everything that its server sends: in plain
form, URL-encoded, in base64 and in hex. They can't find a value that is compressed, encrypted, reversed, spaced out, or
in the pixels of an image. Invariant: a token reaches only the server of its own session.
"""

import asyncio
import base64
import json
import logging
import os
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import httpx
import orjson

from agentic_backend.auth.user import Tokens
from agentic_backend.config.settings import McpAuthSettings, McpServerSettings
from agentic_backend.config.validation_problems import looks_secret
from agentic_backend.errors import AgentUnavailable
from agentic_backend.redaction import REDACTED

log = logging.getLogger(__name__)

_SHORTEST = 6
"""A shorter value may occur in any text, and is not redacted."""
_MOST = 8
"""Tokens that are remembered: a token is renewed every few minutes, and older ones have expired."""
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|apikey)\s+")
_LONGEST_JOINED = 1_000_000
"""Longest text of a result, in characters, that is searched for credentials split among its blocks."""

ExchangeToken = Callable[[str, str], Awaitable[Tokens]]
"""Exchanges a user's access token for one for an audience: called with the token and the audience."""


class HasAccessToken(Protocol):
    @property
    def access_token(self) -> str | None: ...


class Credentials:
    """The credentials that one session has sent, which are redacted in everything that its server sends."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._fixed = [form for value in values for form in _forms(value)]
        """The forms of the values that never change."""
        self._sent: OrderedDict[str, list[str]] = OrderedDict()
        """The forms of each sent token, the latest last."""

    def add(self, value: str) -> None:
        """Remember a token that is sent."""
        if value in self._sent:
            self._sent.move_to_end(value)
            return
        self._sent[value] = _forms(value)
        if len(self._sent) > _MOST:
            self._sent.popitem(last=False)

    def redacted(self, value: Any) -> bytes:
        """The JSON of `value` without credentials, also without those split among its content blocks.

        Raises ValueError if `value` can't be JSON.
        """
        forms = self._forms()
        if not forms:
            return dumped(value)
        _redact_across_blocks(value, forms)
        # Serialized here, each text has one form, whatever escapes the server used.
        data = dumped(value)
        for form in forms:
            escaped = orjson.dumps(form)[1:-1]
            if escaped in data:
                data = data.replace(escaped, REDACTED.encode())
        return data

    def and_also(self, values: Iterable[str]) -> "Credentials":
        """These credentials, also those that are sent later, and further `values`."""
        both = Credentials(values)
        both._fixed += self._fixed
        both._sent = self._sent
        return both

    def longest(self) -> int:
        """The bytes of the longest form of a credential."""
        return max((len(form.encode(errors="replace")) for form in self._forms()), default=0)

    def redacted_text(self, text: str) -> str:
        for form in self._forms():
            text = text.replace(form, REDACTED)
        return text

    def _forms(self) -> list[str]:
        """All forms, the longest first, since one may be a part of another."""
        forms = [*self._fixed, *(form for sent in self._sent.values() for form in sent)]
        return sorted(set(forms), key=len, reverse=True)


class BearerToken(httpx.Auth):
    """Sends the token that `token` returns; if the server refuses it, tries once more with another.

    `token` is called with the refused token, or None. Without a token the request has no header. Each token is added
    to `credentials` before it is sent.
    """

    def __init__(self, token: Callable[[str | None], Awaitable[str | None]], credentials: Credentials) -> None:
        self._token = token
        """Returns the token to send."""
        self._credentials = credentials
        """Remembers each token that is sent, to redact it in answers."""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        token = await self._token(None)
        if token is None:
            yield request
            return
        self._sign(request, token)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            other = await self._token(token)
            if other is not None and other != token:
                self._sign(request, other)
                yield request

    def _sign(self, request: httpx.Request, token: str) -> None:
        self._credentials.add(token)
        request.headers["Authorization"] = f"Bearer {token}"


@dataclass(slots=True)
class ExchangedToken:
    """The user's token exchanged for an audience; kept until the user's token changes or the server refuses it."""

    context: Callable[[], HasAccessToken]
    """Returns the runtime context of the running exchange."""
    exchange: ExchangeToken
    """Exchanges the user's token."""
    audience: str
    """The audience of the new token."""
    timeout_s: float
    """Timeout of an exchange of tokens, in seconds."""
    _kept: tuple[str, str] | None = None
    """The user's token that was exchanged last, and the new token."""
    _exchanging: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during an exchange of tokens: concurrent requests of the session wait, and use its result."""

    async def __call__(self, refused: str | None) -> str | None:
        async with self._exchanging:
            own = self.context().access_token
            if own is None:
                return None
            if self._kept is None or self._kept[0] != own or self._kept[1] == refused:
                async with asyncio.timeout(self.timeout_s):
                    tokens = await self.exchange(own, self.audience)
                self._kept = (own, tokens.access_token)
            return self._kept[1]


def request_auth(
    settings: McpAuthSettings,
    context: Callable[[], HasAccessToken],
    exchange: ExchangeToken,
    timeout_s: float,
    credentials: Credentials,
) -> httpx.Auth | None:
    """The auth that signs the requests of one session; None if they carry no token of the user."""

    async def own(refused: str | None) -> str | None:
        return context().access_token

    if settings.mode == "user_token":
        return BearerToken(own, credentials)
    if settings.mode == "token_exchange":
        assert settings.audience is not None, "the settings are validated"
        return BearerToken(ExchangedToken(context, exchange, settings.audience, timeout_s), credentials)
    return None


def fixed_credentials(settings: McpServerSettings) -> Credentials:
    """The credentials from the server's settings, the same for every session."""
    value = os.environ.get(settings.auth.environment or "", "")
    return Credentials([*of_header(value), *of_url(settings.url or ""), *of_environment(settings.env)])


def fixed_headers(settings: McpAuthSettings) -> dict[str, str]:
    """The headers that are the same in every request. Raises AgentUnavailable if the variable is not set."""
    if settings.mode != "header":
        return {}
    assert settings.header is not None and settings.environment is not None, "the settings are validated"
    value = os.environ.get(settings.environment)
    if not value:
        log.error("the environment variable of an MCP server is not set", extra={"variable": settings.environment})
        raise AgentUnavailable(f"The environment variable {settings.environment} is not set.")
    return {settings.header: value}


def of_header(value: str) -> list[str]:
    """The credentials in the value of a header: the whole value, and the part after its scheme."""
    return [value, _SCHEME.sub("", value, count=1)]


def of_url(url: str) -> list[str]:
    """The credentials in a URL: user and password, and the values of query parameters whose names look secret.

    Other parts of a URL, which the log doesn't show either, stay: a server's results are full of them.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        # Any variable of a program with "://" in it comes here, also one that is no URL.
        return []
    userinfo = parts.netloc.rpartition("@")[0]
    password = userinfo.partition(":")[2]
    queried = [value for name, value in parse_qsl(parts.query) if looks_secret(name)]
    return [value for value in (unquote(userinfo), userinfo, unquote(password), password, *queried) if value]


def of_environment(environment: Mapping[str, str]) -> list[str]:
    """The credentials in the environment of a process: values whose names look secret, and those in URLs."""
    secret = [value for name, value in environment.items() if looks_secret(name)]
    urls = [found for value in environment.values() if "://" in value for found in of_url(value)]
    return [*secret, *urls]


def _forms(value: str) -> list[str]:
    if len(value) < _SHORTEST:
        return []
    raw = value.encode(errors="replace")
    forms = {value, quote(value, safe=""), quote(value), quote_plus(value), raw.hex(), raw.hex().upper()}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in forms}
    for before in range(3):
        # Without the characters at either end, which depend on the bytes beside the value.
        whole = (len(raw) + before) // 3 * 3 - before
        encoded = base64.b64encode(bytes(before) + raw[:whole]).decode()[4 if before else 0 :]
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return [form for form in forms if len(form) >= _SHORTEST]


def dumped(value: Any) -> bytes:
    """The JSON of `value`, with integers of any size. Raises ValueError if `value` can't be JSON."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # orjson knows no integer beyond 64 bits.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _redact_across_blocks(value: Any, forms: Sequence[str]) -> None:
    """Redact, in place, credentials that begin in one text block of a result and end in another."""
    result = value.get("result") if isinstance(value, dict) else None
    content = result.get("content") if isinstance(result, dict) else None
    blocks = [block for block in content if _has_text(block)] if isinstance(content, list) else []
    if len(blocks) < 2 or sum(len(block["text"]) for block in blocks) > _LONGEST_JOINED:
        return
    for form in forms:
        joined = "".join(block["text"] for block in blocks)
        at = joined.rfind(form)
        # From the end, since a replacement moves the text behind it.
        while at >= 0:
            _blank(blocks, at, at + len(form))
            at = joined.rfind(form, 0, at)


def _has_text(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _blank(blocks: Sequence[dict[str, Any]], begin: int, end: int) -> None:
    """Remove the characters from `begin` to `end` of the blocks' joined text, and put REDACTED into the first block."""
    start, said = 0, REDACTED
    for block in blocks:
        text = block["text"]
        first, last = max(begin - start, 0), min(end - start, len(text))
        if first < last:
            block["text"] = text[:first] + said + text[last:]
            said = ""
        start += len(text)
