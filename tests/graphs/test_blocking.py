"""A graph that blocks its thread blocks nobody else, and a stop reaches it too."""

import asyncio

from graphs import blocking
from graphs.talk import ask, told
from support.chat_client import chat, final_text
from support.running_server import RunningServer

PATIENCE_S = 5


async def test_others_go_on_while_a_graph_blocks(server: RunningServer) -> None:
    rounds = 0
    async with chat(server.address) as blocked, chat(server.address) as other:
        await blocked.send({"message": 'call sleep(word="x")', "agent_id": "blocking"})
        final = asyncio.create_task(blocked.until("final"))
        while not final.done():
            await other.send({"type": "ping"})
            await other.until("pong")
            assert final_text(await other.ask("echo hello", agent_id="odd-names")) == "hello"
            rounds += 1
        assert (await final)["status"] == "ok"
    assert rounds > 3, "whole exchanges fit in while the graph blocks"


async def test_its_tools_and_tokens_stream_like_any_others(server: RunningServer) -> None:
    events = await ask(server.address, 'call sleep(word="x")', agent_id="blocking")
    assert told(events) == [
        ("tool_call", "sleep"),
        ("tool_result", "slept x"),
        ("final", "The tool `sleep` answered:\n\nslept x"),
    ]
    assert len([event for event in events if event["type"] == "delta"]) > 1


async def test_a_stop_also_ends_the_model_in_its_thread(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "count down slowly from 100", "agent_id": "blocking"})
        delta = await client.until("delta")
        await client.send({"type": "stop", "session_id": delta["session_id"]})
        assert (await client.until("final"))["status"] == "stopped"
    # The countdown alone would take twenty seconds.
    async with asyncio.timeout(PATIENCE_S):
        while blocking.speaking:
            await asyncio.sleep(0.05)
