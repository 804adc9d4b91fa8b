"""`client_exchange_id` makes an ask idempotent for its user: sent again, it starts nothing."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from support.chat_client import ChatClient, Event, chat, check_calls, check_exchange, final_text, is_refusal
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

ASK: dict[str, Any] = {"type": "ask", "message": "hello", "agent_id": "echo", "client_exchange_id": "x1"}
LONG: dict[str, Any] = {"type": "ask", "message": "hang after 20 tokens", "client_exchange_id": "x1"}


def of_one_exchange(events: list[Event]) -> list[Event]:
    return [event for event in events if "seq" in event]


async def sessions_of(server: RunningServer) -> list[dict[str, Any]]:
    async with rest(server) as http:
        sessions: list[dict[str, Any]] = (await http.get("/sessions")).json()["sessions"]
        return sessions


async def test_a_repeated_ask_on_the_same_socket_shows_the_running_exchange_once(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(3):
            await client.send(LONG)
        started = await client.until("started")
        await client.until("delta")
        await client.send(LONG)
        await client.send({"type": "stop", "session_id": started["session_id"]})
        await client.until("final")
        check_exchange(of_one_exchange(client.events))
        assert started["client_exchange_id"] == "x1"
        await client.named()
        await client.silent()
    assert len(await sessions_of(server)) == 1


async def test_a_repeated_ask_on_another_socket_follows_from_the_beginning(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as other:
        await one.send(LONG)
        started = await one.until("started")
        await one.until("delta")
        await other.send(LONG | {"message": "something else", "agent_id": "echo"})
        assert await other.until("started") == started
        await other.send({"type": "stop", "exchange_id": started["exchange_id"]})
        assert await other.until("final") == await one.until("final")
        check_exchange(of_one_exchange(other.events))


async def test_an_ask_that_is_repeated_after_its_end_gives_its_events_again(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        events = await client.ask(**ASK)
        check_exchange(events)
        for socket in (client, None):
            async with AsyncExitStack() as stack:
                repeating = socket or await stack.enter_async_context(chat(server.address))
                again = await repeating.ask(**ASK)
                assert again == events
        assert len(await messages_of(http, events[-1]["session_id"])) == 2
    assert len(await sessions_of(server)) == 1


async def test_twenty_asks_at_once_from_twenty_sockets_begin_one_exchange(server: RunningServer) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(chat(server.address)) for _ in range(20)]
        every = await asyncio.gather(*(client.ask(**ASK) for client in clients))
        for events in every:
            check_exchange(events)
        assert len({events[-1]["exchange_id"] for events in every}) == 1
    [session] = await sessions_of(server)
    assert (session["next_rank"], session["message_count"]) == (2, 2)


async def test_an_ask_that_is_repeated_after_a_restart_gives_its_final(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat(server.address) as client:
        events = await client.ask(**ASK)
    async with running_server(tmp_path, agents=ENTRIES) as server:
        async with chat(server.address) as client:
            [again] = await client.ask(**ASK)
            assert again == events[-1] | {"session": again["session"]}
            [refused] = await client.ask("hello", session_id=again["session_id"], agent_id="no-such-agent")
            assert refused["code"] == "agent_not_found"
            follow_up = await client.ask(**ASK | {"client_exchange_id": "x2", "session_id": again["session_id"]})
            check_exchange(follow_up)
            assert follow_up[-1]["messages"][0]["rank"] == 2
        assert len(await sessions_of(server)) == 1


async def test_an_exchange_that_a_restart_cut_ends_interrupted_and_its_ask_starts_nothing(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES) as server, chat(server.address) as client:
        await client.send(LONG)
        started = await client.until("started")
        await client.until("delta")
    async with running_server(tmp_path, agents=ENTRIES) as server, chat(server.address) as client:
        [final] = await client.ask(**LONG)
        assert (final["type"], final["status"]) == ("final", "interrupted")
        assert final["exchange_id"] == started["exchange_id"]
        assert final["seq"] > started["seq"]
        assert final["error"]["code"] == "interrupted" and final["error"]["retryable"]
        events = await client.ask("hello", agent_id="echo", session_id=final["session_id"])
        assert final_text(events) == "echo: hello"


async def test_a_name_is_one_users_own(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        hers = await alice.ask(**ASK)
        his = await bob.ask(**ASK | {"message": "I am Bob"})
        assert hers[-1]["exchange_id"] != his[-1]["exchange_id"]
        assert final_text(his) == "echo: I am Bob"
        assert final_text(await alice.ask(**ASK | {"message": "I am Bob"})) == "echo: hello"


async def test_a_refused_ask_does_not_take_its_name(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for wrong in ({"agent_id": "no-such-agent"}, {"session_id": "nothing"}, {"message": "x" * 300_000}):
            [refused] = await client.ask(**ASK | wrong)
            assert is_refusal(refused)
            assert (refused["refused"], refused["client_exchange_id"]) == ("ask", "x1")
        events = await client.ask(**ASK)
        check_exchange(events)


async def test_asks_without_a_name_are_each_their_own(server: RunningServer) -> None:
    async with chat(server.address) as client:
        exchanges = {(await client.ask("hello", agent_id="echo"))[-1]["exchange_id"] for _ in range(3)}
        assert len(exchanges) == 3
        events = await client.ask("hello", agent_id="echo", client_exchange_id=None)
        assert "client_exchange_id" not in events[0]


async def test_a_repeated_query_starts_nothing(server: RunningServer) -> None:
    query = {"mode": "query", **LONG}
    async with chat(server.address) as one, chat(server.address) as other:
        await one.send(query)
        started = await one.until("started")
        for client in (one, other):
            await client.send(query)
        assert await other.until("started") == started
        await one.send({"type": "stop", "exchange_id": started["exchange_id"]})
        final = await one.until("final")
        assert final == await other.until("final")
        again: ChatClient
        async with chat(server.address) as again:
            assert (await again.ask(**query))[-1] == final
    assert await sessions_of(server) == []


async def test_an_exchange_whose_process_died_ends_interrupted_and_keeps_what_was_stored(tmp_path: Path) -> None:
    dead, alive = tmp_path / "dead", tmp_path / "alive"
    dead.mkdir()
    alive.mkdir()
    async with running_server(dead, agents=ENTRIES) as server, chat(server.address) as client:
        await client.send(LONG | {"message": "wait 30 seconds, and then what is 2*3?"})
        while client.events[-1:] == [] or client.events[-1].get("message", {}).get("channel") != "tool_call":
            await client.receive()
        # What a process that dies now leaves behind.
        await asyncio.to_thread(shutil.copytree, server.data, alive / "data")
    async with running_server(alive, agents=ENTRIES) as server, chat(server.address) as client, rest(server) as http:
        [final] = await client.ask(**LONG)
        assert (final["status"], final["error"]["code"]) == ("interrupted", "interrupted")
        assert final["seq"] > 1_000, "far above whatever the dead process gave"
        check_calls(final["messages"])
        stored = [event["message"] for event in client.events if event["type"] == "stream"]
        assert final["messages"][: len(stored)] == stored
        assert await messages_of(http, final["session_id"]) == final["messages"]
        events = await client.ask("what is 6*7?", session_id=final["session_id"])
        check_exchange(events)
        assert "42" in final_text(events)
