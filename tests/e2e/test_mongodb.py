"""A server on MongoDB: a conversation from its first ask to its deletion, and what an outage of the database shows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from services.mongo_java import MongoJava
from services.mongodb import fresh_database
from support.chat_client import chat, check_exchange, final_text, is_refusal
from support.log_lines import reasons
from support.rest_client import error_of, messages_of, plain_http, rest
from support.running_server import RunningServer, running_server
from support.server_process import command, serving
from support.tcp_line import TcpLine, tcp_line
from support.test_agents import ENTRIES

ROUNDS = 3
# Less than a driver waits by itself for a server that is away.
PATIENCE_S = 20
SLOW = {"default": {"model": "offline", "options": {"words_per_second": 4}}}


@asynccontextmanager
async def server_on(url: str, directory: Path) -> AsyncIterator[RunningServer]:
    async with running_server(directory, agents=ENTRIES, settings={"store": {"url": url}, "models": SLOW}) as server:
        yield server
        assert not list(server.data.iterdir()), "nothing is kept on the disk"


@pytest.fixture
async def line(mongo_java: MongoJava) -> AsyncIterator[TcpLine]:
    async with tcp_line() as line:
        line.target = mongo_java.port
        yield line


async def ready(server: RunningServer) -> tuple[int, str]:
    async with plain_http() as client:
        response = await client.get(f"{server.internal}/health/ready", timeout=10)
    return response.status_code, response.json()["status"]


async def metrics(server: RunningServer) -> str:
    # Soon, also where the database is away.
    async with plain_http(timeout=5) as client:
        return (await client.get(f"{server.internal}/metrics")).text


async def test_a_conversation_is_kept_and_deleted(mongodb_url: str, tmp_path: Path) -> None:
    async with server_on(mongodb_url, tmp_path) as server, chat(server.address) as client, rest(server) as http:
        events = await client.ask("first", agent_id="echo", client_exchange_id="c1")
        check_exchange(events)
        session_id = events[0]["session_id"]
        again = await client.ask("second", session_id=session_id)
        assert final_text(again) == "echo: second"
        [repeated] = [e for e in await client.ask("first", agent_id="echo", client_exchange_id="c1") if "seq" in e][-1:]
        assert repeated["type"] == "final" and repeated["exchange_id"] == events[0]["exchange_id"]

        stored = await messages_of(http, session_id)
        assert stored == events[-1]["messages"] + again[-1]["messages"]
        listed = (await http.get("/sessions", params={"q": "SECOND"})).json()["sessions"]
        assert [session["id"] for session in listed] == [session_id]
        renamed = (await http.patch(f"/sessions/{session_id}", json={"title": "Echoes"})).json()
        assert renamed["title"] == "Echoes" and renamed["next_rank"] == 4

        assert (await http.delete(f"/sessions/{session_id}")).status_code == 204
        assert (await http.get(f"/sessions/{session_id}/messages")).status_code == 404
        assert (await http.get("/sessions")).json()["sessions"] == []
        told = await metrics(server)
        assert 'chat_dependency_up{dependency="store"} 1.0' in told
        assert 'chat_store_operation_seconds_count{kind="write",operation="begin_exchange",outcome="ok"} 2.0' in told


@pytest.mark.mongodb
@pytest.mark.timeout(300)
async def test_an_outage_is_told_and_ends_by_itself(mongo_java: MongoJava, line: TcpLine, tmp_path: Path) -> None:
    async with AsyncExitStack() as opened:
        database = await opened.enter_async_context(fresh_database(f"mongodb://127.0.0.1:{mongo_java.port}/"))
        server = await opened.enter_async_context(
            server_on(database.replace(str(mongo_java.port), str(line.port)), tmp_path)
        )
        client, other = [await opened.enter_async_context(chat(server.address)) for _ in range(2)]
        http = await opened.enter_async_context(rest(server))
        session_id = (await client.ask("before", agent_id="echo"))[0]["session_id"]
        await other.send({"type": "ask", "message": "count down slowly from 12", "agent_id": "assistant"})
        await other.until("delta")
        await line.hold()

        for _ in range(ROUNDS):
            async with asyncio.timeout(PATIENCE_S):
                refused, response, probed = await asyncio.gather(
                    client.ask("during", session_id=session_id), http.post("/sessions", json={}), ready(server)
                )
            assert is_refusal(refused[-1]) and refused[-1]["retryable"]
            assert refused[-1]["code"] == error_of(response)["code"] == "store_unavailable"
            assert probed == (503, "store_unavailable")
        assert 'chat_dependency_up{dependency="store"} 0.0' in await metrics(server)

        line.release()
        check_exchange(await client.ask("after", session_id=session_id))
        async with asyncio.timeout(PATIENCE_S):
            while await ready(server) != (200, "ok"):
                await asyncio.sleep(0.05)
        texts = [message["parts"][0]["text"] for message in await messages_of(http, session_id)]
        assert texts == ["before", "echo: before", "after", "echo: after"]
        # What ran when the database went ends as if nothing had been, once its end is stored.
        running = await other.ended()
        assert running["status"] == "ok"
        assert running["messages"] == await messages_of(http, running["session_id"])


async def test_without_its_database_the_server_does_not_start(tmp_path: Path) -> None:
    url = "mongodb://ann:s3cret@127.0.0.1:1/chat"
    async with command("serve", "--port", 0, "--store", url, cwd=tmp_path) as server:
        assert await server.ended() == 1
        refused = "no server answers there ([Errno 111] Connection refused)"
        assert reasons(server.stderr) == [f"mongodb://127.0.0.1:1/chat: {refused}"]
        assert "s3cret" not in server.stderr
    assert not list(tmp_path.iterdir())


async def test_what_a_killed_server_was_running_is_interrupted(mongodb_url: str, tmp_path: Path) -> None:
    async with serving("--store", mongodb_url, cwd=tmp_path) as server, chat(server.address) as client:
        await client.send({"type": "ask", "message": "count down slowly from 50"})
        started = await client.until("started")
        await client.until("delta")
        server.process.kill()
    async with serving("--store", mongodb_url, cwd=tmp_path) as server, chat(server.address) as client:
        session_id = started["session"]["id"]
        async with plain_http(base_url=server.address) as http, asyncio.timeout(60):
            # Another server might run it: not before its lease is over is it known to be nobody's.
            while "active_exchange_id" in (await http.get(f"/agentic/v1/sessions/{session_id}")).json():
                await asyncio.sleep(0.2)
            messages = (await http.get(f"/agentic/v1/sessions/{session_id}/messages")).json()["messages"]
        assert messages[0]["role"] == "user"
        assert messages[-1]["channel"] == "error"
        assert [message["rank"] for message in messages] == list(range(len(messages)))
        check_exchange(await client.ask("and now?", session_id=session_id))
        assert await server.stop() == 0
