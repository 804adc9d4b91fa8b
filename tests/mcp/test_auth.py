"""What servers are told of users: only what their settings say, and always the token of now."""

import asyncio
import io
import logging
import time
from collections.abc import Iterator

import httpx
import pytest
from services.mcp_echo import Echoes, EchoServer
from services.mcp_echo_server import fingerprint
from support.mcp_agents import PATIENCE_S, built, call, refused, told, tool_user
from support.recorded_agents import context_of, exchange_token

from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import UserTokens
from agentic_backend.config.topics.mcp_servers import McpAuthSettings
from agentic_backend.errors import AgentUnavailable, AuthUnavailable, Unauthenticated
from agentic_backend.mcp.credentials import BearerToken, Credentials, ExchangedToken, request_auth
from agentic_backend.telemetry import JsonFormatter

USER_TOKEN = {"auth": {"mode": "user_token"}}
EXCHANGE = {"auth": {"mode": "token_exchange", "audience": "search"}}


def exchanging(taken: list[tuple[str, str]]) -> object:
    """An exchange that notes what it was given; each exchange gives another token."""

    async def exchange(access_token: str, audience: str) -> Tokens:
        await asyncio.sleep(0.01)
        taken.append((access_token, audience))
        return Tokens(access_token=f"exchanged {len(taken)} of {access_token} for {audience}")

    return exchange


async def test_a_server_that_is_told_nothing_gets_no_token(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings()}, token="dev:ann")) as agent:
        assert await told(agent, "whoami") == "nobody"


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_the_users_token_goes_where_the_settings_say_so(transport: str, echoes: Echoes) -> None:
    server = echoes(transport)
    async with built(tool_user({"echo": server.settings(**USER_TOKEN)}, token="dev:ann")) as agent:
        assert await told(agent, "whoami") == fingerprint("dev:ann")


async def test_a_user_without_a_token_sends_none(open_echo: EchoServer) -> None:
    async with built(tool_user({"echo": open_echo.settings(**USER_TOKEN)})) as agent:
        assert await told(agent, "whoami") == "nobody"


async def test_the_next_call_uses_a_refreshed_token_in_the_same_session(echo: EchoServer) -> None:
    async with built(tool_user({"echo": echo.settings(**USER_TOKEN)}, token="dev:ann:1")) as agent:
        assert [await told(agent, "whoami"), await told(agent, "count")] == [fingerprint("dev:ann:1"), "1"]
        agent.runtime_context.tokens.offer(Tokens("dev:ann:2"))
        assert [await told(agent, "whoami"), await told(agent, "count")] == [fingerprint("dev:ann:2"), "2"]


async def test_the_next_exchange_brings_its_own_token(echo: EchoServer) -> None:
    async with built(tool_user({"echo": echo.settings(**USER_TOKEN)}, token="dev:ann:1")) as agent:
        agent.runtime_context = context_of("session", token="dev:ann:later")
        assert await told(agent, "whoami") == fingerprint("dev:ann:later")


async def test_users_at_the_same_time_never_see_each_others_token_or_state(echo: EchoServer) -> None:
    async def use(user: str) -> list[str]:
        async with built(tool_user({"echo": echo.settings(**USER_TOKEN)}, token=f"dev:{user}")) as agent:
            told_here = []
            for _ in range(10):
                told_here += await asyncio.gather(told(agent, "whoami"), told(agent, "count"))
            return told_here

    users = ["ann", "bob", "carol"]
    for user, heard in zip(users, await asyncio.gather(*map(use, users)), strict=True):
        assert heard[::2] == [fingerprint(f"dev:{user}")] * 10
        assert heard[1::2] == [str(number) for number in range(1, 11)]


async def test_a_header_comes_from_the_environment(open_echo: EchoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "k-123")
    auth = {"mode": "header", "header": "X-Api-Key", "environment": "SEARCH_API_KEY"}
    async with built(tool_user({"echo": open_echo.settings(auth=auth)}, token="dev:ann")) as agent:
        assert await told(agent, "header", name="x-api-key") == fingerprint("k-123")
        assert await told(agent, "whoami") == "nobody"


async def test_a_variable_that_is_not_set_makes_the_agent_unavailable(
    open_echo: EchoServer, caplog: pytest.LogCaptureFixture
) -> None:
    auth = {"mode": "header", "header": "X-Api-Key", "environment": "NO_SUCH_VARIABLE"}
    with pytest.raises(AgentUnavailable, match="'echo' can't be reached"):
        await tool_user({"echo": open_echo.settings(auth=auth)}).async_init()
    assert vars(caplog.records[0])["variable"] == "NO_SUCH_VARIABLE"


async def test_a_token_is_exchanged_once_for_as_long_as_the_users_stays(echo: EchoServer) -> None:
    taken: list[tuple[str, str]] = []
    agent = tool_user({"echo": echo.settings(**EXCHANGE)}, token="dev:ann", exchange=exchanging(taken))
    async with built(agent):
        assert (
            await asyncio.gather(*(told(agent, "whoami") for _ in range(5)))
            == [fingerprint("exchanged 1 of dev:ann for search")] * 5
        )
        agent.runtime_context.tokens.offer(Tokens("dev:ann:2"))
        assert await told(agent, "whoami") == fingerprint("exchanged 2 of dev:ann:2 for search")
    assert taken == [("dev:ann", "search"), ("dev:ann:2", "search")]


