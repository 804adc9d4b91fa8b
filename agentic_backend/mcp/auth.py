"""What an HTTP request to an MCP server says of the user: an `httpx.Auth` per session.

It reads the agent's runtime context at every request, so that a token that was refreshed, or came with the next
exchange, is used by the next request. Invariant: a token reaches the server of its own session and nothing else.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

import httpx

from agentic_backend.auth.user import Tokens
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp.credentials import Credentials, of_environment, of_header, of_url
from agentic_backend.settings import McpAuthSettings, McpServerSettings

log = logging.getLogger(__name__)

ExchangeToken = Callable[[str, str], Awaitable[Tokens]]
"""Trades a user's access token for one of an audience."""


class HasAccessToken(Protocol):
    @property
    def access_token(self) -> str | None: ...


class BearerToken(httpx.Auth):
    """Sends the token that `token` gives; once more with another where the server refuses the first.

    `token` is told which token was refused, or None. A user without a token sends no header. Each token that is sent
    is among the `credentials` from before.
    """

    def __init__(self, token: Callable[[str | None], Awaitable[str | None]], credentials: Credentials) -> None:
        self._token = token
        self._credentials = credentials

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


class UserToken:
    """The token of the agent's user, as it is now."""

    def __init__(self, context: Callable[[], HasAccessToken]) -> None:
        self._context = context

    async def __call__(self, refused: str | None) -> str | None:
        return self._context().access_token


class ExchangedToken:
    """The user's token exchanged for an audience; kept as long as the user's stays and the server takes it."""

    def __init__(
        self, context: Callable[[], HasAccessToken], exchange: ExchangeToken, audience: str, timeout_s: float
    ) -> None:
        self._context = context
        self._exchange = exchange
        self._audience = audience
        self._timeout_s = timeout_s
        self._kept: tuple[str, str] | None = None
        self._exchanging = asyncio.Lock()

    async def __call__(self, refused: str | None) -> str | None:
        # Requests of one session at the same time: the first exchanges, the others wait and take what it got.
        async with self._exchanging:
            own = self._context().access_token
            if own is None:
                return None
            if self._kept is None or self._kept[0] != own or self._kept[1] == refused:
                async with asyncio.timeout(self._timeout_s):
                    tokens = await self._exchange(own, self._audience)
                self._kept = (own, tokens.access_token)
            return self._kept[1]


def request_auth(
    settings: McpAuthSettings,
    context: Callable[[], HasAccessToken],
    exchange: ExchangeToken,
    timeout_s: float,
    credentials: Credentials,
) -> httpx.Auth | None:
    """What signs the requests of one session; None where they carry no token of the user."""
    if settings.mode == "user_token":
        return BearerToken(UserToken(context), credentials)
    if settings.mode == "token_exchange":
        assert settings.audience is not None, "the settings are validated"
        return BearerToken(ExchangedToken(context, exchange, settings.audience, timeout_s), credentials)
    return None


def fixed_credentials(settings: McpServerSettings) -> Credentials:
    """The credentials that every session with the server has, by its settings."""
    value = os.environ.get(settings.auth.environment or "", "")
    return Credentials([*of_header(value), *of_url(settings.url or ""), *of_environment(settings.env)])


def fixed_headers(settings: McpAuthSettings) -> dict[str, str]:
    """The headers that are the same in every request. Raises AgentUnavailable where the variable is not set."""
    if settings.mode != "header":
        return {}
    assert settings.header is not None and settings.environment is not None, "the settings are validated"
    value = os.environ.get(settings.environment)
    if not value:
        log.error("the environment variable of an MCP server is not set", extra={"variable": settings.environment})
        raise AgentUnavailable(f"The environment variable {settings.environment} is not set.")
    return {settings.header: value}
