"""What an author sees of a graph and of their run, and the run again from one of its steps, on a real server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import PATIENCE_S, ChatClient, chat
from support.described_server import described_server
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server
from support.shipped_agents import BESIDE_THE_ASSISTANT, RECITING
from support.test_agents import ENTRIES as PLAIN
from support.traced_agents import ENTRIES

Steps = list[dict[str, Any]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    agents = [*ENTRIES, PLAIN[0], *BESIDE_THE_ASSISTANT, RECITING]
    async with running_server(tmp_path, agents=agents) as server:
        yield server


@pytest.fixture
async def stored(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    """One for each kind of store: a run again is stored."""
    async with running_server(tmp_path, agents=ENTRIES, settings={**FAST, "store": {"url": store_url}}) as server:
        yield server


async def asked(client: ChatClient, message: str, agent_id: str) -> tuple[str, str]:
    """The ids of the session and of the exchange."""
    first = (await client.ask(message, agent_id=agent_id))[0]
    return first["session_id"], first["exchange_id"]


async def steps_of(calls: httpx.AsyncClient, exchange_id: str) -> Steps:
    found = await calls.get(f"/exchanges/{exchange_id}/steps")
    assert found.status_code == 200, found.text
    steps: Steps = found.json()["steps"]
    return steps


async def rerun(calls: httpx.AsyncClient, exchange_id: str, graph_step: int) -> tuple[dict[str, Any], list[str]]:
    """The new exchange once it has ended, and the texts of its session."""
    begun = await calls.post(f"/exchanges/{exchange_id}/rerun", json={"graph_step": graph_step})
    assert begun.status_code == 201, begun.text
    async with asyncio.timeout(PATIENCE_S):
        while (exchange := (await calls.get(f"/exchanges/{begun.json()['exchange_id']}")).json())[
            "status"
        ] == "running":
            await asyncio.sleep(0.02)
    messages = (await calls.get(f"/sessions/{begun.json()['session_id']}/messages")).json()["messages"]
    return exchange, [part["text"] for each in messages for part in each["parts"] if part["type"] == "text"]


def step(steps: Steps, name: str, kind: str = "node", place: int = 0) -> dict[str, Any]:
    return [one for one in steps if (one["kind"], one["name"]) == (kind, name)][place]


async def test_a_graph_of_one_node_has_one_step_with_what_it_got_and_gave(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        _, exchange_id = await asked(client, "hello", "echo")
        [only] = await steps_of(calls, exchange_id)
    assert (only["kind"], only["name"], only["path"], only["state"]) == ("node", "answer", ["answer"], "ok")
    assert only["input"]["messages"][-1] == {"type": "human", "content": "hello"}
    assert only["output"] == {"messages": [{"type": "ai", "content": "echo: hello"}]}
    assert only["ms"] >= 0 and only["agent_id"] == "echo" and only["rerunnable"]


async def test_calls_of_models_and_tools_are_within_their_nodes(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        _, exchange_id = await asked(client, "weigh the cat", "tools")
        steps = await steps_of(calls, exchange_id)
        graphs = (await calls.get("/agents/tools/graph")).json()["graphs"]
    assert [one["name"] for one in steps if one["kind"] == "node"] == ["model", "tools", "model"]
    first, second = (one for one in steps if one["kind"] == "model")
    assert [one["content"] for one in first["input"]] == ["You weigh things.", "weigh the cat"]
    assert first["output"]["tool_calls"][0]["args"] == {"thing": "cat"}
    assert (first["tokens"], second["tokens"]["output"]) == ({"input": 10, "output": 3, "cached": 0}, 5)
    tool = step(steps, "weigh", "tool")
    assert (tool["input"], tool["output"]["content"]) == ({"thing": "cat"}, "The cat weighs 7 kg.")
    assert tool["parent"] == step(steps, "tools")["id"] and first["parent"] == step(steps, "model")["id"]
    [graph] = graphs
    assert {node["id"] for node in graph["nodes"]} == {"__start__", "model", "tools", "__end__"}
    assert "graph TD" in graph["mermaid"] and any(edge["conditional"] for edge in graph["edges"])


async def test_a_run_goes_again_from_a_step_in_a_branch(stored: RunningServer) -> None:
    async with chat(stored.address) as client, rest(stored) as calls:
        session_id, exchange_id = await asked(client, "weigh the cat", "tools")
        steps = await steps_of(calls, exchange_id)
        last = step(steps, "model", place=1)
        exchange, texts = await rerun(calls, exchange_id, last["graph_step"])
        again = await steps_of(calls, exchange["id"])
        before = (await calls.get(f"/sessions/{session_id}/messages")).json()["messages"]
        from_the_tool, _ = await rerun(calls, exchange_id, step(steps, "tools")["graph_step"])
        ran_tool = await steps_of(calls, from_the_tool["id"])
    assert (exchange["status"], texts) == ("ok", ["weigh the cat", "It weighs 7 kg."])
    assert [one["name"] for one in again if one["kind"] == "node"] == ["model"]
    assert again[0]["input"] == last["input"], "it starts from the state that the step had"
    assert len(before) > 2, "the session has lost nothing"
    assert [one["name"] for one in ran_tool if one["kind"] == "node"] == ["tools", "model"]


async def test_a_workflow_goes_again_from_its_only_step(tmp_path: Path) -> None:
    workflow = {"id": "workflow", "class_path": "tests.graphs.workflows:message"}
    async with (
        running_server(tmp_path, agents=[workflow]) as server,
        chat(server.address) as client,
        rest(server) as calls,
    ):
        _, exchange_id = await asked(client, "hello", "workflow")
        only = (await steps_of(calls, exchange_id))[0]
        exchange, texts = await rerun(calls, exchange_id, only["graph_step"])
    assert only["rerunnable"]
    assert (exchange["status"], texts[0]) == ("ok", "hello")


async def test_subgraphs_and_parallel_nodes_are_told_apart(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        _, exchange_id = await asked(client, "go", "nested")
        steps = await steps_of(calls, exchange_id)
        [graph] = (await calls.get("/agents/nested/graph")).json()["graphs"]
        inner, left, right = step(steps, "note"), step(steps, "left"), step(steps, "right")
        exchange, texts = await rerun(calls, exchange_id, left["graph_step"])
        again = await steps_of(calls, exchange["id"])
        whole, _ = await rerun(calls, exchange_id, step(steps, "research")["graph_step"])
        with_inner = await steps_of(calls, whole["id"])
    assert inner["path"] == ["research", "note"] and not inner["rerunnable"]
    assert inner["parent"] == step(steps, "research")["id"]
    assert left["graph_step"] == right["graph_step"]
    assert {"plan", "research:look", "research:note", "left"} <= {node["id"] for node in graph["nodes"]}
    assert texts == ["go", "Facts: left noted planned planned right seen"]
    assert {one["name"] for one in again} == {"left", "right", "answer"}
    assert {"look", "note"} <= {one["name"] for one in with_inner}


async def test_a_graph_with_too_many_edges_is_refused(server: RunningServer) -> None:
    async with rest(server) as calls:
        refused = await calls.get("/agents/branching/graph")
    error = refused.json()["error"]
    assert error["code"] == "limit_reached"
    assert error["content"] == "The graph has 3661 edges; at most 3000 are drawn."


async def test_the_crew_of_a_leader_is_drawn_and_its_steps_are_its_own(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        graphs = (await calls.get("/agents/reciting/graph")).json()["graphs"]
        _, exchange_id = await asked(client, "hello", "reciting")
        found = (await calls.get(f"/exchanges/{exchange_id}/steps")).json()
        _, asked_expert = await asked(client, "Search the documents for close codes", "team")
        steps = await steps_of(calls, asked_expert)
    assert [one["agent_id"] for one in graphs] == ["reciting", "sentinel", "documentation"]
    assert found["agent_id"] == "reciting" and all(one["agent_id"] == "reciting" for one in found["steps"])
    expert = [one for one in steps if one["agent_id"] == "documentation"]
    around = {one["id"]: one for one in steps}[expert[0]["parent"]]
    assert (around["kind"], around["name"], around["agent_id"]) == ("tool", "ask_documentation", "team")
    assert expert[0]["kind"] == "node" and not expert[0]["rerunnable"]
    leaders = found["prompts"][0]
    assert leaders["agent_id"] == "reciting"
    assert leaders["sections"][0]["source"] == "agent:reciting" and leaders["sections"][0]["text"]


async def test_a_step_that_waits_for_a_person_goes_on_in_the_same_trace(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        await client.send({"type": "ask", "message": "go", "agent_id": "which"})
        event = await client.until("awaiting_human")
        exchange_id, [request] = event["exchange_id"], event["payload"]["requests"]
        waiting = await steps_of(calls, exchange_id)
        busy = await calls.post(f"/exchanges/{exchange_id}/rerun", json={"graph_step": 1})
        payload = {"decisions": [], "answers": {request["interrupt_id"]: "a"}}
        names = {"session_id": event["session_id"], "exchange_id": exchange_id}
        await client.send({"type": "human_resume", **names, "payload": payload})
        await client.until("final")
        steps = await steps_of(calls, exchange_id)
        again, _ = await rerun(calls, exchange_id, step(steps, "ask")["graph_step"])
    assert (step(waiting, "ask")["state"], busy.json()["error"]["code"]) == ("waiting", "session_busy")
    assert [(one["name"], one["state"]) for one in steps] == [("prepare", "ok"), ("ask", "waiting"), ("ask", "ok")]
    assert again["status"] == "awaiting_human", "the person is asked again"


async def test_a_failed_step_tells_its_error(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        _, exchange_id = await asked(client, "go", "failing")
        [failed] = await steps_of(calls, exchange_id)
    assert (failed["state"], failed["error"]) == ("failed", "ValueError: no such thing")


async def test_a_huge_state_is_shortened_and_can_not_be_run_again(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as calls:
        _, exchange_id = await asked(client, "go", "huge")
        response = await calls.get(f"/exchanges/{exchange_id}/steps")
        grow, answer = response.json()["steps"]
        refused = await calls.post(f"/exchanges/{exchange_id}/rerun", json={"graph_step": answer["graph_step"]})
        sessions = (await calls.get("/sessions")).json()["sessions"]
    assert len(response.content) < 200_000, "ten million characters are in the state"
    assert "left out" in grow["output"]["huge"][0] and grow["rerunnable"] and not answer["rerunnable"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "checkpoint_missing")
    assert len(sessions) == 1, "nothing was forked"


async def test_nobody_else_sees_a_run_and_what_is_deleted_is_gone(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        session_id, exchange_id = await asked(client, "hello", "echo")
    async with rest(server, "dev:bob") as calls:
        foreign = [
            await calls.get(f"/exchanges/{exchange_id}/steps"),
            await calls.post(f"/exchanges/{exchange_id}/rerun", json={"graph_step": 1}),
        ]
    async with rest(server, "dev:alice") as calls:
        await calls.delete(f"/sessions/{session_id}")
        foreign.append(await calls.get(f"/exchanges/{exchange_id}/steps"))
    assert [one.json()["error"]["code"] for one in foreign] == ["exchange_not_found"] * 3


async def test_a_run_of_another_process_is_not_found(tmp_path: Path) -> None:
    for each in ("first", "second"):
        (tmp_path / each).mkdir()
    async with running_server(tmp_path / "first", agents=ENTRIES) as first:
        async with chat(first.address) as client:
            _, exchange_id = await asked(client, "go", "nested")
        data = first.data
    data.rename(tmp_path / "second" / "data")
    async with running_server(tmp_path / "second", agents=ENTRIES) as second, rest(second) as calls:
        found = await calls.get(f"/exchanges/{exchange_id}/steps")
    assert (found.status_code, found.json()["error"]["code"]) == (404, "not_found")
    assert "in memory" in found.json()["error"]["content"]


async def test_in_production_only_admins_look_into_their_runs(tmp_path: Path) -> None:
    async with described_server(tmp_path) as served:
        for roles, allowed in (((), False), (("admin",), True)):
            async with httpx.AsyncClient(
                base_url=served.address + "/agentic/v1", headers=served.headers("ann", *roles), verify=False
            ) as calls:
                asked = await calls.post("/sessions", json={"agent_id": "echo"})
                headers = {**served.headers("ann", *roles)}
                session_id = asked.json()["id"]
                async with calls.stream(
                    "POST", f"/sessions/{session_id}/messages", json={"content": "hi"}, headers=headers
                ) as answer:
                    await answer.aread()
                [exchange] = (await calls.get(f"/sessions/{session_id}/exchanges")).json()["exchanges"]
                steps = await calls.get(f"/exchanges/{exchange['id']}/steps")
                graph = await calls.get("/agents/echo/graph")
                again = await calls.post(f"/exchanges/{exchange['id']}/rerun", json={"graph_step": 1})
                features = (await calls.get("/info")).json()["features"]
            expected = (200, 200, 201) if allowed else (403, 403, 403)
            assert (steps.status_code, graph.status_code, again.status_code) == expected
            assert ("playground" in features) is allowed
