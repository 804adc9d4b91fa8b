"""`POST /api/chat`: a run's events, its name, and what is refused."""

from typing import Any

import httpx
import pytest
from support.run_client import CHAT, only, run, run_client, run_error, run_events, text_of_run
from support.running_server import RunningServer


async def test_a_run_tells_its_progress_its_text_its_tools_and_its_end(ann: httpx.AsyncClient) -> None:
    events = await run(ann, "words 2 0 | note a | words 3 0", agentId="scripted")
    first, done = events[0], events[-1]
    assert first == {"type": "agent_progress", "runId": done["runId"], "status": "running", "partialOutput": ""}
    [start], [end] = only(events, "tool_start"), only(events, "tool_end")
    assert (start["name"], start["args"]) == ("note", {"value": "a"})
    told = {"name": "note", "result": "noted a", "status": "succeeded", "toolCallId": start["toolCallId"]}
    assert end == {"type": "tool_end"} | told
    progress = events[events.index(end) + 1]
    assert (progress["type"], progress["toolsInvoked"]) == ("agent_progress", ["note"])
    assert text_of_run(events) == "1 2 3"
    [summary] = only(events, "agent_summary")
    assert summary["trust"]["tools"][0]["name"] == "note"
    assert (done["status"], set(done)) == ("succeeded", {"type", "runId", "status", "conversationId"})


async def test_text_that_was_no_answer_is_replaced(ann: httpx.AsyncClient) -> None:
    deltas = only(await run(ann, "words 2 0 | note a | words 1 0", agentId="scripted"), "text_delta")
    assert deltas[0]["text"].startswith("1") and "replaces" not in deltas[0]
    assert {"type": "text_delta", "text": "", "replaces": True} in deltas


async def test_a_run_continues_its_conversation(ann: httpx.AsyncClient) -> None:
    [*_, first] = await run(ann, "hello", agentId="echo", runId="run-1")
    assert first["runId"] == "run-1"
    [*_, second] = events = await run(ann, "again", conversationId=first["conversationId"], run_id="run-2")
    assert (second["conversationId"], second["runId"]) == (first["conversationId"], "run-2")
    assert text_of_run(events) == "echo: again"
    rows = (await ann.get(f"/agentic/v1/sessions/{first['conversationId']}/messages")).json()["messages"]
    assert [row["role"] for row in rows] == ["user", "assistant"] * 2


async def test_of_messages_the_last_one_counts(ann: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "one"}, {"role": "assistant", "content": ""}]
    body = {"messages": [*messages, {"role": "user", "content": "two"}], "agentName": "echo", "correlationId": "c-7"}
    events = [event async for event in run_events(ann, body)]
    assert text_of_run(events) == "echo: two"
    assert {event["correlationId"] for event in only(events, "agent_progress")} == {"c-7"}


async def test_a_run_that_is_started_again_is_shown_from_its_beginning(ann: httpx.AsyncClient) -> None:
    script = "note a | words 3 0"
    first = await run(ann, script, agentId="scripted", runId="once")
    again = await run(ann, script, agentId="scripted", runId="once")
    for type_ in ("tool_start", "tool_end", "done"):
        assert only(again, type_) == only(first, type_)
    assert text_of_run(again) == text_of_run(first) == "1 2 3"
    rows = (await ann.get(f"/agentic/v1/sessions/{first[-1]['conversationId']}/messages")).json()["messages"]
    assert [row["role"] for row in rows].count("user") == 1


async def test_a_run_without_a_name_is_not_repeated_under_the_name_that_it_got(ann: httpx.AsyncClient) -> None:
    [*_, first] = await run(ann, "hello", agentId="echo")
    again = await run(ann, "hello", agentId="echo", runId=first["runId"])
    assert again[-1] == first and text_of_run(again) == "echo: hello"
    assert len((await ann.get("/agentic/v1/sessions")).json()["sessions"]) == 1


