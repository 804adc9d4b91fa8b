"""What a graph keeps in its channels survives deploys, and people can reset it."""

from pathlib import Path
from typing import Any

import pytest
from graphs import state_graphs
from graphs.talk import ask
from support.chat_client import chat, final_text
from support.phrase_model import RECITE
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer, running_server

COUNTING = [{"id": "counting", "class_path": "graphs.state_graphs:named_like_a_channel"}]
SUMMARIZING = [
    {"id": name, "class_path": f"graphs.state_graphs:{name}"} for name in ("summarizing", "deep_summarizing", "limited")
]


async def counted(server: RunningServer, session_id: str | None) -> tuple[str, str]:
    events = await ask(server.address, "count", agent_id="counting", session_id=session_id)
    return final_text(events), events[0]["session_id"]


async def test_a_channel_with_the_name_of_a_node_keeps_its_value(tmp_path: Path) -> None:
    session_id, answers = None, []
    for _ in range(2):
        async with running_server(tmp_path, agents=COUNTING) as server:
            for _ in range(2):
                answer, session_id = await counted(server, session_id)
                answers.append(answer)
    assert answers == ["1 of 1", "2 of 3", "3 of 5", "4 of 7"]


@pytest.mark.parametrize(
    ("before", "after", "first", "then"),
    [
        ("as_list", "as_dict", "nothing, stays", "{'apple': 1}, stays"),
        ("as_dict", "as_list", "nothing, stays", "apple, stays"),
        ("as_basket", "as_full_basket", "nothing, stays", "pear 2, stays"),
        ("as_basket", "as_list", "nothing, stays", "apple, stays"),
        ("as_list", "as_wider_list", "apple, stays", "pear, stays"),
    ],
)
async def test_a_channel_whose_type_a_deploy_changes_begins_anew_if_its_value_does_not_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, before: str, after: str, first: str, then: str
) -> None:
    def serving(graph: str) -> Any:
        return running_server(tmp_path, agents=[{"id": "deployed", "class_path": f"graphs.state_graphs:{graph}"}])

    async with serving(before) as server:
        session_id = (await ask(server.address, "hello", agent_id="deployed"))[0]["session_id"]
    async with serving(after) as server:
        for expected in (first, then):
            assert final_text(await ask(server.address, "hello", session_id=session_id)) == expected
    warned = [(record.agent_id, record.channel) for record in caplog.records if "begins anew" in record.message]
    assert warned == ([("deployed", "own")] if first.startswith("nothing") else [])


@pytest.mark.parametrize("way", ["warm", "evicted", "restarted"])
async def test_after_a_reset_the_next_exchange_begins_with_an_empty_state(tmp_path: Path, way: str) -> None:
    settings = {"agents": {"cache_size": 1}} if way == "evicted" else {}
    async with running_server(tmp_path, agents=COUNTING, settings=settings) as server, rest(server) as http:
        session_id = (await counted(server, None))[1]
        assert (await counted(server, session_id))[0] == "2 of 3"
        assert (await http.delete(f"/sessions/{session_id}/state")).status_code == 204
        if way == "evicted":
            await counted(server, None)
        if way != "restarted":
            assert [(await counted(server, session_id))[0] for _ in range(2)] == ["1 of 1", "2 of 3"]
    async with running_server(tmp_path, agents=COUNTING) as server, rest(server) as http:
        expected = ["1 of 1", "2 of 3"] if way == "restarted" else ["3 of 5", "4 of 7"]
        assert [(await counted(server, session_id))[0] for _ in range(2)] == expected
        assert len(await messages_of(http, session_id)) == (8 if way == "restarted" else 12), "people keep it all"


