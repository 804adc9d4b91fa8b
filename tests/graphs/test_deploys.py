"""An exchange whose graph is changed by a deploy goes on if it can, or says that it can't."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from graphs.deciding import answer, decide, on, only, waiting
from services.mcp_raw import raw_server
from support.approval_agents import calls
from support.chat_client import Event, chat, check_exchange
from support.further_cases import each_once
from support.rest_client import error_of, rest, sse_events
from support.running_server import running_server


def agents(graph: str) -> list[dict[str, Any]]:
    return [{"id": "agent", "class_path": f"graphs.deployed:{graph}"}]


async def left_waiting(directory: Path, graph: str, message: str = "go") -> Event:
    async with running_server(directory, agents=agents(graph)) as server, chat(server.address) as client:
        return await waiting(client, "agent", message)


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("old", "renamed", "ask"),
        ("old", "replaced", "ask"),
        ("old", "agent", "ask"),
        ("subgraph", "subgraph_renamed", "ask"),
        ("subgraph", "old", "sub"),
        ("sending", "sending_renamed", "ask"),
    ],
)
async def test_what_waits_in_a_node_that_is_gone_ends_as_checkpoint_missing(
    tmp_path: Path, before: str, after: str, gone: str
) -> None:
    event = await left_waiting(tmp_path, before)
    async with running_server(tmp_path, agents=agents(after)) as server, chat(server.address) as client:
        error = await answer(client, event, "left")
        assert (error["type"], error["code"], error["retryable"]) == ("error", "checkpoint_missing", False)
        assert f"no step '{gone}'" in error["content"]
        final = await client.until("final")
        assert (final["status"], final["error"]["code"]) == ("error", "checkpoint_missing")
        again = await client.ask("hello", session_id=event["session_id"], agent_id="assistant")
        assert again[-1]["status"] == "ok"


async def test_calls_that_wait_in_another_graph_end_as_checkpoint_missing(tmp_path: Path) -> None:
    event = await left_waiting(tmp_path, "agent", calls(("send", {"to": "ann"})))
    async with running_server(tmp_path, agents=agents("old")) as server, chat(server.address) as client:
        error = await decide(client, event, on(only(event), "approve"))
        assert error["code"] == "checkpoint_missing"
        final = await client.until("final")
        [result] = [one["parts"][0] for one in final["messages"] if one["channel"] == "tool_result"]
        assert result["ok"] is False


async def test_an_approved_call_runs_no_tool_of_another_class(tmp_path: Path) -> None:
    event = await left_waiting(tmp_path, "agent", calls(("send", {"to": "ann"})))
    async with running_server(tmp_path, agents=agents("another_send")) as server, chat(server.address) as client:
        error = await decide(client, event, on(only(event), "approve"))
        assert error["code"] == "checkpoint_missing"
        assert "paid" not in str((await client.until("final"))["messages"])


async def test_a_deploy_that_changes_other_nodes_lets_it_go_on(tmp_path: Path) -> None:
    event = await left_waiting(tmp_path, "old")
    async with running_server(tmp_path, agents=agents("same")) as server, chat(server.address) as client:
        final = await answer(client, event, "left")
    assert (final["type"], final["status"]) == ("final", "ok")
    assert final["messages"][-1]["parts"] == [{"type": "text", "text": "You said left."}]


def clerk(approved: list[str], *servers: str) -> list[dict[str, Any]]:
    return [{"id": "clerk", "require_approval": approved, "tuning": {"mcp_servers": [{"id": id} for id in servers]}}]


def dropping(**ends: str) -> dict[str, Any]:
    """MCP servers with a tool `drop` that changes nothing and tells whose it is."""
    tool = {"name": "drop"}
    return {
        "mcp_servers": {
            id: raw_server([tool], result={"content": [{"type": "text", "text": said}]}) for id, said in ends.items()
        }
    }


@pytest.mark.parametrize(
    ("after", "action"),
    each_once(
        [clerk(["dr*"], "other"), clerk(["x*"], "crm"), clerk([], "crm"), clerk(["dr*"], "other", "later")],
        ["approve", "reject", "edit"],
    ),
    ids=[
        f"{after}-{action}"
        for after in ("another tool", "not asked about", "nothing asked about", "renamed by a neighbour")
        for action in ("approve", "reject", "edit")
    ],
)
async def test_a_decision_is_about_the_tool_that_was_asked_about(
    tmp_path: Path, after: list[dict[str, Any]], action: str
) -> None:
    settings = dropping(crm="dropped by crm", other="dropped by other", later="dropped by later")
    async with running_server(tmp_path, agents=clerk(["dr*"], "crm"), settings=settings) as server:
        async with chat(server.address) as client:
            event = await waiting(client, "clerk", "call drop()")
    async with running_server(tmp_path, agents=after, settings=settings) as server, chat(server.address) as client:
        more = {"args": {}} if action == "edit" else {}
        came = await decide(client, event, on(only(event), action, **more))
        final = came if came["type"] == "final" else await client.until("final")
    results = [one["parts"][0] for one in final["messages"] if one["channel"] == "tool_result"]
    assert [result["ok"] for result in results] == [False]
    assert "dropped by" not in str(final["messages"])


async def test_an_interrupted_exchange_whose_node_is_gone_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    event = await left_waiting(tmp_path, "old")
    with sqlite3.connect(tmp_path / "data" / "chat.sqlite3") as db:
        row = ("interrupted", event["exchange_id"])
        db.execute("UPDATE exchanges SET status = ?, pending = NULL, ended_at = started_at WHERE id = ?", row)
        db.execute("UPDATE sessions SET active_exchange_id = NULL, active_owner = NULL")
    async with running_server(tmp_path, agents=agents("renamed")) as server, rest(server) as http:
        async with http.stream("POST", f"/exchanges/{event['exchange_id']}/resume", json={}) as response:
            events = [one async for one in sse_events(response)]
    check_exchange(events)
    assert events[0]["resumes"] == event["exchange_id"]
    assert (events[-1]["status"], events[-1]["error"]["code"]) == ("error", "checkpoint_missing")


async def test_what_waits_for_an_agent_that_is_gone_waits_on_and_can_be_stopped(tmp_path: Path) -> None:
    event = await left_waiting(tmp_path, "old")
    async with running_server(tmp_path) as server, chat(server.address) as client, rest(server) as http:
        refused = await answer(client, event, "left")
        assert (refused["code"], refused["refused"]) == ("agent_not_found", "human_resume")
        assert error_of(await http.post(f"/exchanges/{event['exchange_id']}/resume", json={})) is not None
    async with running_server(tmp_path, agents=agents("old")) as server, chat(server.address) as client:
        await client.send({"type": "follow", "session_id": event["session_id"]})
        assert (await client.until("awaiting_human"))["payload"] == event["payload"]
        assert (await answer(client, event, "left"))["status"] == "ok"
    event = await left_waiting(tmp_path, "old")
    async with running_server(tmp_path) as server, chat(server.address) as client:
        await client.send({"type": "stop", "session_id": event["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"


async def test_what_nobody_answers_in_time_is_ended_also_if_its_graph_is_gone(tmp_path: Path) -> None:
    settings = {"limits": {"human_timeout_s": 1.5}}
    async with (
        running_server(tmp_path, agents=agents("agent"), settings=settings) as server,
        chat(server.address) as one,
    ):
        event = await waiting(one, "agent", calls(("send", {"to": "ann"})))
    async with running_server(tmp_path, agents=agents("old")) as server, chat(server.address) as client:
        await client.send({"type": "follow", "session_id": event["session_id"]})
        final = await client.until("final")
        assert (final["status"], final["error"]["code"]) == ("error", "checkpoint_missing")
