"""Sessions over the calls of the session stream: with the paths, the bodies and the answers of its document."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from support.chat_client import chat
from support.hostile_modules import MADE, Acting, entry
from support.rest_client import messages_of, metric_at, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.tool_sessions import answer_in, conversation, history, opened, sending, sent, tool_client

from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, Fence, Store
from agentic_backend.stores.records import MessageDraft
from tests.stores.samples import an_exchange, question

POLICIES = {"assignments": {"essay": {"limits": {"max_messages": 1}}, "closed": {"access": {"roles": ["teacher"]}}}}


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    modules, policies = tmp_path / "modules.yaml", tmp_path / "policies.yaml"
    modules.write_text(yaml.safe_dump({"modules": [entry()]}))
    policies.write_text(yaml.safe_dump(POLICIES))
    MADE.clear()
    settings = {
        "modules": {"file": str(modules)},
        "policies": {"file": str(policies)},
        "store": {"url": store_url},
    }
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        yield server


async def test_a_session_is_opened_and_read(server: RunningServer) -> None:
    async with tool_client(server) as http:
        response = await http.post("/sessions", json={"toolId": "echo"})
        assert response.status_code == 201
        created = response.json()
        assert set(created) == {"id", "toolId", "state", "startedAt"}
        assert (created["toolId"], created["state"]) == ("echo", "active")
        assert datetime.fromisoformat(created["startedAt"]).tzinfo is not None
        found = await http.get(f"/sessions/{created['id']}")
        assert (found.status_code, found.json()) == (200, {**created, "messageCount": 0})
        await sent(http, created["id"], "hello")
        assert (await http.get(f"/sessions/{created['id']}")).json()["messageCount"] == 2


async def test_the_first_active_session_of_a_tool_is_the_one_that_was_used_last(server: RunningServer) -> None:
    async with tool_client(server) as http:
        older, newer, done = [await opened(http, "echo") for _ in range(3)]
        other = await opened(http, "asking")
        await http.post(f"/sessions/{done}/complete")
        await sent(http, older, "hello")
        active = {"toolId": "echo", "state": "active"}
        page = (await http.get("/sessions", params={**active, "limit": 1})).json()
        assert [session["id"] for session in page["sessions"]] == [older]
        rest_of_it = (await http.get("/sessions", params={**active, "cursor": page["nextCursor"]})).json()
        assert [session["id"] for session in rest_of_it["sessions"]] == [newer]
        assert "nextCursor" not in rest_of_it
        everything = (await http.get("/sessions")).json()["sessions"]
        assert {session["id"] for session in everything} == {older, newer, done, other}
        assert {session["state"] for session in everything} == {"active", "completed"}


async def test_an_assignment_decides_what_applies_and_both_ids_are_shown(server: RunningServer) -> None:
    async with tool_client(server) as http:
        body = {"toolId": "echo", "assignmentId": "essay", "submissionId": "submission-7"}
        created = (await http.post("/sessions", json=body)).json()
        assert (created["assignmentId"], created["submissionId"]) == ("essay", "submission-7")
        [listed] = (await http.get("/sessions")).json()["sessions"]
        found = (await http.get(f"/sessions/{created['id']}")).json()
        assert listed == found and found.items() >= created.items()
        await sent(http, created["id"], "hello")
        refused = await http.post(f"/sessions/{created['id']}/messages", json={"content": "again"})
        assert (refused.status_code, refused.json()["category"]) == (409, "conflict")
        assert (await http.get(f"/sessions/{created['id']}")).json()["state"] == "completed"


async def test_a_submission_completes_the_sessions_of_its_assignment(server: RunningServer) -> None:
    async with tool_client(server) as http, tool_client(server, "dev:eve") as others:
        of_it, without = (
            await opened(http, assignmentId="essay", submissionId="s1"),
            await opened(http, assignmentId="essay"),
        )
        waiting = await opened(http, "asking", assignmentId="essay", submissionId="s1")
        await sent(http, waiting, "hello")
        second = await opened(http, assignmentId="essay", submissionId="s2")
        outside, foreign = await opened(http), await opened(others, assignmentId="essay", submissionId="s1")
        answer = await http.post("/submissions", json={"assignmentId": "essay", "submissionId": "s1"})
        assert answer.status_code == 200
        assert {one["id"] for one in answer.json()["sessions"]} == {of_it, without, waiting}
        assert all(one["state"] == "completed" and one["endedAt"] for one in answer.json()["sessions"])
        for client, session_id, state in (
            (http, waiting, "completed"),
            (http, second, "active"),
            (http, outside, "active"),
            (others, foreign, "active"),
        ):
            assert (await client.get(f"/sessions/{session_id}")).json()["state"] == state
        refused = await http.post(f"/sessions/{waiting}/messages", json={"content": "more"})
        assert (refused.status_code, refused.json()["code"]) == (409, "session_completed")
        [last] = (await http.post("/submissions", json={"assignmentId": "essay"})).json()["sessions"]
        assert last["id"] == second
        assert (await http.post("/submissions", json={"assignmentId": "essay"})).json() == {"sessions": []}
        assert await metric_at(server.internal, 'chat_sessions_ended_total{reason="submitted"}') == 4


@pytest.mark.parametrize("assignment_id", ["closed", "unknown"])
async def test_an_assignment_that_is_not_for_the_user_is_forbidden(server: RunningServer, assignment_id: str) -> None:
    async with tool_client(server, "dev:alice") as http:
        refused = await http.post("/sessions", json={"toolId": "echo", "assignmentId": assignment_id})
        assert (refused.status_code, refused.json()["category"]) == (403, "authorization")
        assert (await http.get("/sessions")).json() == {"sessions": []}


async def test_a_completed_session_takes_no_more_messages(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, "echo")
        completed = await http.post(f"/sessions/{session_id}/complete")
        assert completed.json() == {"id": session_id, "state": "completed", "endedAt": completed.json()["endedAt"]}
        assert (await http.post(f"/sessions/{session_id}/complete", json={})).json() == completed.json()
        assert (await http.get(f"/sessions/{session_id}")).json()["endedAt"] == completed.json()["endedAt"]
        refused = await http.post(f"/sessions/{session_id}/messages", json={"content": "hello"})
        assert (refused.status_code, refused.json()["code"]) == (409, "session_completed")


async def test_the_history_is_by_seq_and_has_what_tools_did(server: RunningServer) -> None:
    async with tool_client(server) as http, rest(server) as other:
        session_id = await opened(http)
        await sent(http, session_id, "what is 6*7?")
        messages = await history(http, session_id)
        assert [message["seq"] for message in messages] == list(range(len(messages)))
        assert len({message["id"] for message in messages}) == len(messages)
        asked, called, returned, answer = messages
        assert set(asked) == {"id", "role", "content", "seq", "createdAt", "channel", "exchangeId"}
        assert (asked["role"], asked["content"], asked["channel"]) == ("user", "what is 6*7?", "final")
        [call] = called["toolCalls"]
        assert call["name"] == "calculate" and returned["toolResult"]["id"] == call["id"]
        assert returned["role"] == "tool" and returned["content"] == returned["toolResult"]["result"]
        assert answer["finishReason"] == "stop" and "42" in answer["content"]
        stored = await messages_of(other, session_id)
        assert [one["timestamp"] for one in stored] == [one["createdAt"] for one in messages]
        assert await history(http, session_id, afterSeq=0, limit=2) == messages[1:3]
        assert await history(http, session_id, afterSeq=3) == []


async def test_a_long_history_comes_whole(server: RunningServer, store: Store) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http, "echo")
        session = await store.get_session(session_id)
        assert session is not None
        exchange = an_exchange(session, owner="another")
        written = await store.begin_exchange(exchange, question())
        fence = Fence(session_id, exchange.id, written.session.next_rank, exchange.owner)
        answers = [
            MessageDraft(role=Role.ASSISTANT, channel=Channel.FINAL, parts=[TextPart(text=str(number))])
            for number in range(219)
        ]
        await store.append(fence, answers, ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=9))
        messages = await history(http, session_id)
        assert [message["seq"] for message in messages] == list(range(220))
        assert [message["seq"] for message in await history(http, session_id, limit=205)] == list(range(205))


async def test_a_session_of_another_door_is_the_same_session(server: RunningServer) -> None:
    async with tool_client(server) as http, chat(server.address) as client:
        session_id = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
        assert answer_in(await sent(http, session_id, "again")) == "echo: again"
        assert [text for _, text in await conversation(http, session_id)] == [
            "hello",
            "echo: hello",
            "again",
            "echo: again",
        ]


async def test_a_foreign_session_is_as_if_it_did_not_exist(server: RunningServer) -> None:
    async with tool_client(server, "dev:alice") as alice, tool_client(server, "dev:bob") as bob:
        session_id = await opened(alice, "echo")
        await sent(alice, session_id, "hello")
        for path, body in (
            ("", None),
            ("/messages", None),
            ("/messages", {"content": "hello"}),
            ("/complete", {}),
            ("/cancel", {}),
        ):
            refusals = [
                (await bob.get(f"/sessions/{known}{path}"))
                if body is None
                else (await bob.post(f"/sessions/{known}{path}", json=body))
                for known in (session_id, "unknown")
            ]
            assert [refusal.status_code for refusal in refusals] == [404, 404]
            first, second = [refusal.json() | {"requestId": ""} for refusal in refusals]
            assert first == second and first["code"] == "session_not_found"
        assert (await bob.get("/sessions")).json() == {"sessions": []}
        assert (await alice.get(f"/sessions/{session_id}")).json()["state"] == "active"


async def test_an_admin_reads_what_modules_have_replaced(server: RunningServer) -> None:
    MADE[0].settings = Acting.Settings(before="redact")
    async with tool_client(server, "dev:alice") as alice, tool_client(server) as admin:
        session_id = await opened(alice, "echo")
        await sent(alice, session_id, "my secret")
        await sent(alice, session_id, "another secret")
        assert (await conversation(alice, session_id))[0] == ("user", "my ***")
        page = (await admin.get(f"/admin/sessions/{session_id}/audit", params={"limit": 1})).json()
        [record] = page["auditRecords"]
        assert (record["originalContent"], record["redactionModule"]) == ("another secret", "acting")
        assert (record["redactionReason"], record["patternsMatched"], record["action"]) == (
            "the word",
            ["w"],
            "modified",
        )
        assert "messageId" not in record
        asked, _ = [one for one in await history(alice, session_id) if one["exchangeId"] == record["exchangeId"]]
        assert asked["content"] == "another ***"
        next_page = {"cursor": page["nextCursor"]}
        [older] = (await admin.get(f"/admin/sessions/{session_id}/audit", params=next_page)).json()["auditRecords"]
        assert older["originalContent"] == "my secret"


async def test_the_audit_of_an_answer_names_the_message_that_is_stored_instead(server: RunningServer) -> None:
    MADE[0].settings = Acting.Settings(after="redact")
    async with tool_client(server) as http:
        session_id = await opened(http, "echo")
        await sent(http, session_id, "my secret")
        [record] = (await http.get(f"/admin/sessions/{session_id}/audit")).json()["auditRecords"]
        assert record["originalContent"] == "echo: my secret"
        messages = {message["id"]: message for message in await history(http, session_id)}
        assert messages[record["messageId"]]["content"] == "echo: my ***"


async def test_the_audit_is_for_admins_and_each_read_of_it_is_recorded(server: RunningServer) -> None:
    async with tool_client(server, "dev:alice") as alice, tool_client(server) as admin, rest(server) as other:
        session_id = await opened(alice, "echo")
        path = f"/admin/sessions/{session_id}/audit"
        refused = await alice.get(path)
        assert (refused.status_code, refused.json()["category"]) == (403, "authorization")
        assert (await admin.get(path)).json() == {"auditRecords": []}
        missing = await admin.get("/admin/sessions/unknown/audit")
        assert (missing.status_code, missing.json()["category"]) == (404, "not_found")
        reads = (await other.get("/admin/reads", params={"subject": session_id})).json()["reads"]
        assert [read["path"] for read in reads] == [f"GET {path}"]


async def test_a_restart_changes_nothing(store_url: str, tmp_path: Path) -> None:
    settings = {"store": {"url": store_url}}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server, tool_client(server) as http:
        session_id = await opened(http, "echo", submissionId="submission-7")
        await sent(http, session_id, "hello")
        before = [(await http.get(f"/sessions/{session_id}")).json(), await history(http, session_id)]
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server, tool_client(server) as http:
        assert [(await http.get(f"/sessions/{session_id}")).json(), await history(http, session_id)] == before
        assert answer_in(await sent(http, session_id, "again")) == "echo: again"


async def busy(http: httpx.AsyncClient, session_id: str) -> Any:
    return (await http.post(f"/sessions/{session_id}/messages", json={"content": "hello"})).json()


async def test_while_a_message_is_answered_another_one_is_a_conflict(server: RunningServer) -> None:
    async with tool_client(server) as http:
        session_id = await opened(http)
        async with sending(http, session_id, "hang after 5 tokens") as events:
            await anext(events)
            refused = await busy(http, session_id)
            assert (refused["category"], refused["code"], refused["retryable"]) == ("conflict", "session_busy", True)
            assert (await http.post(f"/sessions/{session_id}/cancel")).json() == {"cancelled": True}
        assert (await http.post(f"/sessions/{session_id}/cancel")).json() == {"cancelled": False}
