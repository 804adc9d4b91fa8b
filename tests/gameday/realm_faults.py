"""Faults of Keycloak, whose keys verify everybody's tokens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import jwt
from gameday.fault import Fault
from gameday.site import Site
from support.rest_client import plain_http

from agentic_backend.event_loop import running

ASK = ("words 3 0", None)
PANEL = ("overview.json", "Dependencies")
RUNBOOK = "signing keys not fetched"


@asynccontextmanager
async def dead_at_start(site: Site) -> AsyncIterator[None]:
    """The server is started while the realm refuses connections."""
    async with site.lines["realm"].refused():
        await site.restart()
        yield


@asynccontextmanager
async def dead_later(site: Site) -> AsyncIterator[None]:
    """The realm goes away; a stranger brings a token of a key that the server has to ask it for."""
    assert site.token is not None
    unknown = jwt.encode({}, "s" * 32, headers={"kid": "unknown"})

    statuses: set[int] = set()

    async def come() -> None:
        headers = {"Authorization": f"Bearer {unknown}"}
        async with plain_http(base_url=site.address, headers=headers) as http:
            while True:
                with suppress(httpx.HTTPError):
                    statuses.add((await http.get("/agentic/v1/sessions")).status_code)
                await asyncio.sleep(1)

    async with site.lines["realm"].refused(), running(come()):
        yield
    # Its key is not among those that are known.
    assert statuses == {401}


REALM_FAULTS = [
    Fault(
        name="Keycloak dead at start",
        site="realm",
        inject=dead_at_start,
        alert="KeycloakAway",
        panel=PANEL,
        runbook=RUNBOOK,
        log=RUNBOOK,
        fields={"reason": "no connection"},
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
        fields={"reason": "no connection", "age_of_known_keys_s": r"\d+"},
        felt="Nothing for a day, whose tokens are signed with keys that are known; signing in and renewals fail.",
        ask=ASK,
    ),
]
