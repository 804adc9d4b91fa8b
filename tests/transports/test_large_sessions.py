"""Sessions that are larger than a page, over REST: pages are bounded by bytes, and everything is read all the same."""

import asyncio
import json

import httpx
import pytest
from support.chat_client import PATIENCE_S, chat
from support.large_sessions import MIB, fill
from support.rest_client import error_of, messages_of, rest
from support.running_server import RunningServer

LARGE_MIB = 3


async def a_large_session(server: RunningServer, *, mib: int = LARGE_MIB, exchanges: int = 1) -> str:
    database = server.data / "chat.sqlite3"
    [session_id] = await fill(database, "alice", sessions=1, mib_each=mib, exchanges_each=exchanges)
    return session_id


async def test_a_page_is_a_mib_and_a_client_reads_on(server: RunningServer) -> None:
    session_id = await a_large_session(server)
    async with rest(server, "dev:alice") as http:
        page = await http.get(f"/sessions/{session_id}/messages", params={"limit": 1000})
        assert 0.9 * MIB < len(page.content) < 1.1 * MIB
        messages = await messages_of(http, session_id)
        assert len(messages) == page.json()["next_rank"] == LARGE_MIB * 16 + 1


async def test_the_classic_history_has_it_all(server: RunningServer) -> None:
    session_id = await a_large_session(server, exchanges=3)
    async with rest(server, "dev:alice") as http:
        history = (await http.get(f"/chatbot/session/{session_id}/history")).json()
        assert history == await messages_of(http, session_id)
        empty = (await http.post("/chatbot/session", json={})).json()["id"]
        assert (await http.get(f"/chatbot/session/{empty}/history")).json() == []
        assert [session["id"] for session in (await http.get("/chatbot/sessions")).json()] == [empty, session_id]


async def test_a_history_that_breaks_off_is_seen_to(server: RunningServer) -> None:
    """The session goes while a client that reads slowly has only its beginning: what is on its way holds less."""
    session_id = await a_large_session(server, mib=24, exchanges=24)
    path = f"/chatbot/session/{session_id}/history"
    async with rest(server, "dev:alice") as http, asyncio.timeout(PATIENCE_S):
        with pytest.raises(httpx.RemoteProtocolError):
            async with http.stream("GET", path) as response:
                pieces = response.aiter_raw(chunk_size=1024)
                await anext(pieces)
                await http.delete(f"/sessions/{session_id}")
                async for _ in pieces:
                    pass
        assert error_of(await http.get(path))["code"] == "session_not_found"


async def test_a_final_from_the_store_has_the_question_and_the_last_messages(server: RunningServer) -> None:
    session_id = await a_large_session(server)
    async with rest(server, "dev:alice") as http, chat(server.address, token="dev:alice") as client:
        messages = await messages_of(http, session_id)
        await client.send({"type": "follow", "exchange_id": messages[0]["exchange_id"]})
        final = await client.until("final")
        assert len(json.dumps(final)) < 1.2 * MIB
        assert final["messages"][0] == messages[0]
        assert final["messages"][1:] == messages[1 - len(final["messages"]) :]
        assert final["session"]["next_rank"] == len(messages)


async def test_a_client_that_asks_for_many_large_finals_gets_them_all(server: RunningServer) -> None:
    session_id = await a_large_session(server)
    async with rest(server, "dev:alice") as http, chat(server.address, token="dev:alice") as client:
        [first] = (await http.get(f"/sessions/{session_id}/messages", params={"limit": 1})).json()["messages"]
        for _ in range(40):
            await client.send({"type": "follow", "exchange_id": first["exchange_id"]})
        for _ in range(40):
            await client.until("final")
