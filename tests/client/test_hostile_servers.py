"""A server that sends rubbish, says too much or nothing: the client fails soon, with a typed error."""

import asyncio
import json
from typing import Any

import pytest
from support.hostile_answers import FINAL, MESSAGE, PLACE, STARTED, asked, delta, refusal
from support.hostile_chat_server import HostileSocket, hostile_server

from agentic_backend.client import (
    ChatError,
    Delta,
    Final,
    Reset,
    Started,
    Stream,
    Unreachable,
    Unreadable,
    connect,
    places,
)
from agentic_backend.client import line as client_line

RUBBISH = [
    b"\xff\xfe",
    "",
    "hello",
    "[]",
    "5",
    "[" * 100_000,
    '{"type": NaN}',
    json.dumps({"type": "idle", "session_id": 5, "next_rank": 1}),
    json.dumps({"type": "started"}),
    json.dumps({"type": "session", "session": "mine"}),
    json.dumps({"type": "error", "seq": 1}),
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
async def test_rubbish_ends_the_client_with_a_typed_error(rubbish: str | bytes) -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send_raw(rubbish)
        await socket.gone()

    async with hostile_server(behave) as address:
        with pytest.raises(Unreadable):
            await asked(address)


@pytest.mark.parametrize(
    "wrong",
    [
        delta(2, "x") | {"channel": ["loudspeaker"]},
        delta(2, "x") | {"text": None},
        delta(2, "x") | {"block": {"of": "wood"}},
        {**FINAL, "status": 5},
        {**FINAL, "messages": "all"},
        {**FINAL, "messages": [5]},
        {**FINAL, "messages": [{**MESSAGE, "parts": "none"}]},
        {**FINAL, "messages": [{**MESSAGE, "parts": [{"type": "text"}]}]},
        {**FINAL, "messages": [{**MESSAGE, "parts": [{"type": ["text"]}]}]},
        {"type": "activity", **PLACE, "seq": 2, "kind": "progress", "data": []},
        delta(2**53, "x"),
        delta(-1, "x"),
        delta(2, "x") | {"session_id": ""},
        delta(2, "x") | {"session_id": "s" * 129},
    ],
)
async def test_an_event_that_cannot_be_read_ends_its_exchange_alone(wrong: dict[str, Any]) -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send(STARTED)
        await socket.send(wrong)
        ask = await socket.frame("ask")
        await socket.send({**STARTED, "exchange_id": "e2", "client_exchange_id": ask["client_exchange_id"]})
        await socket.send({**FINAL, "exchange_id": "e2"})
        await socket.gone()

    async with hostile_server(behave) as address, connect(address) as chat:
        with pytest.raises(Unreadable) as unreadable:
            await chat.ask("hi", client_exchange_id="x1").answer()
        assert "loudspeaker" not in str(unreadable.value), "no values in errors"
        assert await chat.ask_text("again") == "done"


async def test_what_a_later_server_adds_is_ignored() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send({"type": "weather", "sun": True})
        await socket.send({"no": "type"})
        await socket.send({**STARTED, "mood": "good", "session": {**SESSION, "colour": "red"}})
        await socket.send({"type": "activity", **PLACE, "seq": 2, "kind": "daydream", "data": {}})
        await socket.send({"type": "sound", **PLACE, "seq": 3, "of": "bells"})
        text = {"type": "text", "text": "done", "font": "large"}
        parts = [{"type": "hologram", "of": 1}, {"type": "link", "kind": "portal", "href": "/"}, text]
        metadata = {"more": {"deep": 1}, "finish_reason": "bored"}
        message = {**MESSAGE, "parts": parts, "mood": "good", "channel": "loudspeaker", "metadata": metadata}
        await socket.send(delta(3, "x") | {"channel": "loudspeaker"})
        await socket.send({"type": "stream", **PLACE, "seq": 4, "message": message, "block": None, "x": 1})
        partial = [{"block": 1, "channel": "loudspeaker", "text": "x"}]
        await socket.send({"type": "reset", **PLACE, "seq": 5, "messages": [message], "partial": partial})
        await socket.send({**FINAL, "status": "bored", "messages": [message], "usage": {"smiles": 3}})
        await socket.gone()

    async with hostile_server(behave) as address, connect(address) as chat:
        exchange = chat.ask("hi", client_exchange_id="x1")
        started, written, stream, reset, final = [event async for event in exchange]
    assert isinstance(started, Started) and isinstance(written, Delta) and written.channel == "observation"
    assert isinstance(stream, Stream) and isinstance(reset, Reset) and isinstance(final, Final)
    assert [part.type for part in stream.message.parts] == ["text"]
    assert (stream.message.channel, stream.message.metadata.finish_reason) == ("observation", "other")
    assert reset.messages == final.messages == [stream.message]
    assert (reset.partial[0].channel, final.status) == ("observation", "error")


SESSION = {
    "id": "s1",
    "user_id": "u",
    "agent_id": "a",
    "title": "t",
    "created_at": "2026-11-23T00:00:00Z",
    "updated_at": "2026-11-23T00:00:00Z",
}


async def test_what_nobody_asked_for_changes_nothing() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        foreign = {"session_id": "s9", "exchange_id": "e9"}
        for event in (STARTED, delta(2, "a"), FINAL):
            await socket.send({**event, **foreign, "client_exchange_id": "x9"} if "agent_id" in event else event)
            await socket.send({**event, **foreign} if "agent_id" not in event else {"type": "pong"})
        for _ in range(50):
            await socket.send({"type": "pong"})
        await socket.send(refusal("bad_frame", refused="ask", client_exchange_id="x9"))
        await socket.send(refusal("bad_frame", refused="stop"))
        await socket.send(refusal("bad_frame"))
        for event in (STARTED, delta(2, "a"), delta(2, "a"), delta(1, "a"), FINAL, FINAL, delta(12, "late")):
            await socket.send(event)
        await socket.gone()

    async with hostile_server(behave) as address:
        events = await asked(address)
    assert [type(event) for event in events] == [Started, Delta, Final]


async def test_a_frame_beyond_all_bounds_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_line, "_EVENT_BYTES_AT_MOST", 100_000)

    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send(STARTED)
        await socket.send(delta(2, "x" * 200_000))
        await socket.gone()

    async with hostile_server(behave) as address:
        with pytest.raises(Unreadable):
            await asked(address)


