"""The key cache: how often the realm is asked, and what happens when it doesn't answer."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from support.chat_client import PATIENCE_S
from support.signing_realm import SigningRealm, b64, public_jwk

from agentic_backend.auth import keycloak_realm
from agentic_backend.auth.access_token import AccessTokenVerifier
from agentic_backend.auth.jwks import ASK_AGAIN_S, REFRESH_S, STALE_AT_MOST_S, JwksCache
from agentic_backend.auth.keycloak import KeycloakAuthenticator
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.errors import AuthUnavailable, Unauthenticated
from agentic_backend.system_errors import Away


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def opened(realm: SigningRealm, clock: Callable[[], float], **options: Any) -> AsyncIterator[JwksCache]:
    """A cache of the keys of `realm`."""
    keycloak = await asyncio.to_thread(KeycloakRealm, realm.settings)
    cache = JwksCache(keycloak.keys, clock=clock, **options)
    try:
        await cache.open()
        yield cache
    finally:
        await cache.aclose()
        await keycloak.aclose()


async def refuse() -> Response:
    return Response(status_code=503, headers={"connection": "close"})


async def test_a_known_key_costs_no_request(realm: SigningRealm, clock: Clock) -> None:
    async with opened(realm, clock) as cache:
        for _ in range(1_000):
            clock.now += 60
            key = await cache.key("first")
            assert key is not None and key.key_id == "first"
    assert realm.requests == {"openid-configuration": 1, "certs": 1}


async def test_ten_thousand_random_key_ids_cost_two_requests_a_minute(realm: SigningRealm, clock: Clock) -> None:
    """Tokens as an attacker sends them: all from outside, one after the other and many at a time, for five minutes."""
    rest = realm.sign().partition(".")[2]
    tokens = [f'{b64(f"""{{"alg":"RS256","kid":"{secrets.token_hex(8)}"}}""".encode())}.{rest}' for _ in range(10_000)]
    minutes = 5
    async with opened(realm, clock) as cache:
        keycloak = await asyncio.to_thread(KeycloakRealm, realm.settings)
        authenticator = KeycloakAuthenticator(AccessTokenVerifier(realm.settings), cache, keycloak)
        before = realm.requests["certs"]
        for start in range(0, len(tokens), 100):
            clock.now += minutes * 60 / 100
            pack = [authenticator.authenticate(token) for token in tokens[start : start + 100]]
            for outcome in await asyncio.gather(*pack, return_exceptions=True):
                assert isinstance(outcome, Unauthenticated)
        assert 1 <= realm.requests["certs"] - before <= 2 * minutes
        assert (await authenticator.authenticate(realm.sign())).id == "alice-id"
        await keycloak.aclose()


async def test_all_who_want_an_unknown_key_wait_for_one_request(realm: SigningRealm, clock: Clock) -> None:
    async with opened(realm, clock) as cache:
        realm.jwks = {"keys": [public_jwk("first"), public_jwk("second")]}
        clock.now += ASK_AGAIN_S
        found = await asyncio.gather(*(cache.key(key_id) for key_id in ["second", "third"] * 500))
        assert [key.key_id if key else None for key in found] == ["second", None] * 500
        assert realm.requests["certs"] == 2


async def test_who_stops_waiting_stops_no_one_else(realm: SigningRealm, clock: Clock) -> None:
    async with opened(realm, clock) as cache:
        realm.jwks = {"keys": [public_jwk("second")]}
        clock.now += ASK_AGAIN_S
        impatient = asyncio.create_task(cache.key("second"))
        patient = asyncio.create_task(cache.key("second"))
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient is not None
        assert impatient.cancelled()


async def test_a_key_that_is_not_there_yet_is_asked_for_again_after_a_while(realm: SigningRealm, clock: Clock) -> None:
    async with opened(realm, clock) as cache:
        realm.jwks = {"keys": [public_jwk("second")]}
        clock.now += ASK_AGAIN_S - 1
        assert await cache.key("second") is None
        assert realm.requests["certs"] == 1
        clock.now += 1
        assert await cache.key("second") is not None
        assert await cache.key("first") is None, "a key that the realm has dropped signs nothing any more"


async def test_keys_are_refreshed_in_the_background(realm: SigningRealm) -> None:
    assert REFRESH_S <= 600
    async with opened(realm, time.monotonic, refresh_s=0.02) as cache, asyncio.timeout(PATIENCE_S):
        realm.jwks = {"keys": [public_jwk("second")]}
        while await cache.key("first") is not None:
            await asyncio.sleep(0.01)
        assert await cache.key("second") is not None


async def test_known_keys_stay_good_for_a_day(realm: SigningRealm, clock: Clock) -> None:
    observed: list[Away | None] = []
    async with opened(realm, clock, observe=observed.append) as cache:
        realm.answer = refuse
        for _ in range(20):
            clock.now += STALE_AT_MOST_S / 20 - 1
            assert await cache.key("second") is None
            assert await cache.key("first") is not None
            assert cache.ready
        assert observed == [None] + 20 * ["server_error"]
        clock.now += 20
        assert not cache.ready
        with pytest.raises(AuthUnavailable) as caught:
            await cache.key("first")
        assert (caught.value.code, caught.value.retryable) == ("auth_unavailable", True)
        realm.answer = None
        clock.now += ASK_AGAIN_S
        assert await cache.key("second") is None
        assert await cache.key("first") is not None and cache.ready
        assert observed[-1] is None


async def test_who_starts_before_the_realm_does_is_ready_soon_after_it(realm: SigningRealm) -> None:
    realm.answer = refuse
    async with opened(realm, time.monotonic) as cache, asyncio.timeout(PATIENCE_S):
        assert not cache.ready
        with pytest.raises(AuthUnavailable):
            await cache.key("first")
        realm.answer = None
        while not cache.ready:
            await asyncio.sleep(0.05)
        assert await cache.key("first") is not None


async def test_a_realm_that_does_not_answer_is_given_up(
    realm: SigningRealm, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keycloak_realm.CALL_TIMEOUT_S <= 5
    over = asyncio.Event()

    async def hang() -> Response:
        await over.wait()
        return await refuse()

    async with opened(realm, clock) as cache:
        # Not before the keys are there, which may take a busy machine longer.
        monkeypatch.setattr(keycloak_realm, "CALL_TIMEOUT_S", 0.2)
        realm.answer = hang
        clock.now += ASK_AGAIN_S
        try:
            async with asyncio.timeout(PATIENCE_S):
                assert await cache.key("second") is None
                assert await cache.key("first") is not None
        finally:
            over.set()


@pytest.mark.parametrize(
    "answer",
    [
        HTMLResponse("<p>Sign in</p>"),
        JSONResponse([]),
        JSONResponse({}),
        JSONResponse({"keys": "none"}),
        JSONResponse({"keys": []}),
        JSONResponse({"keys": [5, {"kid": "x"}, {"kty": "RSA", "kid": "y", "n": "?", "e": "AQAB"}]}),
        JSONResponse({"keys": [{**public_jwk("first"), "use": "enc"}]}),
        JSONResponse({"keys": [{key: value for key, value in public_jwk("first").items() if key != "kid"}]}),
        Response(status_code=500),
        Response(status_code=302, headers={"location": "http://127.0.0.1:1/"}),
        Response(status_code=204),
        Response("[" * 100_000),
        JSONResponse({"keys": [{"kty": "oct", "kid": "x"}]}),
        JSONResponse({"keys": [{**public_jwk("first"), "alg": "none"}]}),
    ],
)
async def test_an_answer_that_has_no_keys_changes_nothing(realm: SigningRealm, clock: Clock, answer: Response) -> None:
    async def give() -> Response:
        answer.headers["connection"] = "close"
        return answer

    async with opened(realm, clock) as cache:
        realm.answer = give
        clock.now += ASK_AGAIN_S
        assert await cache.key("second") is None
        assert realm.requests["certs"] == 2
        assert await cache.key("first") is not None


async def test_a_realm_of_another_name_gives_no_keys(
    realm: SigningRealm, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    realm.issuer = "https://login.example.org/realms/tests"
    with caplog.at_level(logging.WARNING):
        async with opened(realm, clock) as cache:
            assert not cache.ready
    assert realm.requests["certs"] == 0
    [reason] = [getattr(record, "error", "") for record in caplog.records if "keys" in record.message]
    assert realm.issuer in reason and realm.url in reason


async def test_nothing_goes_on_after_the_end(realm: SigningRealm) -> None:
    async with opened(realm, time.monotonic, refresh_s=0.01), asyncio.timeout(PATIENCE_S):
        while realm.requests["certs"] < 3:
            await asyncio.sleep(0.01)
    asked = realm.requests["certs"]
    await asyncio.sleep(0.1)
    assert realm.requests["certs"] == asked
