"""Faults of Keycloak, whose keys verify everybody's tokens."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import httpx
import jwt
from gameday.fault import Fault
from gameday.site import Site
from gameday.sites import EXPIRED, GOOD
from starlette.responses import JSONResponse, Response
from support.chat_client import chat
from support.rest_client import plain_http
from websockets.exceptions import InvalidStatus

from agentic_backend.loop.event_loop import running

OTHER_ORIGIN = "https://chat.example.org"
ASK = ("words 3 0", None)
PANEL = ("overview.json", "Dependencies")
AWAY_FOR = ("stores.json", "Why a dependency is away")
SIGNED_IN_FELT = "Nothing for a day, whose tokens are signed with keys that are known; signing in and renewals fail."
RUNBOOK = "signing keys not fetched"


@asynccontextmanager
async def dead_at_start(site: Site) -> AsyncIterator[None]:
    """The server is started while the realm refuses connections."""
    async with site.lines["realm"].refused():
        await site.restart()
        yield


@asynccontextmanager
async def strangers(site: Site) -> AsyncIterator[None]:
    """A stranger brings a token of a key that the server has to ask the realm for; it is not among those known."""
    unknown = jwt.encode({}, "s" * 32, headers={"kid": "unknown"})
    statuses: set[int] = set()

    async def come() -> None:
        headers = {"Authorization": f"Bearer {unknown}"}
        async with plain_http(base_url=site.address, headers=headers) as http:
            while True:
                with suppress(httpx.HTTPError):
                    statuses.add((await http.get("/agentic/v1/sessions")).status_code)
                await asyncio.sleep(1)

    async with running(come()):
        yield
    assert statuses == {401}


@asynccontextmanager
async def dead_later(site: Site) -> AsyncIterator[None]:
    async with site.lines["realm"].refused(), strangers(site):
        yield


@asynccontextmanager
async def expired_certificate(site: Site) -> AsyncIterator[None]:
    line = site.lines["realm"]
    await line.present(site.directory / EXPIRED)
    try:
        async with strangers(site):
            yield
    finally:
        await line.present(site.directory / GOOD)


@asynccontextmanager
async def realm_gone(site: Site) -> AsyncIterator[None]:
    async def answer() -> Response:
        return JSONResponse({"error": "Realm does not exist"}, 404, {"connection": "close"})

    assert site.keycloak is not None
    site.keycloak.answer = answer
    try:
        async with strangers(site):
            yield
    finally:
        site.keycloak.answer = None


def told(**settings: str) -> Callable[[Site], AbstractAsyncContextManager[None]]:
    """The server is started with these settings, which are wrong, as environment variables without their prefix."""

    @asynccontextmanager
    async def inject(site: Site) -> AsyncIterator[None]:
        right = dict(site.environment)
        site.environment.update({f"AGENTIC_{name}": value for name, value in settings.items()})
        try:
            await site.restart()
            yield
        finally:
            site.environment = right
            await site.restart()

    return inject


@asynccontextmanager
async def page_of_another_name(site: Site) -> AsyncIterator[None]:
    """The page has got a name that the server was not told."""

    async def come() -> None:
        while True:
            with suppress(InvalidStatus):
                async with chat(site.address, token=site.token() if site.token else None, origin=OTHER_ORIGIN):
                    raise AssertionError("it was let in")
            await asyncio.sleep(0.02)

    async with running(come()):
        yield


REALM_FAULTS = [
    Fault(
        name="a page of another name",
        site="realm",
        inject=page_of_another_name,
        alert="OriginsRefused",
        labels={"reason": "origin"},
        panel=("sockets.json", "Refused, by reason"),
        runbook="the page's address is not in `server.allowed_origins`",
        log="request refused",
        fields={"code": "forbidden"},
        felt="The page opens, and says that it can't connect.",
        ask=ASK,
    ),
    Fault(
        name="another audience is expected",
        site="realm",
        inject=told(AUTH__KEYCLOAK__AUDIENCE="somebody-else"),
        alert="TokensRefused",
        labels={"outcome": "audience"},
        panel=("sockets.json", "Refused, by reason"),
        runbook="the client has lost its audience mapper",
        log="socket refused",
        fields={"code": "unauthenticated", "reason": "audience"},
        felt="They are asked to sign in again and again.",
        ask=ASK,
        outcome="401 unauthenticated",
    ),
    Fault(
        name="Keycloak dead at start",
        site="realm",
        inject=dead_at_start,
        alert="KeycloakAway",
        panel=PANEL,
        runbook=RUNBOOK,
        log=RUNBOOK,
        fields={"reason": "unreachable"},
        felt="Nobody gets in: 503 `auth_unavailable`.",
        ask=ASK,
        outcome="503 auth_unavailable",
        ready="auth_unavailable",
    ),
    Fault(
        name="Keycloak dead later",
        site="realm",
        inject=dead_later,
        alert="KeycloakAway",
        panel=PANEL,
        runbook=RUNBOOK,
        log=RUNBOOK,
        fields={"reason": "unreachable", "age_of_known_keys_s": r"\d+"},
        felt=SIGNED_IN_FELT,
        ask=ASK,
    ),
    Fault(
        name="Keycloak's certificate expired",
        site="realm",
        inject=expired_certificate,
        alert="KeycloakAway",
        panel=AWAY_FOR,
        runbook="renew Keycloak's, or its proxy's",
        log=RUNBOOK,
        fields={"reason": "certificate", "error": "certificate has expired"},
        felt=SIGNED_IN_FELT,
        ask=ASK,
    ),
    Fault(
        name="realm gone",
        site="realm",
        inject=realm_gone,
        alert="KeycloakAway",
        panel=AWAY_FOR,
        runbook="the realm is gone",
        log=RUNBOOK,
        fields={"reason": "not_found", "error": "HTTP 404"},
        felt=SIGNED_IN_FELT,
        ask=ASK,
    ),
]
