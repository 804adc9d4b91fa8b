"""Credentials: signs the requests to an MCP server, and redacts credentials in its answers.

An `httpx.Auth` per session signs the requests. It reads the user's newest token at every request, and has one renewed
that is about to end or that the server refuses, so a session outlives the tokens of its user. Servers repeat what
clients send, in tools that show headers and in errors. So a session's `Credentials` redact each value in everything
that its server sends: in plain form, URL-encoded, in base64 and in hex, also where escapes of JSON, HTML or URLs hide
them, or where they go on in the next line. They can't find a value that is compressed, encrypted, reversed, spaced
out, or in the pixels of an image.
Invariant: a token reaches only the server of its own session.
"""

import asyncio
import base64
import json
import logging
import math
import os
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

import httpx
import orjson

from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import UserTokens, renewal_time
from agentic_backend.config.topics.mcp_servers import McpAuthSettings, McpServerSettings
from agentic_backend.config.yaml.validation_problems import looks_secret
from agentic_backend.disclosure.hidden_forms import LONGEST_ESCAPE, hidden, replaced, shown
from agentic_backend.disclosure.redaction import REDACTED
from agentic_backend.errors import AgentUnavailable, AuthUnavailable, TokenExpired, Unauthenticated
from agentic_backend.loop.loop_load import served_timeout

log = logging.getLogger(__name__)

_SHORTEST = 6
"""A shorter value may occur in any text, and is not redacted."""
_MOST = 8
"""Tokens that are remembered: a token is renewed every few minutes, and older ones have expired."""
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|apikey)\s+")
_LONGEST_JOINED = 1_000_000
"""Longest text of a result, in characters, that is searched for credentials split among its blocks."""

REFUSALS = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
"""Statuses by which a server refuses a user, or the operator's key."""

ExchangeToken = Callable[[str, str], Awaitable[Tokens]]
"""Exchanges a user's access token for one for an audience: called with the token and the audience."""


class HasTokens(Protocol):
    @property
    def tokens(self) -> UserTokens: ...


class TokenSource(Protocol):
    @property
    def access_token(self) -> str | None:
        """The latest token; None if there is none."""
        ...

    async def usable(self, refused: str | None = None) -> str | None:
        """A token that lasts, and that is another than the `refused` one, if that can be had.

        None if the user has brought none. Raises Unauthenticated, TokenExpired or AuthUnavailable.
        """
        ...


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
        value = _without_hidden(value, forms)
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
        """The bytes of the longest form of a credential, all of it in escapes."""
        return LONGEST_ESCAPE * max((len(form.encode(errors="replace")) for form in self._forms()), default=0)

    def redacted_text(self, text: str) -> str:
        return _without_hidden_in(text, self._forms())

    def _forms(self) -> list[str]:
        """All forms, the longest first, since one may be a part of another."""
        forms = [*self._fixed, *(form for sent in list(self._sent.values()) for form in sent)]
        return sorted(set(forms), key=len, reverse=True)


class BearerToken(httpx.Auth):
    """Sends the token of `source`; if the server refuses it, tries once more with another.

    Without a token the request has no header. Each token is added to `credentials` before it is sent. `may_renew` says
    whether the request is for somebody: nobody's tokens are kept alive by connections that stay open.
    """

    def __init__(
        self, source: Callable[[], TokenSource], credentials: Credentials, may_renew: Callable[[], bool]
    ) -> None:
        self._source = source
        """Returns where tokens come from."""
        self._credentials = credentials
        """Remembers each token that is sent, to redact it in answers."""
        self._may_renew = may_renew
        """Whether a token may be renewed now."""
        self._refused_anew: str | None = None
        """A token that was refused although it was new: another one would not help."""

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        source, may_renew = self._source(), self._may_renew()
        token = await source.usable() if may_renew else source.access_token
        if token is None:
            yield request
            return
        self._sign(request, token)
        response = yield request
        if response.status_code != httpx.codes.UNAUTHORIZED or not may_renew or token == self._refused_anew:
            return
        other = await source.usable(refused=token)
        if other is None or other == token:
            return
        self._sign(request, other)
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self._refused_anew = other

    def _sign(self, request: httpx.Request, token: str) -> None:
        self._credentials.add(token)
        request.headers["Authorization"] = f"Bearer {token}"


