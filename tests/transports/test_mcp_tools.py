"""MCP tools through the whole server: what people see of them, whose token they carry, and how they end."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from services.mcp_echo import EchoServer, echo_over_stdio, echo_server
from services.mcp_echo_server import fingerprint
from services.mcp_everything import everything_program
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text
from support.mcp_agents import MODULE
from support.processes import is_there
from support.recorded_agents import eventually
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server

LATER = 4_102_444_800
"""A time at which tokens may end."""

AGENTS = [
    {"id": "remote", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "remote"}]}},
    {"id": "local", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "local"}]}},
    {"id": "hasty", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "hasty"}]}},
    {
        "id": "refresher",
        "class_path": f"{MODULE}:Refresher",
        "tuning": {"mcp_servers": [{"id": "remote", "tools": ["whoami"]}]},
    },
    {
        "id": "demanding",
        "class_path": f"{MODULE}:ToolUser",
        "tuning": {"mcp_servers": [{"id": "local", "require_tools": ["translate"]}]},
    },
    {"id": "lonely", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": [{"id": "absent"}]}},
]


@pytest.fixture(scope="module")
def echo() -> Iterator[EchoServer]:
    with echo_server() as server:
        yield server


@pytest.fixture
async def server(tmp_path: Path, echo: EchoServer) -> AsyncIterator[RunningServer]:
    servers = {
        "remote": echo.settings(auth={"mode": "user_token"}),
        "local": echo_over_stdio(),
        "hasty": echo_over_stdio(tool_timeout_s=1),
        "absent": {"transport": "stdio", "command": "/no/such/program"},
    }
    settings = {"mcp_servers": servers, "agents": {"cache_size": 2}}
    own = {"tuning": {"fields": {"server": echo.settings()["url"]}}}
    agents = [
        *AGENTS,
        {"id": "own-tools", "class_path": f"{MODULE}:OwnTools", "require_approval": ["report"], **own},
        {"id": "own-session", "class_path": f"{MODULE}:OwnSession", **own},
    ]
    async with running_server(tmp_path, agents=agents, settings=settings) as server:
        yield server


async def results(client: ChatClient, message: str, agent_id: str, **fields: Any) -> list[dict[str, Any]]:
    """The results of the calls that `message` asks for, once the exchange has ended well."""
    events = await client.ask(message, agent_id=agent_id, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    return [part for message in events[-1]["messages"] for part in message["parts"] if part["type"] == "tool_result"]


async def result(client: ChatClient, message: str, agent_id: str, **fields: Any) -> str:
    """The text of the one result, of a tool that succeeded."""
    [part] = await results(client, message, agent_id, **fields)
    assert part["ok"] is True, part
    return str(part["content"])


async def test_a_tool_is_called_and_its_session_lasts_from_exchange_to_exchange(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        assert await result(client, "call count()", "remote") == "1"
        session_id = client.events[-1]["session_id"]
        assert await result(client, "call count()", "remote", session_id=session_id) == "2"
        assert await result(client, "call count()", "remote") == "1", "another session has a server session of its own"


async def test_users_at_the_same_time_never_see_each_others_token_or_state(server: RunningServer) -> None:
    async def use(user: str) -> list[str]:
        heard = []
        async with chat(server.address, token=f"dev:{user}") as client:
            session: dict[str, str] = {}
            for _ in range(4):
                asked = "call whoami() and then call count()"
                heard += [part["content"] for part in await results(client, asked, "remote", **session)]
                session = {"session_id": client.events[-1]["session_id"]}
        return heard

    users = ["ann", "bob"]
    for user, heard in zip(users, await asyncio.gather(*map(use, users)), strict=True):
        assert sorted(heard) == ["1", "2", "3", "4", *[fingerprint(f"dev:{user}")] * 4]


async def test_the_next_call_uses_a_token_that_was_refreshed_in_mid_run(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        tokens = {"access_token": "dev:ann", "refresh_token": f"dev:ann:{LATER}"}
        events = await client.ask("go", agent_id="refresher", **tokens)
        check_exchange(events)
        assert final_text(events) == f"{fingerprint('dev:ann')}, then {fingerprint(f'dev:ann:{LATER}')}"


async def test_the_next_exchange_uses_the_token_that_it_brings(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        assert await result(client, "call whoami()", "remote") == fingerprint("dev:ann")
        session_id = client.events[-1]["session_id"]
        token = f"dev:ann:{LATER}"
        told = await result(client, "call whoami()", "remote", access_token=token, session_id=session_id)
        assert told == fingerprint(token)


async def test_a_tool_that_fails_is_a_failed_result_and_the_agent_goes_on(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        [part] = await results(client, 'call fail(text="no such city")', "remote")
        assert part["ok"] is False
        assert "no such city" in part["content"]
        assert final_text([client.events[-1]])


async def test_a_crash_fails_the_call_and_the_tools_come_back(server: RunningServer) -> None:
    async with chat(server.address) as client:
        [part] = await results(client, "call crash()", "local")
        assert part["ok"] is False
        assert part["content"] == "The MCP server 'local' is not available; it is being restarted."
        session_id = client.events[-1]["session_id"]
        async with asyncio.timeout(PATIENCE_S):
            while True:
                [part] = await results(client, 'call echo(text="back")', "local", session_id=session_id)
                if part["ok"]:
                    break
        assert part["content"] == "back"


async def test_a_hanging_tool_is_cut_at_its_timeout(server: RunningServer) -> None:
    async with chat(server.address) as client:
        [part] = await results(client, "call hang()", "hasty")
        assert (part["ok"], part["content"]) == (False, "The tool did not end within 1 seconds.")


async def test_a_stop_cancels_the_tool_and_the_next_call_works(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client, chat(server.address, token="dev:ann") as other:
        await client.send({"message": "call hang()", "agent_id": "remote"})
        while (await client.until("stream"))["message"]["channel"] != "tool_call":
            pass
        await asyncio.sleep(0.2)
        # What answers a later call has heard of the earlier one.
        await result(other, 'call echo(text="x")', "remote")
        session_id = client.events[0]["session_id"]
        await client.send({"type": "stop", "session_id": session_id})
        final = await client.until("final")
        assert final["status"] == "stopped"
        [part] = [part for message in final["messages"] for part in message["parts"] if part["type"] == "tool_result"]
        assert part["ok"] is False
        cancelled = int(await result(client, "call cancellations()", "remote", session_id=session_id))
        assert cancelled >= 1
        assert await result(client, "call count()", "remote", session_id=session_id) == "1"


async def test_progress_becomes_activity(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        await results(client, "call report(steps=3)", "remote")
        calls = [event["message"] for event in client.events if event["type"] == "stream"]
        [call_id] = [part["call_id"] for message in calls for part in message["parts"] if part["type"] == "tool_call"]
        told = [event for event in client.events if event["type"] == "activity"]
    assert [(event["kind"], event["data"]) for event in told] == [
        (
            "progress",
            {"tool": "report", "call_id": call_id, "progress": step, "total": 3, "message": f"step {step}"},
        )
        for step in (1, 2, 3)
    ]


def beside_result(event: Event) -> list[dict[str, Any]]:
    """The parts of the one tool result in the final `event`, without the result itself."""
    [message] = [message for message in event["messages"] if message["channel"] == "tool_result"]
    assert [part["type"] for part in message["parts"]].index("tool_result") == 0
    return list(message["parts"][1:])


async def test_images_links_and_structured_results_become_parts_that_are_stored(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client, rest(server, "dev:ann") as http:
        assert "one pixel" in await result(client, "call picture()", "remote")
        image, link = beside_result(client.events[-1])
        assert image["type"] == "image_url" and image["url"].startswith("data:image/png;base64,iVBOR")
        assert link == {
            "type": "link",
            "kind": "related",
            "title": "pixels",
            "href": "https://example.org/pixels",
        }
        session_id = client.events[-1]["session_id"]
        assert await messages_of(http, session_id) == client.events[-1]["messages"]

        assert await result(client, "call structured()", "remote", session_id=session_id) == "mild"
        [code] = beside_result(client.events[-1])
        assert (code["type"], code["language"]) == ("code", "json")
        assert '"degrees": 21' in code["code"]


async def test_a_large_image_is_not_stored(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        assert "too large" in await result(client, "call large_picture(size=2000000)", "remote")
        assert beside_result(client.events[-1]) == []


@pytest.mark.parametrize(
    ("agent_id", "text"),
    [
        ("lonely", "The MCP server 'absent' can't be reached."),
        ("demanding", "The MCP server 'local' lacks the tools translate."),
    ],
)
async def test_an_agent_whose_servers_lack_something_says_what(server: RunningServer, agent_id: str, text: str) -> None:
    async with chat(server.address) as client:
        error, final = (await client.ask("hello", agent_id=agent_id))[-2:]
        assert (error["code"], error["content"], final["status"]) == ("agent_unavailable", text, "error")


async def test_a_deleted_session_and_an_evicted_agent_leave_no_process_behind(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        process_ids, session_ids = [], []
        for _ in range(2):
            process_ids.append(int(await result(client, "call process_id()", "local")))
            session_ids.append(client.events[-1]["session_id"])
        assert all(map(is_there, process_ids))

        await http.delete(f"/sessions/{session_ids[1]}")
        await eventually(lambda: not is_there(process_ids[1]))
        assert is_there(process_ids[0])

        # The cache holds two agents.
        for _ in range(2):
            await result(client, "what is 6*7?", "assistant")
        await eventually(lambda: not is_there(process_ids[0]))


async def test_no_process_outlives_the_server(tmp_path: Path) -> None:
    settings = {"mcp_servers": {"local": echo_over_stdio()}}
    async with running_server(tmp_path, agents=AGENTS[1:2], settings=settings) as server:
        async with chat(server.address) as client:
            process_id = int(await result(client, "call process_id()", "local"))
            assert is_there(process_id)
    assert not is_there(process_id)


async def test_a_client_can_not_define_a_server(server: RunningServer, tmp_path: Path) -> None:
    proof = tmp_path / "started"
    server_of_the_client = {"transport": "stdio", "command": "touch", "args": [str(proof)]}
    async with chat(server.address) as client:
        context = {"mcp_servers": {"own": server_of_the_client}, "tuning": {"mcp_servers": [{"id": "own"}]}}
        await result(client, 'call echo(text="x")', "local", runtime_context=context)
        await client.send({"message": "hello", "mcp_servers": {"own": server_of_the_client}})
        await client.ended()
    assert not proof.exists()


async def test_the_tools_that_entries_name_are_listed(server: RunningServer) -> None:
    async with rest(server) as http:
        agents = {agent["id"]: agent["tools"] for agent in (await http.get("/agents")).json()["agents"]}
    assert (agents["refresher"], agents["demanding"], agents["remote"]) == (["whoami"], ["translate"], [])


async def test_metrics_tell_which_servers_are_up_and_what_tools_took(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await result(client, 'call echo(text="x")', "local")
        await results(client, 'call fail(text="x")', "local", session_id=client.events[-1]["session_id"])
        await client.ask("hello", agent_id="lonely")
    async with rest(server) as http:
        metrics = (await http.get(f"{server.internal}/metrics")).text
    assert 'chat_dependency_up{dependency="mcp:local"} 1.0' in metrics
    assert 'chat_dependency_up{dependency="mcp:absent"} 0.0' in metrics
    assert 'chat_retries_total{dependency="mcp"}' in metrics
    assert 'gen_ai_execute_tool_duration_seconds_count{error_type="",gen_ai_agent_name="local",' in metrics
    assert 'chat_tool_failures_total{tool="fail"} 1.0' in metrics


@pytest.mark.parametrize("agent_id", ["own-tools", "own-session"])
async def test_an_authors_own_tools_of_the_adapters_work_in_any_agent(server: RunningServer, agent_id: str) -> None:
    async with chat(server.address, token="dev:ann") as client, rest(server, "dev:ann") as http:
        assert await result(client, "call whoami()", agent_id) == fingerprint("dev:ann")
        session = {"session_id": client.events[-1]["session_id"]}
        counted = [part["content"] for part in await results(client, "call count() and then call count()", agent_id)]
        # Both run at once.
        assert sorted(counted) == (["1", "1"] if agent_id == "own-tools" else ["1", "2"])
        assert "one pixel" in await result(client, "call picture()", agent_id, **session)
        assert beside_result(client.events[-1])[0]["url"].startswith("data:image/png;base64,iVBOR")
        [part] = await results(client, 'call fail(text="no such city")', agent_id, **session)
        assert part["ok"] is False and "no such city" in part["content"]
        stored = await messages_of(http, session["session_id"])
        assert stored[-len(client.events[-1]["messages"]) :] == client.events[-1]["messages"]


async def test_a_call_of_an_authors_own_tool_waits_for_approval_and_then_runs(server: RunningServer) -> None:
    async with chat(server.address, token="dev:ann") as client:
        await client.send({"type": "ask", "message": "call report(steps=1)", "agent_id": "own-tools"})
        waiting = await client.until("awaiting_human")
        [request] = waiting["payload"]["requests"]
        assert request["name"] == "report"
        decision = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
        names = {"session_id": waiting["session_id"], "exchange_id": waiting["exchange_id"]}
        await client.send({"type": "human_resume", **names, "payload": {"decisions": [decision], "answers": {}}})
        final = await client.until("final")
        [part] = [part for message in final["messages"] for part in message["parts"] if part["type"] == "tool_result"]
        assert (part["ok"], part["content"]) == (True, "reported")


# The first run fetches the server.
@pytest.mark.timeout(400)
@pytest.mark.mcp_everything
async def test_the_reference_server_serves_an_agent(tmp_path: Path) -> None:
    everything = {"transport": "stdio", "command": "node", "args": [everything_program(), "stdio"]}
    agent = {**AGENTS[1], "tuning": {"mcp_servers": [{"id": "everything"}]}}
    async with running_server(tmp_path, agents=[agent], settings={"mcp_servers": {"everything": everything}}) as server:
        async with chat(server.address) as client:
            asked = 'call the tool get-sum with {"a": 2, "b": 3} and then call the tool get-tiny-image with {}'
            total, image = await results(client, asked, "local")
            assert total["content"] == "The sum of 2 and 3 is 5."
            assert "image/png" in image["content"]
            parts = [part["type"] for message in client.events[-1]["messages"] for part in message["parts"]]
            assert "image_url" in parts
