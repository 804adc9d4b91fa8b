"""Feedback on answers: given, changed, taken back and listed by their user, and read by admins."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from services.mongodb import further_on_mongodb
from support.chat_client import chat
from support.rest_client import error_of, metric_at, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings={"store": {"url": store_url}}) as server:
        yield server


async def asked(server: RunningServer, token: str, *messages: str) -> str:
    """The id of a session with these questions, each answered at the rank after it."""
    session_id = None
    async with chat(server.address, token=token) as client:
        for message in messages:
            events = await client.ask(message, agent_id="echo", session_id=session_id)
            session_id = events[-1]["session_id"]
    assert session_id is not None
    return session_id


async def listed(client: httpx.AsyncClient, session_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/sessions/{session_id}/feedback")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["feedback"]
    return found


async def test_feedback_is_given_changed_and_taken_back(server: RunningServer) -> None:
    session_id = await asked(server, "dev:ann", "one", "two")
    async with rest(server, "dev:ann") as client:
        later, first = (f"/sessions/{session_id}/messages/{rank}/feedback" for rank in (3, 1))
        given = await client.put(later, json={"rating": "down", "comment": "  Größe 😀 \n wrong "})
        assert given.status_code == 200
        assert given.json().items() >= {"rank": 3, "rating": "down", "comment": "Größe 😀 \n wrong"}.items()
        assert (await client.put(first, json={"rating": "up"})).json()["comment"] == ""
        changed = (await client.put(later, json={"rating": "up"})).json()
        both = await listed(client, session_id)
        assert [(each["rank"], each["rating"]) for each in both] == [(1, "up"), (3, "up")]
        assert both[1] == changed
        for _ in range(2):
            assert (await client.delete(later)).status_code == 204
        assert await listed(client, session_id) == both[:1]
        lines = (await client.get("/me/export")).text.splitlines()
        assert [line for line in lines if '"table":"feedback"' in line and '"rating":"up"' in line]
        assert (await client.delete(f"/sessions/{session_id}")).status_code == 204
    async with rest(server) as admin:
        assert (await admin.get("/admin/feedback")).json()["feedback"] == []
    for rating, count in (("up", 2), ("down", 1)):
        labels = f'{{agent_id="echo",rating="{rating}"}}'
        assert await metric_at(server.internal, f"chat_feedback_total{labels}") == count


@pytest.mark.parametrize("rank", ["0", "2", "-1", "1.0", "x", "٣", "9" * 15, "9" * 400])
@further_on_mongodb("store_url")
async def test_only_answers_take_feedback(server: RunningServer, rank: str) -> None:
    session_id = await asked(server, "dev:ann", "one")
    async with rest(server, "dev:ann") as client:
        refused = await client.put(f"/sessions/{session_id}/messages/{rank}/feedback", json={"rating": "up"})
        code = "bad_frame" if rank == "0" else "not_found"
        assert error_of(refused)["code"] == code
        assert await listed(client, session_id) == []


@pytest.mark.parametrize(
    "body", [{}, {"rating": "middling"}, {"rating": "up", "comment": "x" * 4_001}, {"rating": "up", "other": 1}]
)
@further_on_mongodb("store_url")
async def test_other_feedback_is_refused(server: RunningServer, body: dict[str, Any]) -> None:
    session_id = await asked(server, "dev:ann", "one")
    async with rest(server, "dev:ann") as client:
        refused = await client.put(f"/sessions/{session_id}/messages/1/feedback", json=body)
        assert error_of(refused)["code"] == "bad_frame"
        longest = {"rating": "up", "comment": "x" * 4_000}
        assert (await client.put(f"/sessions/{session_id}/messages/1/feedback", json=longest)).status_code == 200


async def test_nobody_gives_reads_or_removes_feedback_of_another(server: RunningServer) -> None:
    session_id = await asked(server, "dev:ann", "one")
    path = f"/sessions/{session_id}/messages/1/feedback"
    async with rest(server, "dev:ann") as client:
        await client.put(path, json={"rating": "down", "comment": "mine"})
    async with rest(server, "dev:bob") as client:
        for refused in (
            await client.put(path, json={"rating": "up"}),
            await client.delete(path),
            await client.get(f"/sessions/{session_id}/feedback"),
        ):
            assert error_of(refused)["code"] == "session_not_found"
    async with rest(server, "dev:ann") as client:
        assert [each["comment"] for each in await listed(client, session_id)] == ["mine"]


async def test_admins_read_what_users_say_page_by_page_and_it_is_recorded(server: RunningServer) -> None:
    for number, name in enumerate(("ann", "bob", "ann")):
        session_id = await asked(server, f"dev:{name}", "hello")
        async with rest(server, f"dev:{name}") as client:
            body = {"rating": "down" if number else "up", "comment": f"{number}"}
            await client.put(f"/sessions/{session_id}/messages/1/feedback", json=body)

    async def said(client: httpx.AsyncClient, **query: Any) -> tuple[list[str], str | None]:
        page = (await client.get("/admin/feedback", params=query)).json()
        return [each["comment"] for each in page["feedback"]], page.get("next_cursor")

    async with rest(server) as admin:
        first, cursor = await said(admin, limit=2)
        assert (first, await said(admin, limit=2, cursor=cursor)) == (["2", "1"], (["0"], None))
        assert await said(admin, rating="down", user_id="ann") == (["2"], None)
        assert await said(admin, agent_id="echo", rating="up") == (["0"], None)
        assert await said(admin, agent_id="assistant") == ([], None)
        [newest] = (await admin.get("/admin/feedback?limit=1")).json()["feedback"]
        assert newest.items() >= {"user_id": "ann", "agent_id": "echo", "rank": 1, "session_id": session_id}.items()
        reads = (await admin.get("/admin/reads?subject=ann")).json()["reads"]
        assert [read["path"] for read in reads] == ["GET /agentic/v1/admin/feedback?rating=down&user_id=ann"]
