"""A graph that blocks its thread blocks nobody else, and a stop reaches it too."""

import asyncio

from graphs import blocking
from graphs.talk import told
from support.chat_client import ChatClient, chat, check_exchange, final_text
from support.recorded_agents import eventually
from support.running_server import RunningServer

# The countdown alone would take twenty seconds.
PATIENCE_S = 10


async def goes_on(client: ChatClient) -> None:
    """Whole exchanges fit in."""
    for _ in range(2):
        await client.send({"type": "ping"})
        await client.until("pong")
        assert final_text(await client.ask("echo hello", agent_id="odd-names")) == "hello"


async def test_others_go_on_while_a_graph_blocks(server: RunningServer) -> None:
    async with chat(server.address) as blocked, chat(server.address) as other:
        with blocking.in_tool.held():
            with blocking.in_node.held():
                await blocked.send({"message": 'call sleep(word="x")', "agent_id": "blocking"})
                await eventually(blocking.in_node.reached.is_set)
                await goes_on(other)
            await eventually(blocking.in_tool.reached.is_set)
            await goes_on(other)
        assert (await blocked.until("final"))["status"] == "ok"


async def test_its_tools_and_tokens_stream_like_any_others(server: RunningServer) -> None:
    async with chat(server.address) as client:
        with blocking.after_first_word.held():
            await client.send({"message": 'call sleep(word="x")', "agent_id": "blocking"})
            await client.until("delta")
        await client.until("final")
    events = [event for event in client.events if "seq" in event]
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    assert told(events) == [
        ("tool_call", "sleep"),
        ("tool_result", "slept x"),
        ("final", "The tool `sleep` answered:\n\nslept x"),
    ]


async def test_a_stop_also_ends_the_model_in_its_thread(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "count down slowly from 100", "agent_id": "blocking"})
        delta = await client.until("delta")
        await client.send({"type": "stop", "session_id": delta["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
    async with asyncio.timeout(PATIENCE_S):
        while blocking.speaking:
            await asyncio.sleep(0.05)
