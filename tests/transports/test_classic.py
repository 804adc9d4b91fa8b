"""Older clients: sockets without a subprotocol, and the REST calls that they know."""

import asyncio
import json
from typing import Any

import httpx
from support.chat_client import ChatClient, chat, is_answer, text_of
from support.running_server import RunningServer

CLASSIC_TYPES = {"stream", "awaiting_human", "final", "error"}


def classic(server: RunningServer, **options: Any) -> Any:
    return chat(server.address, subprotocols=None, **options)


async def answer_to(client: ChatClient, **ask: Any) -> list[dict[str, Any]]:
    """All events until the final or an error, as an older client reads them."""
    await client.send(json.dumps(ask))
    events = [await client.receive()]
    while events[-1]["type"] not in ("final", "error"):
        events.append(await client.receive())
    return events


def is_delta(event: dict[str, Any]) -> bool:
    return event["type"] == "stream" and event["message"]["metadata"]["extras"].get("streaming_delta") is True


async def test_only_the_classic_events_arrive_and_none_has_a_seq(server: RunningServer) -> None:
    async with classic(server) as client:
        assert client.socket.subprotocol is None
        events = await answer_to(client, message="What time is it in Tokyo, and what is 12*34?")
        await client.send({"type": "ping"})
        await client.silent()
    assert {event["type"] for event in client.events} <= CLASSIC_TYPES
    assert not any("seq" in event for event in client.events)
    assert [e["message"] for e in events if e["type"] == "stream" and not is_delta(e)] == events[-1]["messages"]


async def test_deltas_name_the_rank_that_the_message_gets(server: RunningServer) -> None:
    async with classic(server) as client:
        events = await answer_to(client, message="think about cats and what is 2+3")
    written: dict[int, str] = {}
    for event in events:
        if is_delta(event):
            [part] = event["message"]["parts"]
            written[event["message"]["rank"]] = written.get(event["message"]["rank"], "") + part["text"]
    texts = {m["rank"]: text_of(m) for m in events[-1]["messages"] if m["role"] == "assistant" and text_of(m)}
    assert written == texts


async def test_the_first_text_comes_at_once_and_more_at_most_every_100_ms(server: RunningServer) -> None:
    async with classic(server) as client:
        events = await answer_to(client, message="count down slowly from 5")
        deltas = [event for event in events if is_delta(event)]
        assert 2 <= len(deltas) <= 7
        assert deltas[0]["message"]["parts"][0]["text"].startswith("5")


async def test_an_ask_of_the_earlier_protocol_is_understood(server: RunningServer) -> None:
    ask = {"agent_name": "echo", "message": "hello", "session_id": None, "client_exchange_id": None}
    async with classic(server) as client:
        events = await answer_to(client, **ask, runtime_context=None, access_token=None, refresh_token=None)
        session = events[-1]["session"]
        assert session["agent_id"] == "echo"
        again = await answer_to(client, message="again", session_id=session["id"], agent_name="echo")
        assert [m["rank"] for m in again[-1]["messages"]] == [2, 3]


async def test_a_bad_frame_gets_an_error_and_the_socket_stays_open(server: RunningServer) -> None:
    async with classic(server) as client:
        for bad in ("no json", "[]", '{"message": 5}', '{"message": "x", "foo": 1}'):
            await client.send(bad)
            refusal = await client.receive()
            assert (refusal["type"], refusal["code"]) == ("error", "bad_frame")
        events = await answer_to(client, message="hello", agent_name="echo")
        assert events[-1]["status"] == "ok"


async def test_two_sockets_in_one_session_never_mix_their_exchanges(server: RunningServer) -> None:
    async with classic(server) as one, classic(server) as two:
        first = await answer_to(one, message="remember that cats purr")
        session_id = first[-1]["session"]["id"]

        async def ask_until_admitted(client: ChatClient, text: str) -> list[dict[str, Any]]:
            while True:
                events = await answer_to(client, message=text, session_id=session_id)
                if events[-1]["type"] == "final":
                    return events
                assert events[-1]["code"] == "session_busy"
                await asyncio.sleep(0.01)

        both = await asyncio.gather(ask_until_admitted(one, "echo one"), ask_until_admitted(two, "echo two"))
        ranks = [message["rank"] for events in both for message in events[-1]["messages"]]
        assert len(set(ranks)) == len(ranks)
        for events in both:
            asked, answered = events[-1]["messages"][0], next(m for m in events[-1]["messages"] if is_answer(m))
            assert text_of(answered) == text_of(asked).removeprefix("echo ")


async def test_the_older_rest_calls(server: RunningServer) -> None:
    async with httpx.AsyncClient(base_url=f"{server.address}/agentic/v1/chatbot", timeout=10) as rest:
        opened = (await rest.post("/session", json={"agent_id": "echo", "title": "Old"})).json()
        assert (opened["agent_id"], opened["title"]) == ("echo", "Old")
        async with classic(server) as client:
            events = await answer_to(client, message="hello", session_id=opened["id"])
        assert [session["id"] for session in (await rest.get("/sessions")).json()] == [opened["id"]]
        assert (await rest.get(f"/session/{opened['id']}/history")).json() == events[-1]["messages"]
        assert (await rest.delete(f"/session/{opened['id']}")).status_code == 204
        assert (await rest.get(f"/session/{opened['id']}/history")).status_code == 404
        assert (await rest.get("/sessions")).json() == []
