"""The client's tokens: renewed before they expire, asked for anew where they are refused, the same for REST calls."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import paced_agent
from support.chat_client import TOKEN_S
from support.running_server import RunningServer, running_server
from support.signing_realm import CLIENT, SigningRealm, signing_realm

from agentic_backend.client import NotAllowed, Rest, TurnedAway, Unreachable, connect
from agentic_backend.client.tokens import Tokens
from agentic_backend.offline.phrases import lorem
from agentic_backend.transports import credentials


@pytest.fixture
async def realm() -> AsyncIterator[SigningRealm]:
    async with signing_realm() as realm:
        yield realm


@pytest.fixture
async def server(realm: SigningRealm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setattr(credentials, "EXPIRY_LEEWAY_S", 0)
    settings = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url, "client_id": CLIENT}}}
    async with running_server(tmp_path, agents=[paced_agent.ENTRY], settings=settings) as server:
        yield server


async def test_a_token_is_renewed_before_it_expires_and_the_answer_goes_on(
    realm: SigningRealm, server: RunningServer
) -> None:
    given: list[str] = []

    async def token() -> str:
        given.append(realm.sign(exp=int(time.time()) + TOKEN_S))
        return given[-1]

    pace = paced_agent.begin()
    async with connect(server.address, token=token) as chat:
        exchange = chat.ask(paced_agent.ASK, agent_id="paced")
        pace.write(5)
        await anext(exchange)
        await asyncio.sleep(TOKEN_S + 2)
        pace.finish()
        assert await exchange.answer() == lorem(paced_agent.WORDS)
        assert len(given) >= 2
        assert [agent.id for agent in await chat.rest.agents()]


async def test_a_refused_token_is_asked_for_anew_once(realm: SigningRealm, server: RunningServer) -> None:
    tokens = iter(["rubbish", realm.sign()])
    async with connect(server.address, token=lambda: next(tokens)) as chat:
        assert await chat.ask_text("repeat after me: in") == "in"


async def test_a_token_that_a_rest_call_is_refused_with_is_renewed_once(
    realm: SigningRealm, server: RunningServer
) -> None:
    tokens = iter(["rubbish", realm.sign(), "rubbish", "rubbish"])
    for works in (True, False):
        rest = Rest(server.address, Tokens(lambda: next(tokens)), None)
        try:
            if works:
                assert await rest.agents()
            else:
                with pytest.raises(NotAllowed):
                    await rest.agents()
        finally:
            await rest.aclose()
    assert next(tokens, None) is None


async def test_two_refused_tokens_are_the_end(server: RunningServer) -> None:
    with pytest.raises(TurnedAway) as away:
        async with connect(server.address, token=lambda: "rubbish"):
            pass
    assert away.value.code == 4401


@pytest.mark.parametrize("token", ["rubbish", None])
async def test_a_fixed_token_that_is_refused_is_the_end(server: RunningServer, token: str | None) -> None:
    with pytest.raises(TurnedAway) as away:
        async with connect(server.address, token=token):
            pass
    assert away.value.code == 4401


async def test_a_source_of_tokens_that_fails_for_a_moment_is_asked_again(
    realm: SigningRealm, server: RunningServer
) -> None:
    calls = 0

    async def token() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError("the realm is away")
        return realm.sign()

    async with connect(server.address, token=token) as chat:
        assert await chat.ask_text("repeat after me: in") == "in"


async def test_a_source_of_tokens_that_keeps_failing_ends_the_client(server: RunningServer) -> None:
    def token() -> str:
        raise ConnectionError("the realm is away")

    with pytest.raises(Unreachable) as ended:
        async with connect(server.address, token=token, patience_s=0.5):
            pass
    assert isinstance(ended.value.__cause__, ConnectionError)


@pytest.mark.parametrize("given", [ZeroDivisionError("secret"), TimeoutError("secret"), None, 7])
async def test_a_source_that_gives_no_token_fails_by_the_clients_own_error(given: object) -> None:
    def token() -> str:
        if isinstance(given, Exception):
            raise given
        return given  # type: ignore[return-value]

    rest = Rest("http://127.0.0.1:9", Tokens(token), None)
    with pytest.raises(Unreachable, match="token function") as failed:
        await rest.agents()
    await rest.aclose()
    assert "secret" not in str(failed.value)


async def test_patience_ends_while_a_source_of_tokens_hangs() -> None:
    async with asyncio.timeout(TOKEN_S + 10):
        with pytest.raises(Unreachable, match="did not return"):
            async with connect("http://127.0.0.1:9", token=lambda: asyncio.Event().wait(), patience_s=0.5):  # type: ignore[arg-type, return-value]
                pass


async def test_a_token_without_expiry_is_asked_for_once() -> None:
    given = []

    def token() -> str:
        given.append("opaque")
        return "opaque"

    tokens = Tokens(token)
    assert [await tokens.newest(), await tokens.newest()] == ["opaque", "opaque"]
    assert len(given) == 1 and tokens.renewal_in_s is None


@pytest.mark.parametrize(
    "token", ["a.b", "a.!!.c", "a.e30.c", "a.bnVsbA.c", "a.eyJleHAiOiAieCJ9.c", "", "a.eyJleHAiOiBOYU59.c"]
)
async def test_an_expiry_that_cannot_be_read_is_none(token: str) -> None:
    tokens = Tokens(lambda: token)
    assert await tokens.newest() == token
    assert tokens.renewal_in_s is None


async def test_a_source_of_tokens_that_is_cancelled_has_failed() -> None:
    async def cancelled() -> str:
        raise asyncio.CancelledError

    with pytest.raises(Unreachable, match="The token function failed: CancelledError"):
        await Tokens(cancelled).renewed()