async def test_an_exchanged_token_that_is_refused_is_exchanged_again() -> None:
    taken: list[tuple[str, str]] = []
    context = context_of("session", token="dev:ann")
    exchanged = ExchangedToken(lambda: context, exchanging(taken), "search", PATIENCE_S)
    auth = BearerToken(lambda: exchanged, Credentials(), lambda: True)
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["authorization"])
        return httpx.Response(401 if "exchanged 1" in asked[-1] else 200)

    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(answer)) as client:
        assert [(await client.get("http://search/")).status_code for _ in range(2)] == [200, 200]
    assert [header.split()[2] for header in asked] == ["1", "2", "2"]


async def test_a_users_token_that_is_refused_is_not_sent_again_and_again() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["authorization"])
        return httpx.Response(401)

    context = context_of("session", token="dev:ann")
    user_token = McpAuthSettings(mode="user_token")
    auth = request_auth(user_token, lambda: context, exchange_token, PATIENCE_S, Credentials(), lambda: True)
    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(answer)) as client:
        assert (await client.get("http://search/")).status_code == 401
    assert asked == ["Bearer dev:ann"]


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_a_token_that_the_server_refuses_is_renewed_once_for_all_calls_in_the_same_session(
    transport: str, echoes: Echoes, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def refresh(refresh_token: str) -> Tokens:
        asked.append(refresh_token)
        await asyncio.sleep(0.1)
        return Tokens("dev:ann:2", f"{refresh_token}+")

    server = echoes(transport)
    agent = tool_user({"echo": server.settings(**USER_TOKEN)}, token="dev:ann")
    agent.runtime_context.tokens = UserTokens(refresh)
    agent.runtime_context.tokens.offer(Tokens("dev:ann:1", "refresh"))
    async with built(agent):
        assert [await told(agent, "whoami"), await told(agent, "count")] == [fingerprint("dev:ann:1"), "1"]
        agent.runtime_context.tokens.offer(Tokens("dev:over"))
        callers = await asyncio.gather(*(told(agent, "whoami") for _ in range(5)))
        assert callers == [fingerprint("dev:ann:2")] * 5
        assert await told(agent, "count") == "2"
    assert asked == ["refresh"]
    assert agent.runtime_context.refresh_token == "refresh+"
    assert "MCP session lost" not in caplog.text


async def test_where_newer_tokens_are_refused_too_they_are_not_renewed_at_each_request() -> None:
    renewals, asked = 0, list[str]()

    async def refresh(refresh_token: str) -> Tokens:
        nonlocal renewals
        renewals += 1
        return Tokens(f"dev:ann:{renewals}", refresh_token)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["authorization"].removeprefix("Bearer "))
        return httpx.Response(401)

    tokens = UserTokens(refresh)
    tokens.offer(Tokens("dev:ann:0", "refresh"))
    auth = BearerToken(lambda: tokens, Credentials(), lambda: True)
    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(answer)) as client:
        assert [(await client.get("http://search/")).status_code for _ in range(4)] == [401] * 4
    assert asked == ["dev:ann:0", *["dev:ann:1"] * 4]
    assert renewals == 1


async def test_a_connection_that_stays_open_for_nobody_renews_nothing() -> None:
    async def refresh(refresh_token: str) -> Tokens:
        raise AssertionError("nobody calls")

    tokens = UserTokens(refresh)
    tokens.offer(Tokens("dev:ann:0", "refresh", time.time() - 1))
    auth = BearerToken(lambda: tokens, Credentials(), lambda: False)
    async with httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(lambda _: httpx.Response(401))) as client:
        assert (await client.get("http://search/")).status_code == 401


async def test_an_exchange_that_the_realm_refuses_is_tried_again_with_a_renewed_token() -> None:
    async def refresh(refresh_token: str) -> Tokens:
        return Tokens("dev:ann:2", refresh_token)

    async def exchange(access_token: str, audience: str) -> Tokens:
        if access_token == "dev:ann:1":
            raise Unauthenticated
        return Tokens(f"exchanged {access_token}", expires_at=time.time() + 1)

    context = context_of("session")
    context.tokens = UserTokens(refresh)
    context.tokens.offer(Tokens("dev:ann:1", "refresh"))
    exchanged = ExchangedToken(lambda: context, exchange, "search", PATIENCE_S)
    assert await exchanged.usable() == "exchanged dev:ann:2"
    assert await exchanged.usable() == "exchanged dev:ann:2"


