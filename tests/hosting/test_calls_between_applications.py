"""An application calls another one's operations as the same user, by the same rules as everybody."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import Field
from support import glossary, hostile_applications
from support.rest_client import error_of, metric_at, plain_http
from support.running_server import RunningServer, running_server

from agentic_backend.application import Application, Call, Frame, User, Value
from agentic_backend.testing import open_application

PATH = f"{__name__}:Asking"


class Asked(Frame):
    """What to call."""

    application: str
    operation: str
    parts: dict[str, str] = Field(default_factory=dict)
    query: dict[str, Any] = Field(default_factory=dict)
    body: dict[str, Any] | None = None


class Answered(Value):
    """What was answered."""

    answer: Any


class Asking(Application):
    """Calls others."""

    id = "asking"
    title = "Asking"
    version = "1"

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/asked", self.ask), Call("POST", "/circle", self.circle)]

    async def ask(self, user: User, body: Asked) -> Answered:
        how = {"parts": body.parts, "query": body.query, "body": body.body}
        return Answered(answer=await self.call(body.application, body.operation, user, **how))

    async def circle(self, user: User) -> Answered:
        return Answered(answer=await self.call("asking", "circle", user))


@pytest.fixture
async def ann(tmp_path: Path) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient]]:
    applications = [
        {"class_path": glossary.PATH, "settings": {"terms": {"ask": "A frame.", "run": "A graph's."}}},
        {"class_path": f"{hostile_applications.PATH}:Hostile"},
        {"class_path": f"{hostile_applications.PATH}:FailsToStart"},
        {"class_path": PATH},
    ]
    async with running_server(tmp_path, settings={"applications": applications}) as server:
        headers = {"authorization": "Bearer dev:ann"}
        async with plain_http(base_url=f"{server.address}/apps/asking", headers=headers) as http:
            async with asyncio.timeout(10):
                # Those that can start, start beside the server.
                while (await ask(http, "list_terms")).status_code != 200:
                    await asyncio.sleep(0.02)
            yield server, http


async def ask(http: httpx.AsyncClient, operation: str, application: str = "glossary", **how: Any) -> httpx.Response:
    return await http.post("/asked", json={"application": application, "operation": operation, **how})


async def test_it_is_answered_as_its_user(ann: tuple[RunningServer, httpx.AsyncClient]) -> None:
    _, http = ann
    listed = (await ask(http, "list_terms", query={"limit": "1"})).json()["answer"]
    assert listed == {"terms": [{"term": "ask", "meaning": "A frame."}], "asked_by": "ann"}
    assert (await ask(http, "get_term", parts={"term": "run"})).json()["answer"]["meaning"] == "A graph's."
    # A cursor of no next page is no cursor.
    assert len((await ask(http, "list_terms", query={"limit": "5", "cursor": None})).json()["answer"]["terms"]) == 2
    found = (await ask(http, "find_terms", body={"text": "a run"})).json()["answer"]
    assert [term["term"] for term in found["terms"]] == ["run"]


async def test_what_is_refused_and_missing_has_its_error(ann: tuple[RunningServer, httpx.AsyncClient]) -> None:
    server, http = ann
    refused = [
        ("not_found", await ask(http, "get_term", parts={"term": "walk"})),
        ("not_found", await ask(http, "absent")),
        ("not_found", await ask(http, "get_openapi")),
        ("forbidden", await ask(http, "forget_term", parts={"term": "run"})),
        ("bad_frame", await ask(http, "list_terms", query={"limit": "0"})),
        ("bad_frame", await ask(http, "find_terms", body={"txt": 1})),
        *[("not_found", await ask(http, "get_term", parts={"term": part})) for part in ("", "a/b", "a/../b")],
        ("application_unavailable", await ask(http, "list_terms", "absent")),
        ("application_unavailable", await ask(http, "get", "fails-to-start")),
        ("application_unavailable", await ask(http, "act", "hostile", parts={"act": "raise"})),
        ("application_unavailable", await ask(http, "get_term")),
        ("application_unavailable", await ask(http, "list_terms", query={"limit": 1})),
        ("application_unavailable", await http.post("/circle")),
    ]
    assert [(code, error_of(answer)["code"]) for code, answer in refused] == [(code, code) for code, _ in refused]
    [absent] = [answer for _, answer in refused if "There is no application 'absent'." in answer.text]
    assert error_of(absent)["retryable"] is False
    assert await metric_at(server.internal, 'chat_application_failures_total{application="hostile"}') == 1


async def test_without_others_there_are_none() -> None:
    async with open_application(Asking) as opened, opened.client() as http:
        answer = await ask(http, "list_terms")
        assert error_of(answer)["code"] == "application_unavailable" and "no application 'glossary'" in answer.text
