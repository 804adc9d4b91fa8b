"""Why Keycloak is away, as the server's own calls find it: in one word, which the metric and the log have."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.responses import JSONResponse, Response
from support.certificates import certificate
from support.faulty_line import FaultyLine, faulty_line
from support.recorded_agents import away_for, metric
from support.signing_realm import SigningRealm

from agentic_backend.auth import jwks
from agentic_backend.auth.jwks import JwksCache
from agentic_backend.auth.keycloak_realm import KeycloakRealm
from agentic_backend.config.settings import KeycloakSettings
from agentic_backend.errors import AuthUnavailable, Unauthenticated
from agentic_backend.kpi import Kpi
from agentic_backend.system_errors import Away

PATIENCE_S = 20


@pytest.fixture
def kpi() -> Kpi:
    # Not in the event loop: it reads files.
    return Kpi()


@pytest.fixture
async def line(realm: SigningRealm) -> AsyncIterator[FaultyLine]:
    async with faulty_line(urlsplit(realm.url).port or 0) as line:
        yield line


@pytest.fixture(autouse=True)
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "ASK_AGAIN_S", 0.1)
    monkeypatch.setattr(jwks, "FIRST_RETRY_S", 0.1)


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A good one and an expired one, of an issuer that is trusted."""
    good, expired = (
        certificate(tmp_path / "good.pem"),
        certificate(tmp_path / "expired.pem", is_expired=True),
    )
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(good.read_bytes() + expired.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    return good, expired


@asynccontextmanager
async def fetching(url: str, kpi: Kpi) -> AsyncIterator[KeycloakRealm]:
    """The keys of the realm at this URL are fetched again and again."""
    away = kpi.dependencies.keycloak_away
    realm = await asyncio.to_thread(KeycloakRealm, KeycloakSettings(realm_url=url), away)
    keys = JwksCache(realm.keys, partial(away, "keys"), refresh_s=0.1)
    try:
        await keys.open()
        yield realm
    finally:
        await keys.aclose()
        await realm.aclose()


async def is_away(kpi: Kpi, *why: Away) -> None:
    """Soon, and the other metric agrees."""
    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(away_for, kpi, "keycloak") != list(why):
            await asyncio.sleep(0.05)
    assert await asyncio.to_thread(metric, kpi, "chat_dependency_up", dependency="keycloak") == float(not why)


def answering(status: int, **error: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return JSONResponse(error, status, {"connection": "close"})

    return answer


async def test_the_reason_of_an_outage_is_told_again_when_it_changes(
    realm: SigningRealm,
    line: FaultyLine,
    kpi: Kpi,
    certificates: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    good, expired = certificates
    realm.url = realm.issuer = f"https://127.0.0.1:{line.port}/realms/tests"
    async with fetching(realm.url, kpi):
        await is_away(kpi, "tls")
        await line.present(expired)
        await is_away(kpi, "certificate")
        await line.present(good)
        await is_away(kpi)
        statuses: list[tuple[int, Away]] = [
            (404, "not_found"),
            (401, "refused_credentials"),
            (403, "no_permission"),
            (502, "server_error"),
            (302, "other"),
        ]
        for status, why in statuses:
            realm.answer = answering(status)
            await is_away(kpi, why)
        realm.answer = None
        await is_away(kpi)
        async with line.refused():
            await is_away(kpi, "unreachable")
        async with line.black_holed():
            await is_away(kpi, "no_answer")
        await is_away(kpi)
    errors = [vars(record)["error"] for record in caplog.records if vars(record).get("reason") == "certificate"]
    assert "certificate has expired" in errors[0]
    reasons = [vars(record)["reason"] for record in caplog.records if record.message == "signing keys not fetched"]
    changes = [reason for at, reason in enumerate(reasons) if at == 0 or reasons[at - 1] != reason]
    expected = ["tls", "certificate", *(why for _, why in statuses), "unreachable", "no_answer"]
    # What is under way when the line is mended breaks off.
    assert changes[: len(expected)] == expected


async def test_a_host_without_an_address(kpi: Kpi) -> None:
    async with fetching("https://nothing.invalid/realms/tests", kpi):
        await is_away(kpi, "unknown_host")


async def test_a_refused_client_is_not_taken_back_by_the_keys(
    realm: SigningRealm, kpi: Kpi, caplog: pytest.LogCaptureFixture
) -> None:
    async with fetching(realm.url, kpi) as keycloak:
        await is_away(kpi)
        realm.token_answer = {"error": "invalid_client"}
        with pytest.raises(Unauthenticated):
            await keycloak.refresh("opaque")
        fetched = realm.requests["certs"]
        async with asyncio.timeout(PATIENCE_S):
            while realm.requests["certs"] < fetched + 3:
                await asyncio.sleep(0.05)
        await is_away(kpi, "refused_credentials")
        # One whose own token is refused shows that the client is not.
        realm.token_answer = {"error": "invalid_grant"}
        with pytest.raises(Unauthenticated):
            await keycloak.refresh("opaque")
        await is_away(kpi)
        told = [record for record in caplog.records if record.message == "Keycloak gave no tokens"]
        assert [(vars(record)["reason"], vars(record)["error"]) for record in told] == [
            ("refused_credentials", "HTTP 400 invalid_client"),
            ("other", "HTTP 400 invalid_grant"),
        ]


async def test_a_failed_renewal_is_no_outage_that_nothing_ends(realm: SigningRealm, kpi: Kpi) -> None:
    """For long nobody else may renew a token; that Keycloak is down is found by the keys."""
    async with fetching(realm.url, kpi) as keycloak:
        await is_away(kpi)
        realm.answer = answering(503)
        with pytest.raises(AuthUnavailable):
            await keycloak.exchange("opaque", "tools")
        realm.answer = None
        await is_away(kpi)
