"""`stop`: it always works, soon, and what was said until then is kept."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support import wire_agents
from support.chat_client import ChatClient, Event, chat, check_calls, check_exchange, final_text, text_of
from support.held_agents import Hold
from support.recorded_agents import eventually
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=[*ENTRIES, *wire_agents.ENTRIES]) as server:
        yield server


async def running(client: ChatClient, **fields: str) -> Event:
    """The `started` of an exchange that has said twenty words and goes on until it is stopped."""
    return await client.running("hang after 20 tokens", words=20, **fields)


async def stopped(client: ChatClient, **target: str) -> Event:
    await client.send({"type": "stop", **target})
    return await client.until("final")


@pytest.mark.parametrize("named_by", ["session", "exchange", "both"])
async def test_a_stop_ends_the_exchange_and_keeps_what_was_said(server: RunningServer, named_by: str) -> None:
    async with chat(server.address) as client, rest(server) as http:
        started = await running(client)
        target = {name: started[name] for name in ("session_id", "exchange_id") if named_by in (name[:-3], "both")}
        final = await stopped(client, **target)
        check_exchange([event for event in client.events if "seq" in event])
        assert final["status"] == "stopped"
        assert "error" not in final
        assert "active_exchange_id" not in final["session"]
        said = "".join(event["text"] for event in client.events if event["type"] == "delta")
        assert final_text([final]) == said and len(said.split()) == 20
        assert final["messages"][-1]["metadata"]["finish_reason"] == "cancelled"
        assert await messages_of(http, started["session_id"]) == final["messages"]
        exchange = (await http.get(f"/exchanges/{started['exchange_id']}")).json()
        assert exchange["status"] == "stopped"


async def test_the_next_ask_works_and_knows_what_was_said(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("my name is Zorblax")
        session_id = events[-1]["session_id"]
        await running(client, session_id=session_id)
        await stopped(client, session_id=session_id)
        events = await client.ask("what is my name?", session_id=session_id)
        check_exchange(events)
        assert final_text(events) == "Your name is Zorblax."


async def test_a_stop_before_the_first_word_leaves_the_users_message_alone(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hang forever"})
        started = await client.until("started")
        final = await stopped(client, exchange_id=started["exchange_id"])
        check_exchange(client.events)
        assert final["status"] == "stopped"
        assert [message["role"] for message in final["messages"]] == ["user"]


async def test_a_stop_in_a_tool_gives_every_call_a_result_and_a_history_that_a_model_takes(
    server: RunningServer,
) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "wait 30 seconds, and then what is 2*3?"})
        while not any(message["channel"] == "tool_call" for message in streamed(client)):
            await client.receive()
        session_id = client.events[0]["session_id"]
        final = await stopped(client, session_id=session_id)
        check_exchange([event for event in client.events if "seq" in event])
        results = [p for m in final["messages"] for p in m["parts"] if p["type"] == "tool_result"]
        assert {"call_id", "ok", "latency_ms", "content", "type"} == set(results[-1])
        assert results[-1]["ok"] is False
        events = await client.ask("what is 6*7?", session_id=session_id)
        check_exchange(events)
        assert "42" in final_text(events)


async def test_a_tool_that_ignores_its_cancellation_holds_nothing_up(server: RunningServer, hold: Hold) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "call work()", "agent_id": "unmoved"})
        await eventually(lambda: hold.held)
        session_id = (await client.until("started"))["session_id"]
        final = await stopped(client, session_id=session_id)
        assert final["status"] == "stopped"
        check_exchange([event for event in client.events if "seq" in event])
        events = await client.ask("repeat after me: next", session_id=session_id)
        assert final_text(events) == "next"
        assert hold.held == 1, "all of that while the tool still ran"


async def test_an_agent_that_is_being_built_is_stopped_too(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "hangs-in-init"})
        started = await client.until("started")
        final = await stopped(client, session_id=started["session_id"])
        assert final["status"] == "stopped"
        events = await client.ask("hello", agent_id="echo", session_id=started["session_id"])
        assert final_text(events) == "echo: hello"


async def test_a_stop_with_nothing_running_is_answered_by_idle(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        empty = (await http.post("/sessions", json={})).json()["id"]
        for _ in range(3):
            await client.send({"type": "stop", "session_id": empty})
            assert await client.receive() == {"type": "idle", "session_id": empty, "next_rank": 0}
        final = (await client.ask("hello", agent_id="echo"))[-1]
        session_id, exchange_id = final["session_id"], final["exchange_id"]
        for target in ({"session_id": session_id}, {"exchange_id": exchange_id}):
            await client.send({"type": "stop", **target})
            assert await client.until("idle") == {"type": "idle", "session_id": session_id, "next_rank": 2}


@pytest.mark.parametrize("times", [2, 5])
async def test_a_repeated_stop_is_answered_by_one_final_and_then_by_idle(server: RunningServer, times: int) -> None:
    async with chat(server.address) as client:
        started = await running(client)
        for _ in range(times):
            await client.send({"type": "stop", "session_id": started["session_id"]})
        final = await client.until("final")
        for _ in range(times - 1):
            idle = await client.until("idle")
            assert (idle["session_id"], idle["next_rank"]) == (started["session_id"], final["session"]["next_rank"])
        await client.send({"type": "ping"})
        await client.until("pong")
        types = [event["type"] for event in client.events]
        assert (types.count("final"), types.count("idle")) == (1, times - 1)


async def test_another_socket_of_the_user_may_stop_and_both_see_the_end(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as other:
        started = await running(one)
        final = await stopped(other, session_id=started["session_id"])
        assert await one.until("final") == final
        assert final["status"] == "stopped"


async def test_a_stop_of_one_exchange_leaves_the_others_running(server: RunningServer) -> None:
    async with chat(server.address) as client:
        first, second = await running(client), await running(client)
        final = await stopped(client, session_id=first["session_id"])
        assert final["exchange_id"] == first["exchange_id"]
        await client.send({"type": "follow", "session_id": second["session_id"]})
        await client.until("started", exchange_id=second["exchange_id"])
        assert (await stopped(client, exchange_id=second["exchange_id"]))["status"] == "stopped"


async def test_a_stop_of_what_is_not_there_or_another_users_is_not_found(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        started = await running(alice)
        session_id, exchange_id = started["session_id"], started["exchange_id"]
        for target, code in [
            ({"session_id": session_id}, "session_not_found"),
            ({"exchange_id": exchange_id}, "exchange_not_found"),
            ({"session_id": session_id, "exchange_id": exchange_id}, "session_not_found"),
            ({"session_id": "nothing"}, "session_not_found"),
            ({"exchange_id": "nothing"}, "exchange_not_found"),
        ]:
            await bob.send({"type": "stop", **target})
            refused = await bob.receive()
            assert (refused["code"], refused["refused"]) == (code, "stop")
        await alice.send({"type": "ping"})
        await alice.until("pong")
        assert "final" not in [event["type"] for event in alice.events]
        final = await stopped(alice, session_id=session_id)
        await bob.send({"type": "stop", "exchange_id": exchange_id})
        assert (await bob.receive())["code"] == "exchange_not_found"
        assert final["status"] == "stopped"


@pytest.mark.parametrize("ended", [False, True])
async def test_an_exchange_is_not_found_in_another_session(server: RunningServer, ended: bool) -> None:
    async with chat(server.address) as client:
        elsewhere = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
        if ended:
            exchange_id = (await client.ask("hello", agent_id="echo"))[-1]["exchange_id"]
        else:
            exchange_id = (await running(client))["exchange_id"]
        await client.send({"type": "stop", "session_id": elsewhere, "exchange_id": exchange_id})
        assert (await client.until("error", "idle", "final")).get("code") == "exchange_not_found"


async def test_an_ended_exchange_is_stopped_by_nothing_also_when_its_events_are_gone(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=ENTRIES, settings={"relay": {"keep_ended_bytes": 0}}) as server:
        async with chat(server.address) as client:
            elsewhere = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
            final = (await client.ask("hello", agent_id="echo"))[-1]
            session_id, exchange_id = final["session_id"], final["exchange_id"]
            await client.send({"type": "stop", "session_id": elsewhere, "exchange_id": exchange_id})
            assert (await client.until("error", "idle"))["code"] == "exchange_not_found"
            await client.send({"type": "stop", "exchange_id": exchange_id})
            assert await client.until("error", "idle") == {"type": "idle", "session_id": session_id, "next_rank": 2}


async def test_an_idle_tells_the_rank_that_is_next_now(server: RunningServer) -> None:
    async with chat(server.address) as client:
        first = (await client.ask("hello", agent_id="echo"))[-1]
        await client.ask("hello again", agent_id="echo", session_id=first["session_id"])
        await client.send({"type": "stop", "exchange_id": first["exchange_id"]})
        idle = await client.until("idle")
        assert idle == {"type": "idle", "session_id": first["session_id"], "next_rank": 4}


async def test_a_waiting_exchange_is_ended_by_a_stop(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        await client.send({"message": "hello", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        record = (await http.get(f"/exchanges/{waiting['exchange_id']}")).json()
        assert (record["status"], record["pending"]) == ("awaiting_human", waiting["payload"])
        [refused] = await client.ask("hello", agent_id="echo", session_id=waiting["session_id"])
        assert refused["code"] == "session_busy"
        final = await stopped(client, session_id=waiting["session_id"])
        assert final["status"] == "stopped"
        record = (await http.get(f"/exchanges/{waiting['exchange_id']}")).json()
        assert record["status"] == "stopped" and "pending" not in record


async def test_many_stops_at_once_from_many_sockets_end_it_once(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as two, chat(server.address) as three:
        started = await running(one)
        for client in (one, two, three):
            await client.send({"type": "stop", "session_id": started["session_id"]})
        final = await one.until("final")
        # A stop that is read when the exchange has ended is told that nothing runs.
        for answer in [await client.until("final", "idle") for client in (two, three)]:
            assert answer == final or answer["next_rank"] == final["session"]["next_rank"]
        check_calls(final["messages"])
        assert text_of(final["messages"][0]) == "hang after 20 tokens"


def streamed(client: ChatClient) -> list[dict[str, object]]:
    return [event["message"] for event in client.events if event["type"] == "stream"]
