"""What the realm's token endpoint is asked, and every way in which it may answer."""

import asyncio
import io
import logging
import time
from collections.abc import AsyncIterator
from functools import partial

import jwt
import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response
from support.chat_client import PATIENCE_S
from support.signing_realm import CLIENT, SigningRealm

from agentic_backend.auth import keycloak_realm
from agentic_backend.auth.keycloak import KeycloakAuthenticator, keycloak_authenticator
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.auth.user import Tokens
from agentic_backend.errors import AuthUnavailable, Unauthenticated
from agentic_backend.kpi.groups.connections import ConnectionMetrics
from agentic_backend.kpi.registry import MetricsRegistry
from agentic_backend.telemetry import JsonFormatter

REFRESH, SUBJECT = "opaque.refresh.11", "opaque.subject.22"


@pytest.fixture
async def authenticator(realm: SigningRealm) -> AsyncIterator[KeycloakAuthenticator]:
    async with keycloak_authenticator(realm.settings, lambda call, why: None) as authenticator:
        yield authenticator


async def test_what_becomes_of_a_renewed_token_is_counted(realm: SigningRealm) -> None:
    metrics = MetricsRegistry()
    check = partial(ConnectionMetrics(metrics).token_check, "renewal")
    async with keycloak_authenticator(realm.settings, lambda call, why: None, check) as authenticator:
        realm.token_answer = {"access_token": realm.sign(), "refresh_token": "later"}
        await authenticator.refresh(REFRESH, "alice-id")
        realm.token_answer = {"access_token": realm.sign(azp="other-client"), "refresh_token": "later"}
        with pytest.raises(Unauthenticated):
            await authenticator.refresh(REFRESH, "alice-id")
    exposition = metrics.exposition("")[0].decode()
    for outcome in ("accepted", "azp"):
        assert f'chat_tokens_checked_total{{door="renewal",outcome="{outcome}"}} 1.0' in exposition


async def test_a_refresh_token_is_traded_for_newer_tokens(
    realm: SigningRealm, authenticator: KeycloakAuthenticator
) -> None:
    realm.token_answer = {"access_token": realm.sign(), "refresh_token": "later", "expires_in": 300}
    tokens = await authenticator.refresh(REFRESH, "alice-id")
    assert tokens.expires_at == jwt.decode(tokens.access_token, options={"verify_signature": False})["exp"]
    assert tokens == Tokens(realm.token_answer["access_token"], "later", tokens.expires_at)
    assert realm.token_forms == [{"client_id": CLIENT, "grant_type": "refresh_token", "refresh_token": REFRESH}]


async def test_the_newer_tokens_must_be_the_same_users_and_right(
    realm: SigningRealm, authenticator: KeycloakAuthenticator
) -> None:
    for token in (realm.sign(sub="bob-id"), realm.sign("second"), realm.sign(azp="other-client"), "nonsense"):
        realm.token_answer = {"access_token": token}
        with pytest.raises(Unauthenticated):
            await authenticator.refresh(REFRESH, "alice-id")


async def test_a_user_who_has_lost_a_role_gets_no_newer_token(realm: SigningRealm) -> None:
    settings = realm.settings.model_copy(update={"required_roles": ("analyst",)})
    lost = {"realm_access": {"roles": []}}, {"exp": int(time.time()) - 60}
    async with keycloak_authenticator(settings, lambda call, why: None) as authenticator:
        for claims, problem in zip(lost, ("You lack a role", "has expired"), strict=True):
            realm.token_answer = {"access_token": realm.sign(**claims)}
            with pytest.raises(Unauthenticated, match=problem):
                await authenticator.refresh(REFRESH, "alice-id")


async def test_an_exchange_asks_for_an_access_token_of_the_audience(realm: SigningRealm) -> None:
    realm.token_answer = {"access_token": "for the tools", "issued_token_type": "x"}
    settings = realm.settings.model_copy(update={"exchange_client_id": "backend", "exchange_client_secret": "s3cret"})
    keycloak = await asyncio.to_thread(KeycloakRealm, settings)
    assert await keycloak.exchange(SUBJECT, "tools") == Tokens("for the tools")
    await keycloak.aclose()
    [form] = realm.token_forms
    access_token = "urn:ietf:params:oauth:token-type:access_token"
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "client_id": "backend",
        "client_secret": "s3cret",
        "subject_token": SUBJECT,
        "subject_token_type": access_token,
        "requested_token_type": access_token,
        "audience": "tools",
    }


async def test_a_confidential_client_shows_its_secret(realm: SigningRealm) -> None:
    realm.token_answer = {"access_token": realm.sign()}
    settings = realm.settings.model_copy(update={"client_secret": "s3cret"})
    async with keycloak_authenticator(settings, lambda call, why: None) as authenticator:
        await authenticator.refresh(REFRESH, "alice-id")
        await authenticator.exchange(SUBJECT, "tools")
    assert [(form["client_id"], form["client_secret"]) for form in realm.token_forms] == [(CLIENT, "s3cret")] * 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (JSONResponse({"error": "invalid_grant", "error_description": REFRESH}, 400), Unauthenticated),
        (JSONResponse({"error": "invalid_client"}, 401), Unauthenticated),
        (JSONResponse([REFRESH], 400), AuthUnavailable),
        (Response(REFRESH, 403), Unauthenticated),
        (Response(REFRESH, 500), AuthUnavailable),
        (Response(status_code=503), AuthUnavailable),
        (HTMLResponse(f"<p>{REFRESH}</p>"), AuthUnavailable),
        (JSONResponse([REFRESH]), AuthUnavailable),
        (JSONResponse({"access_token": ""}), AuthUnavailable),
        (JSONResponse({"access_token": 5, "refresh_token": REFRESH}), AuthUnavailable),
        (Response(status_code=204), AuthUnavailable),
        (Response("[" * 100_000), AuthUnavailable),
        (Response("[" * 100_000, 400), AuthUnavailable),
    ],
)
async def test_an_answer_without_tokens_is_an_error_that_tells_nothing(
    realm: SigningRealm, authenticator: KeycloakAuthenticator, answer: Response, error: type[Exception]
) -> None:
    async def give() -> Response:
        answer.headers["connection"] = "close"
        return answer

    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    realm.answer = give
    with pytest.raises(error) as refused:
        await authenticator.refresh(REFRESH, "alice-id")
    with pytest.raises(error) as not_exchanged:
        await authenticator.exchange(SUBJECT, "tools")
    assert "opaque" not in f"{refused.value} {not_exchanged.value}"
    logging.getLogger().removeHandler(handler)
    assert written.getvalue().count("Keycloak gave no tokens") == 2
    assert "opaque" not in written.getvalue()


async def test_where_keycloak_does_not_answer_the_call_ends_in_time(
    realm: SigningRealm, authenticator: KeycloakAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def hang() -> Response:
        await over.wait()
        return Response(status_code=503, headers={"connection": "close"})

    monkeypatch.setattr(keycloak_realm, "CALL_TIMEOUT_S", 0.1)
    realm.answer = hang
    try:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(AuthUnavailable):
                await authenticator.refresh(REFRESH, "alice-id")
    finally:
        over.set()


async def test_the_server_may_reach_the_realm_at_another_address_than_browsers(realm: SigningRealm) -> None:
    inside, realm.url = realm.url, "https://login.example.org/realms/tests"
    realm.issuer = realm.url
    settings = realm.settings.model_copy(update={"internal_url": inside})
    async with keycloak_authenticator(settings, lambda call, why: None) as authenticator:
        assert (await authenticator.authenticate(realm.sign())).id == "alice-id"
