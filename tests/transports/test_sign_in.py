"""What a page is told before anybody has signed in: how to do it, and no more than that."""

from pathlib import Path

import httpx
from support.rest_client import plain_http, rest
from support.running_server import RunningServer, running_server

REALM = "http://127.0.0.1:9/realms/agentic"


def connect_sources(response: httpx.Response) -> str:
    """Where the page may connect to."""
    directives = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
    return directives["connect-src"]


async def test_a_developer_needs_nothing(server: RunningServer) -> None:
    async with rest(server) as client:
        response = await client.get("/sign-in")
    assert response.status_code == 200
    assert response.json() == {"mode": "developer"}
    assert connect_sources(response) == "'self'"


async def test_a_page_is_told_of_its_realm_and_may_ask_it_and_nobody_else(tmp_path: Path) -> None:
    keycloak = {
        "realm_url": REALM,
        "client_id": "page",
        "client_secret": "secret-1",
        "exchange_client_secret": "secret-2",
    }
    settings = {"auth": {"mode": "keycloak", "keycloak": {**keycloak, "internal_url": "http://127.0.0.1:10/realms/x"}}}
    async with (
        running_server(tmp_path, settings=settings) as server,
        plain_http(base_url=server.address) as client,
    ):
        response = await client.get("/agentic/v1/sign-in")
        page = await client.get("/")
        agents = await client.get("/agentic/v1/agents")
    assert response.json() == {"mode": "keycloak", "realm_url": REALM, "client_id": "page"}
    assert connect_sources(page) == "'self' http://127.0.0.1:9"
    assert agents.status_code == 401
