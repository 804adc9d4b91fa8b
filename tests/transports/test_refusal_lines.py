"""The log says of a refused request who was refused, and why a token is not valid."""

from pathlib import Path

import pytest
from support.rest_client import rest
from support.running_server import running_server
from support.signing_realm import signing_realm


def refusals(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None, str | None]]:
    """The code, the reason and the user of each line."""
    lines = [vars(record) for record in caplog.records if record.message == "request refused"]
    return [(line["code"], line.get("reason"), line.get("user_id")) for line in lines]


async def test_who_was_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with running_server(tmp_path) as server, rest(server, "dev:alice") as http:
        assert (await http.get("/sessions/unknown")).status_code == 404
    assert refusals(caplog) == [("session_not_found", None, "alice")]


async def test_why_a_token_was_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with signing_realm() as realm:
        keycloak = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        token = realm.sign(azp="somebody-else")
        async with running_server(tmp_path, settings={"auth": keycloak}) as server, rest(server, token) as http:
            refused = await http.get("/sessions")
    assert (refused.status_code, "azp" in refused.text) == (401, False), "it is for the operator"
    assert refusals(caplog) == [("unauthenticated", "azp", None)]
