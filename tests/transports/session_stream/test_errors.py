"""Errors of the session stream: one form, and a category for each cause."""

from pathlib import Path
from typing import Any, get_args

import pytest
from support.chat_client import PATIENCE_S
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.tool_sessions import opened, sent, tool_client

from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import ErrorInfo
from agentic_backend.transports.session_stream.errors import CATEGORIES, Category, SessionStreamError

OF_THE_DOCUMENT = {
    "validation": 400,
    "authorization": 403,
    "not_found": 404,
    "conflict": 409,
    "ai_gateway": 502,
    "timeout": 504,
    "internal": 500,
}


def test_the_categories_have_the_statuses_of_the_document() -> None:
    assert OF_THE_DOCUMENT.keys() == set(get_args(Category))
    assert all(CATEGORIES[status] == category for category, status in OF_THE_DOCUMENT.items())


@pytest.mark.parametrize("error", AgenticError.__subclasses__(), ids=lambda error: error.code)
def test_every_error_has_a_category(error: type[AgenticError]) -> None:
    body = SessionStreamError.of(ErrorInfo.of(error(retry_after_s=2), "r")).model_dump(mode="json")
    assert body == {
        "error": error.default,
        "category": CATEGORIES[error.http_status],
        "code": error.code,
        "retryable": error().retryable,
        "requestId": "r",
        "retryAfterS": 2,
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "category", "names"),
    [
        ("POST", "/sessions", {}, 400, "validation", "toolId:"),
        ("POST", "/sessions", {"toolId": None}, 400, "validation", "toolId:"),
        ("POST", "/sessions", {"toolId": 5}, 400, "validation", "toolId:"),
        ("POST", "/sessions", {"tool_id": "echo", "toolId": "echo"}, 400, "validation", "tool_id: unknown field"),
        ("POST", "/sessions", {"toolId": "x" * 129}, 400, "validation", "toolId:"),
        ("POST", "/sessions", {"toolId": "echo", "submissionId": "x" * 129}, 400, "validation", "submissionId:"),
        ("POST", "/sessions", [], 400, "validation", ""),
        ("POST", "/sessions", {"toolId": "unknown"}, 404, "not_found", ""),
        ("POST", "/sessions", {"toolId": "disabled"}, 404, "not_found", ""),
        ("POST", "/sessions", {"toolId": "no-such-class"}, 503, "internal", ""),
        ("GET", "/sessions?state=paused", None, 400, "validation", "state:"),
        ("GET", "/sessions?limit=0", None, 400, "validation", "limit:"),
        ("GET", "/sessions?cursor=x", None, 400, "validation", "cursor:"),
        ("POST", "/sessions/{id}/messages", {}, 400, "validation", "content:"),
        ("POST", "/sessions/{id}/messages", {"content": ""}, 400, "validation", "content:"),
        (
            "POST",
            "/sessions/{id}/messages",
            {"content": "x", "onDisconnect": "wait"},
            400,
            "validation",
            "onDisconnect:",
        ),
        ("POST", "/sessions/{id}/messages", {"content": "x" * 262_145}, 413, "validation", "message:"),
        ("GET", "/sessions/{id}/messages?afterSeq=x", None, 400, "validation", "afterSeq:"),
        ("GET", "/sessions/{id}/messages?limit=0", None, 400, "validation", "limit:"),
        ("POST", "/sessions/{id}/complete", {"force": True}, 400, "validation", "force: unknown field"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_wrong_with_a_request_is_told_by_field(
    shared_server: RunningServer, method: str, path: str, body: Any, status: int, category: str, names: str
) -> None:
    async with tool_client(shared_server) as http:
        session_id = await opened(http, "echo")
        response = await http.request(method, path.format(id=session_id), json=body)
        error = response.json()
        assert (response.status_code, error["category"]) == (status, category)
        assert error["error"].startswith(names) and "x" * 100 not in error["error"]
        assert set(error) - {"retryAfterS"} == {"error", "category", "code", "retryable", "requestId"}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'"text"', b"{" * 100_000])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_body_that_is_no_json_is_refused(shared_server: RunningServer, content: bytes) -> None:
    async with tool_client(shared_server) as http:
        response = await http.post("/sessions", content=content, headers={"content-type": "application/json"})
        assert (response.status_code, response.json()["category"]) == (400, "validation")


@pytest.mark.parametrize("header", ["Bearer", "Basic eDp5", "Bearer nobody's"])
@pytest.mark.asyncio(loop_scope="module")
async def test_who_is_not_signed_in_is_told_so_in_this_doors_form(shared_server: RunningServer, header: str) -> None:
    async with tool_client(shared_server) as http:
        response = await http.get("/sessions", headers={"Authorization": header})
        assert (response.status_code, response.json()["category"]) == (401, "authorization")
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_method_that_a_path_does_not_have_is_refused_in_this_doors_form(shared_server: RunningServer) -> None:
    async with tool_client(shared_server) as http:
        response = await http.delete("/sessions/s/messages")
        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, POST")
        assert (response.json()["category"], response.json()["code"]) == ("not_found", "method_not_allowed")


@pytest.mark.asyncio(loop_scope="module")
async def test_null_is_the_same_as_an_absent_field(shared_server: RunningServer) -> None:
    async with tool_client(shared_server) as http:
        session_id = await opened(http, "echo", assignmentId=None, submissionId=None)
        assert (await sent(http, session_id, "hello", onDisconnect=None))[-1]["type"] == "done"


async def test_too_many_streams_are_refused_before_anything_is_stored(tmp_path: Path) -> None:
    limits = {"limits": {"sockets_per_user": 1}}
    async with running_server(tmp_path, agents=ENTRIES, settings=limits) as server, tool_client(server) as http:
        first, second = await opened(http), await opened(http)
        body = {"content": "hang after 5 tokens"}
        async with http.stream("POST", f"/sessions/{first}/messages", json=body, timeout=PATIENCE_S) as running:
            assert running.status_code == 200
            refused = await http.post(f"/sessions/{second}/messages", json=body)
            assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
            assert refused.json()["retryAfterS"] > 0 and refused.headers["retry-after"]
        assert (await http.get(f"/sessions/{second}")).json()["messageCount"] == 0