async def test_an_exchanged_token_is_exchanged_again_before_it_ends() -> None:
    taken: list[str] = []

    async def exchange(access_token: str, audience: str) -> Tokens:
        taken.append(access_token)
        return Tokens(f"exchanged {len(taken)}", expires_at=time.time() + (0 if len(taken) == 1 else 60))

    context = context_of("session", token="dev:ann")
    exchanged = ExchangedToken(lambda: context, exchange, "search", PATIENCE_S)
    assert [await exchanged.usable() for _ in range(3)] == ["exchanged 1", "exchanged 2", "exchanged 2"]


async def test_a_user_whom_the_server_refuses_is_told_so(echo: EchoServer) -> None:
    with pytest.raises(AgentUnavailable, match="The MCP server 'echo' refused the user"):
        await tool_user({"echo": echo.settings(**USER_TOKEN)}, token="dev:over").async_init()


async def test_a_user_to_whom_no_token_is_given_for_the_audience_is_told_so(echo: EchoServer) -> None:
    async def refuse(access_token: str, audience: str) -> Tokens:
        raise Unauthenticated

    with pytest.raises(AgentUnavailable, match="The MCP server 'echo' refused the user"):
        await tool_user({"echo": echo.settings(**EXCHANGE)}, token="dev:ann", exchange=refuse).async_init()


async def test_a_server_is_not_blamed_for_tokens_that_cant_be_had(echo: EchoServer) -> None:
    async def away(access_token: str, audience: str) -> Tokens:
        raise AuthUnavailable

    seen: list[bool] = []
    agent = tool_user(
        {"echo": echo.settings(**EXCHANGE)}, token="dev:ann", exchange=away, observe=lambda _, up: seen.append(up)
    )
    with pytest.raises(AgentUnavailable, match="'echo' can't be asked in the user's name: Tokens can't be checked"):
        await agent.async_init()
    assert not seen


KEY = {"auth": {"mode": "header", "header": "Authorization", "environment": "SEARCH_API_KEY"}}


@pytest.mark.parametrize("settings", [KEY, {}])
async def test_a_server_that_refuses_the_operators_key_does_not_refuse_the_user(
    settings: dict[str, object], echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "no key at all")
    seen: list[bool] = []
    agent = tool_user({"echo": echo.settings(**settings)}, observe=lambda _, up: seen.append(up))
    with pytest.raises(AgentUnavailable, match="The MCP server 'echo' refused the server's credentials"):
        await agent.async_init()
    assert seen == [False]


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_a_call_for_which_the_operators_key_is_refused_says_so(transport: str, echoes: Echoes) -> None:
    server = echoes(transport, "--open")
    async with built(tool_user({"echo": server.settings()})) as agent:
        assert await told(agent, "count") == "1"
        await told(agent, "refuse_next", status=403)
        assert await refused(agent, "count") == "The MCP server 'echo' refused the server's credentials."
        assert await told(agent, "count") == "2", "it is the same session still"


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_a_refused_answer_to_the_servers_ping_leaves_the_session(
    transport: str, echoes: Echoes, caplog: pytest.LogCaptureFixture
) -> None:
    server = echoes(transport)
    async with built(tool_user({"echo": server.settings(**USER_TOKEN)}, token="dev:ann")) as agent:
        assert await told(agent, "count") == "1"
        assert await told(agent, "refuse_a_pong", status=401) == "no answer"
        assert await told(agent, "count") == "2", "it is the same session still"
    assert "MCP session lost" not in caplog.text


@pytest.mark.parametrize("transport", ["streamable_http", "sse"])
async def test_a_token_that_ends_in_mid_run_fails_the_call_and_a_new_one_helps(
    transport: str, echoes: Echoes, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bool] = []
    server = echoes(transport)
    servers = {"echo": server.settings(**USER_TOKEN)}
    async with built(tool_user(servers, token="dev:ann", observe=lambda _, up: seen.append(up))) as agent:
        assert await told(agent, "count") == "1"
        agent.runtime_context.tokens.offer(Tokens("dev:over"))
        for _ in range(2):
            assert await refused(agent, "whoami") == "The MCP server 'echo' refused the user."
        agent.runtime_context.tokens.offer(Tokens("dev:ann:2"))
        assert await told(agent, "whoami") == fingerprint("dev:ann:2")
        assert await told(agent, "count") == "2", "it is the same session still"
    assert "MCP session lost" not in caplog.text
    assert False not in seen, "the server is up all the time"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that any logger writes, in its real form."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.removeHandler(handler)
    root.setLevel(level)


async def test_no_token_and_no_key_reaches_the_log(
    echo: EchoServer, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "dev:zanthoxylum")
    key = {"auth": {"mode": "header", "header": "Authorization", "environment": "SEARCH_API_KEY"}}
    for settings in (USER_TOKEN, EXCHANGE, key):
        agent = tool_user({"echo": echo.settings(**settings)}, token="dev:quokkaberry", exchange=exchanging([]))
        async with built(agent):
            await call(agent, "whoami")
            agent.runtime_context.tokens.offer(Tokens("dev:quokkaberry-over"))
            await call(agent, "whoami")
    assert "MCP call failed" in log.getvalue()
    assert "quokkaberry" not in log.getvalue()
    assert "zanthoxylum" not in log.getvalue()