class ExchangedToken:
    """The user's token exchanged for an audience.

    It is kept until the user's token changes, the server refuses it, or it is about to end.
    """

    def __init__(
        self, context: Callable[[], HasTokens], exchange: ExchangeToken, audience: str, timeout_s: float
    ) -> None:
        self._context = context
        """Returns the runtime context of the running exchange."""
        self._exchange = exchange
        """Exchanges the user's token."""
        self._audience = audience
        """The audience of the new token."""
        self._timeout_s = timeout_s
        """Timeout of an exchange of tokens, in seconds."""
        self._own: str | None = None
        """The user's token that was exchanged last."""
        self._kept: Tokens | None = None
        """What it was exchanged for."""
        self._renew_at = math.inf
        """From when on another one is exchanged, in Unix seconds."""
        self._exchanging = asyncio.Lock()
        """Held during an exchange of tokens: concurrent requests of the session wait, and use its result."""

    @property
    def access_token(self) -> str | None:
        return self._kept.access_token if self._kept is not None else None

    async def usable(self, refused: str | None = None) -> str | None:
        async with self._exchanging:
            users = self._context().tokens
            own = await users.usable()
            if own is None:
                return None
            if self._own != own or self.access_token == refused or time.time() >= self._renew_at:
                try:
                    await self._exchange_anew(own)
                except Unauthenticated:
                    # The user's token may have been revoked, or have ended before its time.
                    other = await users.usable(refused=own)
                    if other is None or other == own:
                        raise
                    await self._exchange_anew(other)
            return self.access_token

    async def _exchange_anew(self, own: str) -> None:
        try:
            async with served_timeout(self._timeout_s):
                kept = await self._exchange(own, self._audience)
        except TimeoutError:
            raise AuthUnavailable from None
        self._own, self._kept, self._renew_at = own, kept, renewal_time(kept)


def request_auth(
    settings: McpAuthSettings,
    context: Callable[[], HasTokens],
    exchange: ExchangeToken,
    timeout_s: float,
    credentials: Credentials,
    may_renew: Callable[[], bool],
) -> httpx.Auth | None:
    """The auth that signs the requests of one session; None if they carry no token of the user."""
    if settings.mode == "user_token":
        return BearerToken(lambda: context().tokens, credentials, may_renew)
    if settings.mode == "token_exchange":
        assert settings.audience is not None, "the settings are validated"
        exchanged = ExchangedToken(context, exchange, settings.audience, timeout_s)
        return BearerToken(lambda: exchanged, credentials, may_renew)
    return None


def refusal(settings: McpAuthSettings) -> str:
    """What a server did that answered with one of REFUSALS."""
    return "refused the user" if settings.is_of_user else "refused the server's credentials"


def unasked(error: Unauthenticated | TokenExpired | AuthUnavailable) -> str:
    """What is said of a server that was not asked, for lack of a token."""
    return f"can't be asked in the user's name: {error.content.rstrip('.')}"


def fixed_credentials(settings: McpServerSettings) -> Credentials:
    """The credentials from the server's settings, the same for every session."""
    value = header_value(settings.auth)
    return Credentials([*of_header(value), *of_url(settings.url or ""), *of_environment(settings.env)])


def header_value(settings: McpAuthSettings) -> str:
    """The value of the header that each request carries; empty if there is none."""
    return os.environ.get(settings.environment or "", "")


def fixed_headers(settings: McpAuthSettings) -> dict[str, str]:
    """The headers that are the same in every request. Raises AgentUnavailable if the variable is not set."""
    if settings.mode != "header":
        return {}
    assert settings.header is not None and settings.environment is not None, "the settings are validated"
    value = os.environ.get(settings.environment)
    if not value:
        log.error("environment variable of a header not set", extra={"variable": settings.environment})
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


def _without_hidden_in(text: str, forms: Sequence[str]) -> str:
    return replaced(text, hidden(text, lambda view: shown(forms, view), over_lines=True), REDACTED)


def _without_hidden(value: Any, forms: Sequence[str]) -> Any:
    """The JSON `value` without credentials in its texts, also those that escapes hide or that are cut."""
    match value:
        case str():
            return _without_hidden_in(value, forms)
        case dict():
            return {_without_hidden_in(str(key), forms): _without_hidden(item, forms) for key, item in value.items()}
        case list():
            return [_without_hidden(item, forms) for item in value]
    return value


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
