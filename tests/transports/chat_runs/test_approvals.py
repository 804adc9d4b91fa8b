"""`POST /api/chat/tool-approval`: what waits for a person goes on, once, with what was decided."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import approval_agents
from support.chat_client import chat
from support.fault_agents import notes
from support.run_client import APPROVAL, CHAT, Event, only, post, run, run_client, run_error, text_of_run
from support.running_server import RunningServer, running_server

from tests.transports.chat_runs.conftest import AGENTS

SEND = "send mail | words 3 0"
APPROVAL_REQUESTED = "tool_approval_requested"


async def waiting(client: httpx.AsyncClient, script: str = SEND, **fields: Any) -> Event:
    """The `tool_approval_requested` of a run that waits, which its stream ends with."""
    events = await run(client, script, agentId="approved", **fields)
    [requested] = only(events, "tool_approval_requested")
    assert events[-1]["status"] == "awaiting_approval"
    assert (events[-2]["type"], events[-2]["status"]) == ("agent_progress", "awaiting_approval")
    return requested


def decision(requested: Event, action: str = "approve", **fields: Any) -> dict[str, Any]:
    return {"runId": requested["runId"], "toolCallId": requested["toolCallId"], "action": action, **fields}


async def test_an_approved_call_runs_and_the_run_goes_on(ann: httpx.AsyncClient, tmp_path: Path) -> None:
    requested = await waiting(ann, runId="mail")
    assert (requested["name"], requested["args"], requested["runId"]) == ("send", {"value": "mail"}, "mail")
    assert notes(tmp_path) == []
    answer = await post(ann, APPROVAL, **decision(requested))
    assert set(answer) == {"ok", "events"}
    [end] = only(answer["events"], "tool_end")
    told = {"name": "send", "result": "sent mail", "status": "succeeded", "toolCallId": requested["toolCallId"]}
    assert end == {"type": "tool_end"} | told
    assert text_of_run(answer["events"]) == "1 2 3"
    assert answer["events"][-1]["status"] == "succeeded" and answer["events"][-1]["runId"] == "mail"
    assert [value for value, _ in notes(tmp_path)] == ["mail"]


async def test_a_decision_is_kept_with_the_arguments_that_were_shown(ann: httpx.AsyncClient) -> None:
    requested = await waiting(ann)
    await post(ann, APPROVAL, **decision(requested, "reject", message="Not today."))
    # Without a client's name, a run has that of its exchange.
    [kept] = (await ann.get(f"/agentic/v1/exchanges/{requested['runId']}")).json()["decisions"]
    assert (kept["action"], kept["by"], kept["message"]) == ("reject", "ann", "Not today.")
    assert (kept["call_id"], kept["args"]) == (requested["toolCallId"], {"value": "mail"})


async def test_a_rejected_call_does_not_run(ann: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await post(ann, APPROVAL, **decision(await waiting(ann), "reject"))
    [end] = only(answer["events"], "tool_end")
    assert end["status"] == "failed" and answer["events"][-1]["status"] == "succeeded"
    [tool] = only(answer["events"], "agent_summary")[0]["trust"]["tools"]
    assert (tool["outcome"], tool["approval"]) == ("rejected", "rejected")
    assert notes(tmp_path) == []


async def test_the_next_pause_ends_the_list(ann: httpx.AsyncClient, tmp_path: Path) -> None:
    first = await waiting(ann, "send one | send two | words 2 0", runId="both")
    answer = await post(ann, APPROVAL, **decision(first))
    [second] = only(answer["events"], "tool_approval_requested")
    assert second["args"] == {"value": "two"} and second["toolCallId"] != first["toolCallId"]
    assert answer["events"][-1]["status"] == "awaiting_approval"
    answer = await post(ann, APPROVAL, **decision(second))
    assert text_of_run(answer["events"]) == "1 2"
    assert [value for value, _ in notes(tmp_path)] == ["one", "two"]


async def test_a_decided_run_that_is_started_again_is_shown_to_its_end(ann: httpx.AsyncClient) -> None:
    await post(ann, APPROVAL, **decision(await waiting(ann, runId="mail")))
    again = await run(ann, SEND, agentId="approved", runId="mail")
    assert not only(again, "tool_approval_requested"), "nothing waits any more"
    assert text_of_run(again) == "1 2 3" and again[-1]["status"] == "succeeded"


async def test_a_call_is_decided_on_once(ann: httpx.AsyncClient, tmp_path: Path) -> None:
    requested = await waiting(ann)
    answers = await asyncio.gather(*(ann.post(APPROVAL, json=decision(requested)) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    refused = [answer for answer in answers if answer.status_code == 409]
    assert {run_error(answer)["code"] for answer in refused} == {"approval_not_found"}
    assert len(notes(tmp_path)) == 1


async def test_what_a_socket_has_decided_is_not_decided_again(
    server: RunningServer, ann: httpx.AsyncClient, tmp_path: Path
) -> None:
    requested = await waiting(ann)
    async with chat(server.address, token="dev:ann") as socket:
        session_id = (await ann.get(f"/agentic/v1/exchanges/{requested['runId']}")).json()["session_id"]
        await socket.send({"type": "follow", "session_id": session_id})
        [asked] = (await socket.until("awaiting_human"))["payload"]["requests"]
        decided = {"call_id": asked["call_id"], "args_sha256": asked["args_sha256"], "action": "approve"}
        payload = {"decisions": [decided]}
        names = {"session_id": session_id, "exchange_id": requested["runId"]}
        await socket.send({"type": "human_resume", **names, "payload": payload})
        await socket.until("final")
    response = await ann.post(APPROVAL, json=decision(requested, "reject"))
    assert (response.status_code, run_error(response)["code"]) == (409, "approval_not_found")
    assert len(notes(tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"toolCallId": "another"}, 409, "approval_not_found"),
        ({"runId": "another"}, 404, "exchange_not_found"),
        ({"action": "edit"}, 400, "bad_frame"),
        ({"action": None}, 400, "bad_frame"),
        ({"message": "Yes, but."}, 400, "bad_frame"),
        ({"args": {}}, 400, "bad_frame"),
        ({"toolCallId": "x" * 200}, 400, "bad_frame"),
    ],
)
async def test_a_refused_decision_changes_nothing(
    ann: httpx.AsyncClient, tmp_path: Path, change: dict[str, Any], status: int, code: str
) -> None:
    requested = await waiting(ann)
    response = await ann.post(APPROVAL, json=decision(requested) | change)
    assert (response.status_code, run_error(response)["code"]) == (status, code)
    assert notes(tmp_path) == []
    await post(ann, APPROVAL, **decision(requested))


async def test_a_refused_decision_names_the_field_of_its_body(ann: httpx.AsyncClient) -> None:
    response = await ann.post(APPROVAL, json=decision(await waiting(ann), message="Yes, but."))
    assert run_error(response)["message"] == "message: only goes with 'reject'"


async def test_nobody_decides_for_somebody_else(ann: httpx.AsyncClient, bob: httpx.AsyncClient) -> None:
    for named in ({}, {"runId": "mail"}):
        response = await bob.post(APPROVAL, json=decision(await waiting(ann, **named)))
        assert (response.status_code, run_error(response)["code"]) == (404, "exchange_not_found")


async def test_a_run_that_has_ended_waits_for_nothing(ann: httpx.AsyncClient) -> None:
    [*_, done] = await run(ann, "hello", agentId="echo")
    response = await ann.post(APPROVAL, json={"runId": done["runId"], "toolCallId": "c", "action": "approve"})
    assert (response.status_code, run_error(response)["code"]) == (409, "approval_not_found")


async def test_a_decision_that_comes_too_late_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"limits": {"human_timeout_s": timedelta(milliseconds=300).total_seconds()}}
    async with running_server(tmp_path, agents=AGENTS, settings=settings) as server, run_client(server.address) as http:
        requested = await waiting(http)
        await asyncio.sleep(0.4)
        response = await http.post(APPROVAL, json=decision(requested))
        assert (response.status_code, run_error(response)["code"]) == (409, "approval_not_found")
        assert notes(tmp_path) == []


async def test_the_run_goes_on_if_who_has_decided_is_gone(ann: httpx.AsyncClient, tmp_path: Path) -> None:
    requested = await waiting(ann, "send mail | pause 0.5 | words 3 0", runId="mail")
    with pytest.raises(httpx.ReadTimeout):
        await ann.post(APPROVAL, json=decision(requested), timeout=0.2)
    events = await run(ann, "whatever", runId="mail")
    assert text_of_run(events) == "1 2 3" and events[-1]["status"] == "succeeded"


async def test_what_waits_is_decided_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running_server(tmp_path, agents=AGENTS) as server, run_client(server.address) as http:
        requested = await waiting(http, runId="mail")
    async with running_server(tmp_path, agents=AGENTS) as server, run_client(server.address) as http:
        shown = await run(http, "whatever", runId="mail")
        assert only(shown, "tool_approval_requested") == [requested]
        answer = await post(http, APPROVAL, **decision(requested))
        assert [event["name"] for event in only(answer["events"], "tool_end")] == ["send"]
        assert text_of_run(answer["events"]) == "1 2 3"


async def test_who_may_not_ask_may_not_decide(server: RunningServer) -> None:
    async with run_client(server.address, "not-a-token") as http:
        for path, body in ((APPROVAL, {}), (CHAT, {"message": "hello"})):
            response = await http.post(path, json=body)
            assert (response.status_code, run_error(response)["code"]) == (401, "unauthenticated")


async def test_calls_that_wait_together_are_decided_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "notes"
    monkeypatch.setenv(approval_agents.NOTES_VARIABLE, str(ran))
    files = [("delete_file", {"path": path}) for path in ("a.txt", "b.txt")]
    async with running_server(tmp_path, agents=approval_agents.ENTRIES) as server, run_client(server.address) as http:
        first, second = only(await run(http, approval_agents.calls(*files), agentId="approving"), APPROVAL_REQUESTED)
        answer = await post(http, APPROVAL, **decision(first))
        assert only(answer["events"], APPROVAL_REQUESTED) == [second]
        assert answer["events"][-1]["status"] == "awaiting_approval" and approval_agents.runs(ran) == []
        answer = await post(http, APPROVAL, **decision(second, "reject"))
        statuses = [(end["toolCallId"], end["status"]) for end in only(answer["events"], "tool_end")]
        assert sorted(statuses, key=lambda end: end[1]) == [
            (second["toolCallId"], "failed"),
            (first["toolCallId"], "succeeded"),
        ]
        assert approval_agents.runs(ran) == files[:1]
