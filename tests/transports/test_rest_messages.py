"""`POST /sessions/{id}/messages`: an ask, answered by the events of its exchange as SSE."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from support.chat_client import PATIENCE_S, Event, chat, check_exchange, final_text
from support.rest_client import error_of, messages_of, rest, sse_events
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


async def opened(http: httpx.AsyncClient, **body: Any) -> str:
    return str((await http.post("/sessions", json=body)).json()["id"])


async def asked(http: httpx.AsyncClient, session_id: str, content: str, **fields: Any) -> list[Event]:
    """All events of an ask by SSE."""
    path = f"/sessions/{session_id}/messages"
    async with http.stream("POST", path, json={"content": content, **fields}) as response, asyncio.timeout(PATIENCE_S):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        return [event async for event in sse_events(response)]


async def test_an_ask_streams_the_events_that_a_socket_gets_too(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        session_id = await opened(http)
        await client.send({"type": "follow", "session_id": session_id})
        await client.until("idle")
        events = await asked(http, session_id, "What time is it in Tokyo, and what is 12*34?", client_exchange_id="x1")
        check_exchange(events)
        assert events[0]["client_exchange_id"] == "x1"
        await client.until("final")
        seen = [event for event in client.events if "seq" in event and event["type"] != "delta"]
        assert seen == [event for event in events if event["type"] != "delta"]
        assert await messages_of(http, session_id) == events[-1]["messages"]
        events = await asked(http, session_id, "what did I say first?")
        assert "What time is it in Tokyo" in final_text(events)


async def test_a_client_that_leaves_leaves_the_exchange_running(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = await opened(http)
        path = f"/sessions/{session_id}/messages"
        async with http.stream("POST", path, json={"content": "wait 0.5 seconds"}) as response:
            started = await anext(sse_events(response))
        async with asyncio.timeout(PATIENCE_S):
            while (record := (await http.get(f"/exchanges/{started['exchange_id']}")).json())["status"] == "running":
                await asyncio.sleep(0.05)
        assert record["status"] == "ok"
        assert len(await messages_of(http, session_id)) == 4


async def test_a_repeated_ask_starts_nothing(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        session_id = await opened(http, agent_id="echo")
        events = await asked(http, session_id, "hello", client_exchange_id="x1")
        assert await asked(http, session_id, "hello", client_exchange_id="x1") == events
        at_once = await asyncio.gather(
            *(asked(http, session_id, "at once", client_exchange_id="x2") for _ in range(20))
        )
        assert {final["exchange_id"] for *_, final in at_once} == {at_once[0][-1]["exchange_id"]}
        over_socket = await client.ask("hello", session_id=session_id, client_exchange_id="x1")
        assert over_socket == events
        assert len(await messages_of(http, session_id)) == 4


async def test_a_repeated_ask_after_a_restart_gives_the_final(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, rest(server) as http:
        session_id = await opened(http, agent_id="echo")
        events = await asked(http, session_id, "hello", client_exchange_id="x1")
    async with running_server(tmp_path, agents=ENTRIES) as server, rest(server) as http:
        [final] = await asked(http, session_id, "hello", client_exchange_id="x1")
        assert final == events[-1] | {"session": final["session"]}


async def test_an_ask_is_ended_by_a_cancel(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = await opened(http)
        running = asyncio.create_task(asked(http, session_id, "hang after 5 tokens"))
        async with asyncio.timeout(PATIENCE_S):
            while not (await http.post(f"/sessions/{session_id}/cancel")).json()["cancelled"]:
                await asyncio.sleep(0.02)
        events = await running
        check_exchange(events)
        assert events[-1]["status"] == "stopped"


async def test_an_exchange_that_fails_is_a_stream_that_says_so(server: RunningServer) -> None:
    async with rest(server) as http:
        session_id = await opened(http, agent_id="raising")
        events = await asked(http, session_id, "hello")
        check_exchange(events)
        error = events[-1]["error"]
        assert error["code"] == "internal"
        assert "secret" not in str(events).replace(str(error["detail"]), "")


async def test_an_ask_that_is_refused_has_a_status_and_no_stream(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        session_id = await opened(http)
        path = f"/sessions/{session_id}/messages"
        bodies: list[tuple[Any, int, str, str]] = [
            ({}, 400, "bad_frame", "content:"),
            ({"content": ""}, 400, "bad_frame", "content:"),
            ({"content": 5}, 400, "bad_frame", "content:"),
            ({"content": "x", "client_exchange_id": ""}, 400, "bad_frame", "client_exchange_id:"),
            ({"content": "x", "mode": "query"}, 400, "bad_frame", "mode: unknown field"),
            ({"content": "x" * 262_145}, 413, "message_too_large", "message:"),
            ({"content": "x" * 2_200_000}, 413, "message_too_large", "body:"),
        ]
        for body, status, code, names in bodies:
            response = await http.post(path, json=body)
            error = error_of(response)
            assert (response.status_code, error["code"]) == (status, code)
            assert error["content"].startswith(names)
        await client.send({"message": "hang after 5 tokens", "session_id": session_id})
        await client.until("started")
        response = await http.post(path, json={"content": "hello"})
        error = error_of(response)
        assert (response.status_code, error["code"], error["retryable"]) == (409, "session_busy", True)
        assert len(await messages_of(http, session_id)) == 1


async def test_an_ask_is_the_tokens_users(server: RunningServer) -> None:
    async with rest(server, "dev:alice") as alice, rest(server, "dev:bob") as bob:
        session_id = await opened(alice, agent_id="echo")
        assert error_of(await bob.post(f"/sessions/{session_id}/messages", json={"content": "x"}))["code"] == (
            "session_not_found"
        )
        events = await asked(alice, session_id, "hello")
        assert events[-1]["session"]["user_id"] == "alice"