async def test_a_reset_is_refused_while_something_waits(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, agents=COUNTING) as server,
        rest(server) as http,
        chat(server.address) as client,
    ):
        await client.send({"message": "ask me", "agent_id": "counting"})
        waiting = await client.until("awaiting_human")
        session_id, [request] = waiting["session_id"], waiting["payload"]["requests"]
        refused = await http.delete(f"/sessions/{session_id}/state")
        assert refused.status_code == 409 and error_of(refused)["code"] == "session_busy"
        answers = {"answers": {request["interrupt_id"]: "well"}}
        exchange_id = waiting["exchange_id"]
        await client.send(
            {"type": "human_resume", "session_id": session_id, "exchange_id": exchange_id, "payload": answers}
        )
        assert final_text([await client.until("final")]) == "1 of 1 well"
        assert (await counted(server, session_id))[0] == "2 of 3"
        missing = await http.delete("/sessions/nowhere/state")
        assert missing.status_code == 404 and error_of(missing)["code"] == "session_not_found"


async def test_a_reset_is_refused_while_something_runs(tmp_path: Path) -> None:
    agents = [{"id": "hanging", "class_path": "graphs.memory_graphs:hanging"}]
    async with (
        running_server(tmp_path, agents=agents) as server,
        rest(server) as http,
        chat(server.address) as client,
    ):
        await client.send({"message": "forget it", "agent_id": "hanging"})
        session_id = (await client.until("stream"))["session_id"]
        refused = await http.delete(f"/sessions/{session_id}/state")
        assert refused.status_code == 409 and error_of(refused)["code"] == "session_busy"
        await client.send({"type": "stop", "session_id": session_id})
        assert (await client.until("final"))["status"] == "stopped"
        assert (await http.delete(f"/sessions/{session_id}/state")).status_code == 204


async def test_on_mongodb_what_a_graph_left_is_there_again_until_it_is_reset(mongodb_url: str, tmp_path: Path) -> None:
    settings = {"store": {"url": mongodb_url}}
    async with running_server(tmp_path, agents=COUNTING, settings=settings) as server:
        session_id = (await counted(server, None))[1]
        assert (await counted(server, session_id))[0] == "2 of 3"
    async with running_server(tmp_path, agents=COUNTING, settings=settings) as server, rest(server) as http:
        assert (await counted(server, session_id))[0] == "3 of 5"
        assert (await http.delete(f"/sessions/{session_id}/state")).status_code == 204
        assert (await counted(server, session_id))[0] == "1 of 1"
    async with running_server(tmp_path, agents=COUNTING, settings=settings) as server:
        assert (await counted(server, session_id))[0] == "2 of 3"


@pytest.mark.parametrize("cache_size", [8, 1])
@pytest.mark.parametrize("agent_id", ["summarizing", "deep_summarizing"])
async def test_a_summary_is_made_once_and_shown_to_nobody(tmp_path: Path, agent_id: str, cache_size: int) -> None:
    state_graphs.summaries.clear()
    session_id: str | None = None
    shown: list[Any] = []
    settings = {"agents": {"cache_size": cache_size}}
    async with running_server(tmp_path, agents=SUMMARIZING, settings=settings) as server:
        for message in ("echo one", "echo two", "echo three", RECITE):
            events = await ask(server.address, message, session_id=session_id, agent_id=agent_id)
            session_id = events[0]["session_id"]
            shown += events if message != RECITE else []
            if cache_size == 1:
                await ask(server.address, "echo another", agent_id=agent_id)
    assert len(state_graphs.summaries) == 1
    assert "They greeted" in final_text(events) and "one" not in final_text(events)
    assert "greeted" not in str(shown)


async def test_what_middleware_counts_by_thread_it_counts_by_session(tmp_path: Path) -> None:
    answers, session_id = [], None
    for _ in range(3):
        async with running_server(tmp_path, agents=SUMMARIZING) as server:
            events = await ask(server.address, "echo hello", agent_id="limited", session_id=session_id)
            session_id = events[0]["session_id"]
            answers.append(final_text(events))
    assert answers[:2] == ["hello", "hello"] and "limit" in answers[2]