async def test_a_server_that_speaks_another_protocol_is_told_apart() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.gone()

    async with hostile_server(behave, subprotocol="chat.v9") as address:
        with pytest.raises(ChatError):
            await asked(address, patience_s=2)


async def test_a_server_that_takes_the_socket_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_line, "_ANSWER_TIMEOUT_S", 0.2)

    async def behave(socket: HostileSocket) -> None:
        await socket.silent()

    async with asyncio.timeout(10), hostile_server(behave) as address:
        with pytest.raises(Unreachable):
            await asked(address, patience_s=1)


async def test_a_server_that_never_begins_an_exchange_is_not_waited_for_without_end() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.gone()

    async with asyncio.timeout(10), hostile_server(behave) as address:
        with pytest.raises(Unreachable):
            await asked(address, patience_s=0.5)


async def test_a_server_that_never_answers_a_stop_is_not_waited_for_without_end() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("stop")
        await socket.silent()

    async with asyncio.timeout(10), hostile_server(behave) as address, connect(address, patience_s=0.5) as chat:
        with pytest.raises(Unreachable):
            await chat.stop(session_id="s1")


async def test_an_answer_that_begins_with_a_reset_is_told_by_the_text_of_its_question() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        question = {**MESSAGE, "role": "user", "parts": [{"type": "text", "text": "hi"}]}
        await socket.send({"type": "reset", **PLACE, "seq": 5, "messages": [question], "partial": []})
        await socket.send(FINAL)
        await socket.gone()

    async with hostile_server(behave) as address:
        assert [type(event) for event in await asked(address)] == [Reset, Final]


async def test_a_reader_that_is_too_slow_holds_up_nobody_and_is_shown_the_exchange_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_WAITING_AT_MOST", 10)
    follows = []

    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send(STARTED)
        for number in range(2, 30):
            await socket.send(delta(number, "x"))
        ask = await socket.frame("ask")
        other = {"exchange_id": "e2", "session_id": "s2"}
        await socket.send({**STARTED, **other, "client_exchange_id": ask["client_exchange_id"]})
        await socket.send({**FINAL, **other})
        follows.append(await socket.frame("follow"))
        # Still from the place before it.
        await socket.send(delta(30, "x"))
        await socket.send(STARTED)
        await socket.send(delta(30, "x" * 29))
        await socket.send({**FINAL, "seq": 31})
        await socket.gone()

    async with hostile_server(behave) as address, connect(address) as chat:
        slow = chat.ask("hi", client_exchange_id="x1")
        assert await chat.ask_text("and I?") == "done"
        events = [event async for event in slow]
    assert [type(event) for event in events] == [Started, Delta, Final]
    assert isinstance(events[1], Delta) and events[1].text == "x" * 29
    assert [(follow["exchange_id"], follow["after_seq"]) for follow in follows] == [("e1", 0)]


async def test_a_reader_that_is_too_slow_still_gets_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_WAITING_BYTES_AT_MOST", 1_000)

    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        await socket.send(STARTED)
        for number in range(2, 8):
            await socket.send(delta(number, "x" * 300))
        await socket.send(FINAL)
        await socket.frame("stop")
        await socket.gone()

    async with hostile_server(behave) as address, connect(address) as chat:
        slow = chat.ask("hi", client_exchange_id="x1")
        await chat.stop(session_id="s1")
        events = [event async for event in slow]
    assert [type(event) for event in events] == [Final]
