"""Stop ends what runs within a second, whatever the tool does, keeps what was written, and the session goes on."""

import asyncio
import random
import time
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
import yaml
from services.mcp_echo import echo_server
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text, is_answer
from support.fault_agents import MCP_ENTRY, words, write_catalog
from support.figures import figure
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.stored_session import StoredExchange, stored_session

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOGETHER, TOGETHER_S = 200, (-0.001, 0.003)
BY = ["socket", "rest"]
NEXT = "words 5 0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """One for all, with an agent whose tools are those of an MCP server."""
    directory = tmp_path_factory.mktemp("stops")
    write_catalog(directory, MCP_ENTRY)
    with echo_server("streamable_http", "--open") as echo:
        (directory / "config").mkdir()
        (directory / "config" / "settings.yaml").write_text(yaml.safe_dump({"mcp_servers": {"echo": echo.settings()}}))
        async with serving(cwd=directory) as server:
            yield server


async def stopped(server: ServerProcess, script: str, by: str, *until: str, agent_id: str = "scripted") -> None:
    """Stop an exchange once an event or a message of this kind is there, long before it would end by itself.

    It must be stored as stopped, and the session's next ask must be answered.
    """
    async with chat(server.address) as client, rest(server) as http:
        await client.send({"message": script, "agent_id": agent_id})
        session_id = (await reached(client, *until))["session_id"]
        began = time.monotonic()
        final = await stop(client, http, session_id, by)
        took_s = time.monotonic() - began
        assert final["status"] == "stopped"
        check_exchange([event for event in client.events if event["type"] != "session"])
        check_answer([event for event in client.events if event["type"] == "delta"], final)
        events = await client.ask(NEXT, session_id=session_id, agent_id="scripted")
        assert final_text(events) == words(5)
        exchanges = await stored_session(http, session_id)
    assert [exchange.status for exchange in exchanges] == ["stopped", "ok"]
    assert exchanges[0].messages == final["messages"]
    check_calls_have_failed(exchanges[0])
    steps = script.split(" | ")
    figure(f"`{steps[len(steps) // 2]}` by {by}: {took_s * 1000:.0f} ms")


async def reached(client: ChatClient, *until: str) -> Event:
    while True:
        event = await client.receive()
        if event["type"] in until or event.get("message", {}).get("channel") in until:
            return event


async def stop(client: ChatClient, http: httpx.AsyncClient, session_id: str, by: str) -> Event:
    """The final, once the stop has been answered."""
    if by == "socket":
        await client.send({"type": "stop", "session_id": session_id})
        return await client.until("final")
    response = await http.post(f"/sessions/{session_id}/cancel", json={})
    assert response.json() == {"cancelled": True}
    return await client.until("final")


def check_answer(deltas: list[Event], final: Event) -> None:
    """Text that was being written is the final, to the last word that was shown."""
    answers = [message for message in final["messages"] if is_answer(message)]
    if final["messages"][-1]["channel"] == "tool_result":
        assert not answers
        return
    shown = "".join(event["text"] for event in deltas if event["block"] == deltas[-1]["block"])
    [answer] = answers
    assert answer["parts"] == [{"type": "text", "text": shown}] and shown
    assert answer["metadata"]["finish_reason"] == "cancelled"


def check_calls_have_failed(exchange: StoredExchange) -> None:
    results = [message["parts"][0] for message in exchange.messages if message["channel"] == "tool_result"]
    assert all(result["ok"] is False for result in results[-1:])


@pytest.mark.parametrize("by", BY)
async def test_a_text_is_stopped_and_kept(server: ServerProcess, by: str) -> None:
    await stopped(server, "words 5000 50", by, "delta")


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("tool", ["pause", "block", "ignore"])
async def test_a_tool_is_stopped_that_ends_nicely_or_blocks_a_thread_or_ignores_it(
    server: ServerProcess, tool: str, by: str
) -> None:
    await stopped(server, f"words 10 0 | {tool} 100 | words 5 0", by, "tool_call")


async def test_a_stop_that_comes_together_with_the_ask_is_answered(server: ServerProcess) -> None:
    """It stops the exchange, or comes before it and is told that nothing runs."""
    took, moments, early = [], random.Random(6), 0
    async with chat(server.address) as asking, rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        for _ in range(TOGETHER):
            await asking.send({"message": "words 500 50", "session_id": session_id})
            await asyncio.sleep(moments.uniform(*TOGETHER_S))
            began = time.monotonic()
            stopped = (await http.post(f"/sessions/{session_id}/cancel", json={})).json()["cancelled"]
            took.append(time.monotonic() - began)
            if not stopped:
                early += 1
                await asking.until("started")
                assert (await http.post(f"/sessions/{session_id}/cancel", json={})).json()["cancelled"]
            assert (await asking.until("final"))["status"] == "stopped"
        assert {exchange.status for exchange in await stored_session(http, session_id)} == {"stopped"}
    figure(f"{TOGETHER} stops sent with the ask, {early} came before it: answered within {max(took):.2f} s")


@pytest.mark.parametrize("by", BY)
async def test_the_request_of_an_mcp_tool_is_cancelled(server: ServerProcess, by: str) -> None:
    async with chat(server.address) as client:
        before = await cancellations(client)
        await stopped(server, "words 10 0 | hang | words 5 0", by, "tool_call", agent_id="remote")
        async with asyncio.timeout(PATIENCE_S):
            while await cancellations(client) != before + 1:
                await asyncio.sleep(0.05)


async def cancellations(client: ChatClient) -> int:
    """How many calls were cancelled, as the MCP server has seen it."""
    final = (await client.ask("cancellations | words 1 0", agent_id="remote"))[-1]
    [result] = [message["parts"][0] for message in final["messages"] if message["channel"] == "tool_result"]
    return int(result["content"])