async def test_a_name_that_is_another_users_run_begins_ones_own(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    [*_, hers] = await run(ann, "hers", agentId="echo")
    [*_, his] = events = await run(bob, "his", agentId="echo", runId=hers["runId"])
    assert text_of_run(events) == "echo: his" and his["conversationId"] != hers["conversationId"]


async def test_the_same_name_of_another_user_is_another_run(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    [*_, hers] = await run(ann, "hers", agentId="echo", runId="once")
    [*_, his] = events = await run(bob, "his", agentId="echo", runId="once")
    assert text_of_run(events) == "echo: his" and his["conversationId"] != hers["conversationId"]


async def test_a_failing_run_has_an_error_and_then_its_end(ann: httpx.AsyncClient) -> None:
    events = await run(ann, "hello", agentId="raising")
    [error] = only(events, "error")
    assert error["error"] | {"requestId": "", "message": ""} == {
        "type": "runtime",
        "code": "internal",
        "message": "",
        "retryable": True,
        "requestId": "",
    }
    assert events[-2:] == [error, events[-1]] and events[-1]["status"] == "failed"
    assert "the secret" not in str(events)


async def test_a_question_of_a_graph_says_where_it_can_be_answered(ann: httpx.AsyncClient) -> None:
    events = await run(ann, "hello", agentId="asking")
    assert events[-1]["status"] == "awaiting_approval" and not only(events, "tool_approval_requested")
    asked = events[-2]["runState"]
    assert asked["questions"] == ["Which one?"]
    exchange = (await ann.get(f"/agentic/v1/exchanges/{asked['exchangeId']}")).json()
    assert exchange["status"] == "awaiting_human"


@pytest.mark.parametrize(
    ("body", "status", "code", "named"),
    [
        ({}, 400, "bad_frame", "message"),
        ({"message": ""}, 400, "bad_frame", "message"),
        ({"message": "a", "messages": [{"role": "user", "content": "b"}]}, 400, "bad_frame", "messages"),
        ({"messages": [{"role": "assistant", "content": "b"}]}, 400, "bad_frame", "messages"),
        ({"messages": [{"role": "robot", "content": "b"}]}, 400, "bad_frame", "messages.0.role"),
        ({"message": "a", "sessionId": "s"}, 400, "bad_frame", "sessionId"),
        ({"message": 1}, 400, "bad_frame", "message"),
        ({"message": "a", "runId": "x" * 200}, 400, "bad_frame", "runId"),
        ({"message": "a", "runtimeContext": {"apiKey": "x"}}, 400, "bad_frame", "runtimeContext: the key 'apiKey'"),
        ({"message": "a", "runtimeContext": {"a": "x" * 20_000}}, 400, "bad_frame", "runtimeContext: larger"),
        ({"message": "a", "runtimeContext": []}, 400, "bad_frame", "runtimeContext: "),
        ({"message": "a", "chatProfile": "none"}, 400, "bad_frame", "chatProfile: "),
        ({"message": "a", "chat_profile": "default"}, 400, "bad_frame", "chat_profile: "),
        ({"message": "a", "conversationId": "none"}, 404, "session_not_found", ""),
        ({"message": "a", "agentId": "none"}, 404, "agent_not_found", ""),
        ({"message": "a" * 300_000}, 413, "message_too_large", "message"),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_refused_run_says_why(
    shared_server: RunningServer, body: dict[str, Any], status: int, code: str, named: str
) -> None:
    async with run_client(shared_server.address, "dev:ann") as ann:
        response = await ann.post(CHAT, json=body)
    error = run_error(response)
    assert (response.status_code, error["type"], error["code"]) == (status, "runtime", code)
    assert named in error["message"]


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff\xfe", b'{"message": "a", "message": null}', b"null"])
async def test_rubbish_is_refused_in_the_same_form(ann: httpx.AsyncClient, data: bytes) -> None:
    response = await ann.post(CHAT, content=data)
    assert (response.status_code, run_error(response)["code"]) == (400, "bad_frame")


async def test_a_foreign_conversation_is_as_if_it_did_not_exist(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    [*_, done] = await run(ann, "hers", agentId="echo")
    response = await bob.post(CHAT, json={"message": "his", "conversationId": done["conversationId"]})
    none = await bob.post(CHAT, json={"message": "his", "conversationId": "none"})
    assert response.status_code == 404
    assert run_error(response) | {"requestId": ""} == run_error(none) | {"requestId": ""}
