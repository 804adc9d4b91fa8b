"""Asks over one socket: one after the other, many at once, and those that are refused."""

import asyncio
from typing import Any

import pytest
from support.chat_client import ChatClient, Event, chat, check_exchange, final_text, is_refusal, text_of
from support.rest_client import messages_of, rest
from support.running_server import RunningServer

from agentic_backend.text.normal_form import clean


async def running(client: ChatClient, **fields: Any) -> Event:
    """The `started` of an exchange that goes on until it is stopped."""
    await client.send({"message": "hang after 5 tokens", **fields})
    return await client.until("started")


async def refusal(client: ChatClient, **fields: Any) -> Event:
    """The refusal of an ask; nothing else of it may arrive."""
    await client.send({"type": "ask", "message": "hello", **fields})
    refused = await client.until("error")
    assert is_refusal(refused) and refused["refused"] == "ask"
    assert set(refused) <= {
        "type",
        "code",
        "content",
        "whose",
        "retryable",
        "request_id",
        "retry_after_s",
        "refused",
        "client_exchange_id",
        "session_id",
        "exchange_id",
    }
    return refused


async def test_what_is_streamed_is_what_is_stored(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        first = await client.ask("What time is it in Tokyo, and what is 12*34?")
        session_id = first[-1]["session_id"]
        second = await client.ask("think first: what is 2*3?", session_id=session_id)
        for events in (first, second):
            check_exchange(events)
        streamed = [event["message"] for event in first + second if event["type"] == "stream"]
        assert await messages_of(http, session_id) == streamed
        assert {message["channel"] for message in streamed} == {
            "final",
            "observation",
            "thought",
            "tool_call",
            "tool_result",
        }
        session = (await http.get(f"/sessions/{session_id}")).json()
        assert session == second[-1]["session"] | {"title": session["title"]}


async def test_the_first_events_of_an_exchange(server: RunningServer) -> None:
    async with chat(server.address) as client:
        fields = {"client_exchange_id": "x1", "agent_id": "echo", "chat_profile": "default"}
        started, opening, *_ = await client.ask("hello  there", **fields)
        assert set(started) == {
            "type",
            "session_id",
            "exchange_id",
            "seq",
            "client_exchange_id",
            "agent_id",
            "session",
        }
        assert (started["agent_id"], started["client_exchange_id"]) == ("echo", "x1")
        session = started["session"]
        assert session["active_exchange_id"] == started["exchange_id"]
        assert (session["title"], session["chat_profile"], session["state"]) == ("hello there", "default", "active")
        assert (opening["type"], text_of(opening["message"])) == ("stream", "hello  there")
        assert (opening["message"]["role"], opening["message"]["channel"]) == ("user", "final")


async def test_the_default_agent_answers_and_the_session_keeps_its_agent(server: RunningServer) -> None:
    async with chat(server.address) as client:
        [started, *_] = await client.ask("hello")
        assert started["agent_id"] == "assistant"
        [started, *_] = await client.ask("hello", agent_name="echo")
        assert started["agent_id"] == "echo"
        events = await client.ask("hello again", session_id=started["session_id"])
        assert (events[0]["agent_id"], final_text(events)) == ("echo", "echo: hello again")
        [started, *_] = await client.ask("hello", session_id=started["session_id"], agent_id="assistant")
        assert (started["agent_id"], started["session"]["agent_id"]) == ("assistant", "echo")


async def test_several_sessions_run_on_one_socket_at_the_same_time(server: RunningServer) -> None:
    async with chat(server.address) as client:
        names = [f"x{number}" for number in range(20)]
        for name in names:
            await client.send({"message": f"repeat after me: {name} says what it says", "client_exchange_id": name})
        ended = 0
        while ended < len(names):
            ended += (await client.receive())["type"] == "final"
        sessions = set()
        for name in names:
            [exchange_id] = {e["exchange_id"] for e in client.events if e.get("client_exchange_id") == name}
            events = [event for event in client.events if event.get("exchange_id") == exchange_id]
            check_exchange(events)
            assert final_text(events) == f"{name} says what it says"
            sessions.add(events[0]["session_id"])
        assert len(sessions) == len(names)


async def test_a_ping_is_answered_while_exchanges_run(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await running(client)
        for _ in range(3):
            await client.send({"type": "ping"})
            assert await client.until("pong") == {"type": "pong"}


async def test_a_session_with_a_running_exchange_is_busy_for_everybody_but_not_for_others(
    server: RunningServer,
) -> None:
    async with chat(server.address) as one, chat(server.address) as other, rest(server) as http:
        started = await running(one)
        for client in (one, other):
            refused = await refusal(client, session_id=started["session_id"], client_exchange_id="x2")
            assert (refused["code"], refused["retryable"]) == ("session_busy", True)
            assert (refused["session_id"], refused["client_exchange_id"]) == (started["session_id"], "x2")
        assert len(await messages_of(http, started["session_id"])) == 1
        check_exchange(await other.ask("hello", agent_id="echo"))
        await one.send({"type": "stop", "session_id": started["session_id"]})
        await one.until("final")
        check_exchange(await other.ask("hello", agent_id="echo", session_id=started["session_id"]))


async def test_of_many_asks_at_once_in_one_session_one_begins(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as other, rest(server) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        for client in (one, other):
            for _ in range(5):
                await client.send({"message": "hang after 5 tokens", "session_id": session_id})
        answers = [await one.until("started", "error") for _ in range(5)]
        answers += [await other.until("started", "error") for _ in range(5)]
        assert sorted(answer["type"] for answer in answers) == ["error"] * 9 + ["started"]
        assert {answer["code"] for answer in answers if is_refusal(answer)} == {"session_busy"}
        assert len(await messages_of(http, session_id)) == 1


async def test_a_completed_session_takes_no_ask(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        session_id = (await client.ask("hello", agent_id="echo"))[-1]["session_id"]
        await http.post(f"/sessions/{session_id}/complete")
        refused = await refusal(client, session_id=session_id)
        assert (refused["code"], refused["retryable"]) == ("session_completed", False)
        assert len(await messages_of(http, session_id)) == 2


async def test_another_users_session_and_one_that_is_not_there_are_the_same(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        session_id = (await alice.ask("hello", agent_id="echo"))[-1]["session_id"]
        refused = [await refusal(bob, session_id=name) for name in (session_id, "nothing", "n" * 128)]
        assert {(event["code"], event["content"], event["retryable"]) for event in refused} == {
            ("session_not_found", refused[0]["content"], False)
        }


@pytest.mark.parametrize("agent_id", ["nothing", "disabled", "Echo", "../echo", "\x00"])
async def test_an_agent_that_is_not_served_is_not_found(server: RunningServer, agent_id: str) -> None:
    async with chat(server.address) as client:
        refused = await refusal(client, agent_id=agent_id)
        assert (refused["code"], refused["retryable"]) == ("agent_not_found", False)
        check_exchange(await client.ask("hello", agent_id="echo"))


async def test_human_resume_of_an_exchange_that_is_not_there(server: RunningServer) -> None:
    async with chat(server.address) as client:
        frame = {"type": "human_resume", "session_id": "s", "exchange_id": "e", "payload": {"answers": {"i": "left"}}}
        await client.send(frame)
        refused = await client.receive()
        assert (refused["code"], refused["refused"], refused["retryable"]) == (
            "exchange_not_found",
            "human_resume",
            False,
        )
        assert (refused["session_id"], refused["exchange_id"]) == ("s", "e")


@pytest.mark.parametrize("frame", ['{"message": 5}', '{"message": 5, "type": null}', "{}"])
async def test_a_frame_without_type_is_refused_as_an_ask(server: RunningServer, frame: str) -> None:
    async with chat(server.address) as client:
        await client.send(frame)
        refused = await client.receive()
        assert (refused["code"], refused["refused"], refused["whose"]) == ("bad_frame", "ask", "client")


@pytest.mark.parametrize("frame", ["no json", "[]", '{"type": 5}'])
async def test_what_has_no_type_that_could_be_told_is_refused_without(server: RunningServer, frame: str) -> None:
    async with chat(server.address) as client:
        await client.send(frame)
        refused = await client.receive()
        assert refused["code"] == "bad_frame" and "refused" not in refused


async def test_a_message_is_text_of_any_kind(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        for message in [
            "\x00",
            " ",
            "\n" * 100,
            "größer ✓ 👩‍👩‍👧 \u202e\u2028\ufeff",
            '"}]{\\',
            "<script>",
            "x" * 200_000,
        ]:
            events = await client.ask(message, agent_id="echo")
            check_exchange(events)
            # What a person says stays; an answer is cleaned.
            assert final_text(events) == clean(f"echo: {message}")
            stored = await messages_of(http, events[-1]["session_id"])
            assert [text_of(m) for m in stored] == [message, clean(f"echo: {message}")]


async def test_the_limits_of_a_message_and_of_a_runtime_context(server: RunningServer) -> None:
    async with chat(server.address) as client:
        refused = await refusal(client, message="ä" * 131_073)
        assert (refused["code"], refused["retryable"]) == ("message_too_large", False)
        assert "message" in refused["content"] and "262144" in refused["content"]
        check_exchange(await client.ask("ä" * 131_069, agent_id="echo"))
        refused = await refusal(client, runtime_context={"text": "x" * 16_384})
        assert refused["code"] == "bad_frame"
        assert refused["content"].startswith("runtime_context:") and "16384" in refused["content"]
        check_exchange(await client.ask("hello", agent_id="echo", runtime_context={"text": "x" * 16_000}))


@pytest.mark.parametrize("depth", [200, 300, 900])
async def test_a_deep_runtime_context_is_taken_or_refused_by_its_name(server: RunningServer, depth: int) -> None:
    context = '{"a":' * depth + "1" + "}" * depth
    async with chat(server.address) as client:
        await client.send('{"message": "hello", "agent_id": "echo", "runtime_context": ' + context + "}")
        event = await client.until("final", "error")
        if event["type"] == "error":
            assert event["code"] == "bad_frame" and event["content"].startswith("runtime_context:")
        check_exchange(await client.ask("hello", agent_id="echo"))


async def test_a_socket_that_closes_leaves_its_exchanges_running(server: RunningServer) -> None:
    async with chat(server.address) as client:
        started = await running(client)
    async with chat(server.address) as client, rest(server) as http:
        await asyncio.sleep(0.1)
        assert (await http.get(f"/exchanges/{started['exchange_id']}")).json()["status"] == "running"
        await client.send({"type": "stop", "exchange_id": started["exchange_id"]})
        assert (await client.until("final"))["status"] == "stopped"
