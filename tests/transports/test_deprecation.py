"""An operation that will go says so: in its answers, in `/info`, and in the OpenAPI document."""

import json
from datetime import date

from support.contract import DOCS
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer

from agentic_backend.transports.rest.deprecation import Deprecation

SINCE = "@1795392000"
"""2026-11-23 in Unix seconds, as RFC 9745 writes a date."""


def test_the_headers_have_the_forms_of_their_rfcs() -> None:
    deprecation = Deprecation(since=date(2026, 11, 23), use="another")
    assert deprecation.headers == {"deprecation": SINCE}
    ending = Deprecation(since=date(2026, 11, 23), use="another", sunset=date(2028, 1, 1))
    assert ending.headers == {"deprecation": SINCE, "sunset": "Sat, 01 Jan 2028 00:00:00 GMT"}


async def test_the_calls_of_older_clients_tell_that_they_are_deprecated(server: RunningServer) -> None:
    async with rest(server) as http:
        opened = await http.post("/chatbot/session", json={})
        session_id = opened.json()["id"]
        listed = await http.get("/chatbot/sessions")
        history = await http.get(f"/chatbot/session/{session_id}/history")
        deleted = await http.delete(f"/chatbot/session/{session_id}")
        for answer in (opened, listed, history, deleted):
            assert answer.is_success
            assert answer.headers["deprecation"] == SINCE
        assert "deprecation" not in (await http.get("/sessions")).headers


async def test_a_refused_call_tells_that_it_is_deprecated(server: RunningServer) -> None:
    async with rest(server) as http:
        missing = await http.get("/chatbot/session/none/history")
        not_understood = await http.get("/chatbot/session/none/history?limit=few")
        assert (missing.status_code, not_understood.status_code) == (404, 400)
        assert missing.headers["deprecation"] == not_understood.headers["deprecation"] == SINCE
        assert "deprecation" not in (await http.get("/sessions/none")).headers


async def test_info_and_the_document_name_each_and_what_to_use_instead(server: RunningServer) -> None:
    async with rest(server) as http:
        told = (await http.get("/info")).json()["deprecations"]
    document = json.loads((DOCS / "openapi.json").read_text())
    described = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if operation.get("deprecated")
    }
    assert {each["operation_id"] for each in told} == described != set()
    for each in told:
        method, path = each["use"].split()
        assert path.startswith(PREFIX) and method.lower() in document["paths"][path]
        assert each["since"] == "2026-11-23" and "sunset" not in each
