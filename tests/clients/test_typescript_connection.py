"""The TypeScript client and servers that end its connections, refuse its tokens, or are no such servers at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import PATIENCE_S, check_exchange
from support.further_cases import further
from support.running_server import running_server
from support.signing_realm import SigningRealm, signing_realm
from support.typescript_client import Consumer, Line, typescript_client
from websockets.asyncio.server import ServerConnection, serve

pytestmark = pytest.mark.typescript

Talk = Callable[[ServerConnection], Awaitable[None]]
PLACE = {"session_id": "s", "exchange_id": "e"}
STARTED = {"type": "started", "agent_id": "a", "session": None, **PLACE, "seq": 1}
MESSAGE = {"role": "user", "channel": "final", "metadata": {}, "rank": 0, **PLACE}
FINAL = {"type": "final", "status": "ok", "messages": [], "session": None, "usage": {}, **PLACE, "seq": 9_999}


@asynccontextmanager
async def talking(*talks: Talk) -> AsyncIterator[str]:
    """The address of a server that talks on each socket as told: the last way on all later ones."""
    accepted = 0

    async def talk(socket: ServerConnection) -> None:
        nonlocal accepted
        accepted += 1
        await talks[min(accepted, len(talks)) - 1](socket)

    async with serve(talk, "127.0.0.1", 0, subprotocols=["chat.v2"]) as server:  # type: ignore[list-item]
        yield f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def received(socket: ServerConnection, type_: str) -> Line:
    """The client's next frame of this type."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            frame: Line = json.loads(await socket.recv())
            if frame["type"] == type_:
                return frame


async def send(socket: ServerConnection, *events: dict[str, Any]) -> None:
    for event in events:
        await socket.send(json.dumps(event))


async def answering(socket: ServerConnection) -> None:
    """Answers one ask, as a server does."""
    frame = await received(socket, "ask")
    await send(socket, {**STARTED, "client_exchange_id": frame["client_exchange_id"]}, FINAL)
    await socket.wait_closed()


def closing(code: int) -> Talk:
    async def talk(socket: ServerConnection) -> None:
        await received(socket, "ask")
        await socket.close(code)

    return talk


def saying(*messages: str | bytes) -> Talk:
    async def talk(socket: ServerConnection) -> None:
        for message in messages:
            await socket.send(message)
        await socket.wait_closed()

    return talk


def realm_settings(realm: SigningRealm) -> dict[str, Any]:
    return {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}


@pytest.mark.parametrize("code", [further(1001), 1011, 1012, further(4008)])
async def test_it_comes_back_by_itself_after_a_code_that_says_so_and_asks_again(consumer: Consumer, code: int) -> None:
    async with talking(closing(code), answering) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        assert [event["type"] for event in await client.ended("it")] == ["started", "final"]
        reconnecting = [line for line in client.lines if line.get("phase") == "reconnecting"]
        assert {line["code"] for line in reconnecting} == {1012 if code == 1012 else None}


@pytest.mark.parametrize("code", [1008, 1009, further(4403)])
async def test_it_stays_away_after_a_code_that_says_so_until_it_is_told_to_connect(
    consumer: Consumer, code: int
) -> None:
    async with talking(closing(code), answering) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        failed = await client.failed("it")
        assert (failed["failed"], failed["code"]) == ("Disconnected", code)
        assert client.phases[-1] == "refused"
        await client.tell("connect")
        await client.tell("ask", **{"as": "again", "message": "hello"})
        await client.ended("again")


async def test_it_waits_where_too_many_connections_are_open_and_keeps_what_was_asked(consumer: Consumer) -> None:
    async with talking(closing(4429), answering) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        await client.until(lambda line: line.get("phase") == "refused")
        assert client.phases == ["open", "refused"]
        await client.tell("connect")
        await client.ended("it")


@pytest.mark.parametrize(
    "rubbish",
    [
        *("}{", "null", '{"type": 7}', b"\x00\xff", '{"type": "delta", "seq": 1e999}'),
        *map(further, ("", "[]", '"text"', "7")),
    ],
)
async def test_a_server_that_talks_rubbish_is_left_and_tried_again(consumer: Consumer, rubbish: str | bytes) -> None:
    async with talking(saying(rubbish), answering) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        await client.ended("it")
        assert "reconnecting" in client.phases


async def test_what_a_later_version_may_send_is_ignored(consumer: Consumer) -> None:
    async def later(socket: ServerConnection) -> None:
        frame = await received(socket, "ask")
        news = {"type": "confetti", "colours": ["red"], **PLACE, "seq": 2}
        delta = {"type": "delta", "block": 1, "channel": "final", "text": "hello", "loud": True, **PLACE, "seq": 3}
        named = {"client_exchange_id": frame["client_exchange_id"], "mood": "good"}
        await send(socket, {"type": "weather"}, {**STARTED, **named}, news, delta, FINAL)
        await socket.wait_closed()

    async with talking(later) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        events = await client.ended("it")
        assert [event["type"] for event in events] == ["started", "delta", "final"]
        assert client.phases == ["open"]


async def test_a_call_that_something_else_answers_fails_by_its_own_error(consumer: Consumer) -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 10\r\nConnection: close\r\n\r\n<h1>Oh</h1>")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with typescript_client(consumer, address) as client:
            branch = await client.answer("fork", **{"as": "branch", "session_id": "s", "rank": 0})
            assert branch["failed"] == "Unreadable"


async def test_what_comes_again_is_dropped_and_a_reset_shows_the_exchange_anew(consumer: Consumer) -> None:
    async def repeating(socket: ServerConnection) -> None:
        frame = await received(socket, "ask")
        started = {**STARTED, "client_exchange_id": frame["client_exchange_id"]}
        first = {"type": "delta", "block": 1, "channel": "final", "text": "half ", **PLACE, "seq": 20}
        partial = [{"block": 1, "channel": "final", "text": "a "}]
        reset = {"type": "reset", "messages": [], "partial": partial, **PLACE, "seq": 10}
        second = {"type": "delta", "block": 1, "channel": "final", "text": "whole", **PLACE, "seq": 11}
        await send(socket, started, first, first, reset, second, second, FINAL, FINAL)
        await socket.wait_closed()

    async with talking(repeating) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        events = await client.ended("it")
        assert [event["type"] for event in events] == ["started", "delta", "reset", "delta", "final"]
        assert client.written("it") == "a whole"


async def test_asks_of_the_same_words_get_their_own_answers(consumer: Consumer) -> None:
    """Where an ask was sent again, its words are all that tells that a `final` is its answer."""

    async def twice(socket: ServerConnection) -> None:
        first, second = await received(socket, "ask"), await received(socket, "ask")
        for ask, names in ((first, PLACE), (second, {"session_id": "t", "exchange_id": "f"})):
            messages = [{**MESSAGE, **names, "parts": [{"type": "text", "text": ask["message"]}]}]
            started = {**STARTED, **names, "client_exchange_id": ask["client_exchange_id"]}
            await send(socket, started, {**FINAL, **names, "messages": messages})
        await socket.wait_closed()

    async with talking(twice) as address, typescript_client(consumer, address) as client:
        for reader in ("one", "other"):
            await client.tell("ask", **{"as": reader, "message": "hello"})
        for reader, exchange_id in (("one", "e"), ("other", "f")):
            events = await client.ended(reader)
            assert [event["type"] for event in events] == ["started", "final"]
            assert {event["exchange_id"] for event in events} == {exchange_id}


async def test_an_ask_whose_exchange_has_ended_when_it_is_sent_again_gets_its_final(consumer: Consumer) -> None:
    async def late(socket: ServerConnection) -> None:
        ask = await received(socket, "ask")
        other = {**FINAL, "exchange_id": "f", "messages": [{**MESSAGE, "parts": [{"type": "text", "text": "bye"}]}]}
        own = {**FINAL, "messages": [{**MESSAGE, "parts": [{"type": "text", "text": ask["message"]}]}]}
        await send(socket, other, own)
        await socket.wait_closed()

    async with talking(closing(1011), late) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        [final] = await client.ended("it")
        assert final["exchange_id"] == "e"


def delta(seq: int, text: str) -> dict[str, Any]:
    return {"type": "delta", "block": 1, "channel": "final", "text": text, **PLACE, "seq": seq}


async def answer_follow(socket: ServerConnection, started: dict[str, Any], words: list[str]) -> Line:
    """Answers a `follow` as a server does: what follows `after_seq` comes in one delta. Returns the frame.

    Before it has read the frame, it has sent the last word: that is on its way.
    """
    frame = await received(socket, "follow")
    last = len(words) + 1
    await send(socket, delta(last, words[-1]))
    if not frame["after_seq"]:
        await send(socket, started)
    await send(socket, delta(last, "".join(words[max(0, frame["after_seq"] - 1) :])))
    return frame


@pytest.mark.parametrize("reader", ["exchange", "session"])
async def test_a_reader_that_is_far_behind_is_shown_the_exchange_anew(consumer: Consumer, reader: str) -> None:
    words = [f"{number} " for number in range(1_500)]
    started = {**STARTED, "client_exchange_id": None}
    follows: list[Line] = []

    async def hasty(socket: ServerConnection) -> None:
        frame = await received(socket, "ask" if reader == "exchange" else "follow")
        named = {**started, "client_exchange_id": frame.get("client_exchange_id")}
        await send(socket, named, *(delta(seq, word) for seq, word in enumerate(words[:-1], 2)))
        other = await received(socket, "ask")
        names = {"session_id": "t", "exchange_id": "f"}
        await send(socket, {**STARTED, **names, "client_exchange_id": other["client_exchange_id"]}, {**FINAL, **names})
        follows.append(await answer_follow(socket, started, words))
        await send(socket, FINAL)
        await socket.wait_closed()

    async with talking(hasty) as address, typescript_client(consumer, address) as client:
        await client.until(lambda line: line.get("phase") == "open")
        if reader == "exchange":
            await client.tell("ask", **{"as": "slow", "message": "hello", "unread": True})
        else:
            await client.tell("follow_session", **{"as": "slow", "session_id": "s", "unread": True})
        await client.tell("ask", **{"as": "quick", "message": "hello"})
        await client.ended("quick")
        await client.tell("read", **{"as": "slow"})
        await client.event("slow", "final")
        assert client.written("slow") == "".join(words), "nothing is lost, and nothing comes twice"
        assert [event["seq"] for event in client.events("slow")] == [*range(1, 1_001), 1, 1_501, FINAL["seq"]]
        assert follows == [{"type": "follow", **PLACE, "after_seq": 0}]


async def test_readers_of_one_exchange_get_nothing_twice(consumer: Consumer) -> None:
    words = ["a ", "b ", "c "]

    async def patient(socket: ServerConnection) -> None:
        ask = await received(socket, "ask")
        started = {**STARTED, "client_exchange_id": ask["client_exchange_id"]}
        await send(socket, started, *(delta(seq, word) for seq, word in enumerate(words[:-1], 2)))
        await answer_follow(socket, started, words)
        await send(socket, FINAL)
        await socket.wait_closed()

    async with talking(patient) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "one", "message": "hello"})
        await client.until(lambda _: client.written("one") == "a b ")
        await client.tell("follow_exchange", **{"as": "other", **PLACE, "seq": 2})
        await client.ended("other")
        assert client.written("one") == client.written("other") == "".join(words)


async def test_two_readers_of_one_exchange_go_on_after_a_broken_connection(consumer: Consumer) -> None:
    words = ["a ", "b ", "c "]
    follows: list[Line] = []

    async def breaking(socket: ServerConnection) -> None:
        await received(socket, "follow")
        await received(socket, "follow")
        await send(socket, STARTED, delta(2, "a "), delta(3, "b "))
        await received(socket, "stop")
        await socket.close(1011)

    async def again(socket: ServerConnection) -> None:
        follows.append(await received(socket, "follow"))
        await send(socket, delta(4, "c "))
        follows.append(await answer_follow(socket, STARTED, words))
        await send(socket, FINAL)
        await socket.wait_closed()

    async with talking(breaking, again) as address, typescript_client(consumer, address) as client:
        await client.until(lambda line: line.get("phase") == "open")
        await client.tell("follow_exchange", **{"as": "one", **PLACE, "seq": 0})
        await client.tell("follow_session", **{"as": "other", "session_id": "s"})
        for reader in ("one", "other"):
            await client.until(lambda _, reader=reader: client.written(reader) == "a b ")
        await client.tell("stop", **{"as": "one"})
        for reader in ("one", "other"):
            await client.event(reader, "final")
            assert client.written(reader) == "".join(words)
        assert [frame["after_seq"] for frame in follows] == [3, 0]


@pytest.mark.parametrize(
    "unreadable",
    [
        {**FINAL, "messages": None},
        {**FINAL, "messages": [{**MESSAGE, "parts": None}]},
        {"type": "reset", "messages": [], "partial": {}, **PLACE, "seq": 2},
        {"type": "awaiting_human", "payload": {"requests": 7}, **PLACE, "seq": 2},
        {"type": "stream", "message": [], **PLACE, "seq": 2},
        {"type": "delta", "block": "x", "text": {}, **PLACE, "seq": 2},
        {"type": "delta", "block": 1, "channel": "final", "text": "x", **PLACE, "seq": "2"},
        {"type": "activity", "kind": "progress", "data": "x", **PLACE, "seq": 2},
    ],
    ids=lambda event: event["type"],
)
async def test_an_event_that_nobody_can_read_ends_its_own_exchange_alone(
    consumer: Consumer, unreadable: dict[str, Any]
) -> None:
    names = {"session_id": "t", "exchange_id": "f"}

    async def broken(socket: ServerConnection) -> None:
        first, second = await received(socket, "ask"), await received(socket, "ask")
        foreign = {**unreadable, "session_id": "u", "exchange_id": "g"}
        await send(socket, foreign, {**STARTED, "client_exchange_id": first["client_exchange_id"]}, unreadable)
        await send(socket, {"type": "session", "session": 7}, {"type": "error", "refused": "ask", "content": 7})
        started = {**STARTED, **names, "client_exchange_id": second["client_exchange_id"]}
        await send(socket, started, {**FINAL, **names})
        await socket.wait_closed()

    async with talking(broken) as address, typescript_client(consumer, address) as client:
        for reader in ("one", "other"):
            await client.tell("ask", **{"as": reader, "message": "hello"})
        assert (await client.failed("one"))["failed"] == "Unreadable"
        assert [event["type"] for event in await client.ended("other")] == ["started", "final"]
        assert client.phases == ["open"]


async def test_a_refusal_that_names_nothing_ends_the_first_ask_that_waits(consumer: Consumer) -> None:
    async def unable_to_read(socket: ServerConnection) -> None:
        _, second = await received(socket, "ask"), await received(socket, "ask")
        told = {"code": "bad_frame", "content": "What was sent is not JSON.", "retryable": False, "request_id": "r"}
        await send(socket, {"type": "error", **told})
        await send(socket, {**STARTED, "client_exchange_id": second["client_exchange_id"]}, FINAL)
        await socket.wait_closed()

    async with talking(unable_to_read) as address, typescript_client(consumer, address) as client:
        for reader in ("one", "other"):
            await client.tell("ask", **{"as": reader, "message": "hello"})
        failed = await client.failed("one")
        assert (failed["failed"], failed["code"]) == ("Refused", "bad_frame")
        assert [event["type"] for event in await client.ended("other")] == ["started", "final"]


async def test_half_a_character_is_sent_as_one_that_is_unknown(consumer: Consumer, tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, typescript_client(consumer, server.address) as client:
        await client.tell("ask", **{"as": "it", "message": "repeat after me: half \ud83d"})
        events = await client.ended("it")
        check_exchange(events)
        assert events[-1]["messages"][0]["parts"][0]["text"] == "repeat after me: half \ufffd"


async def test_a_token_that_is_refused_is_renewed_once(consumer: Consumer, tmp_path: Path) -> None:
    async with signing_realm() as realm, running_server(tmp_path, settings=realm_settings(realm)) as server:
        old, new = realm.sign(exp=1), realm.sign()
        async with typescript_client(consumer, server.address, old, new) as client:
            await client.tell("ask", **{"as": "it", "message": "my name is Zorblax"})
            check_exchange(await client.ended("it"))
        async with typescript_client(consumer, server.address, old, old) as client:
            await client.tell("ask", **{"as": "it", "message": "hello"})
            failed = await client.failed("it")
            assert (failed["failed"], failed["code"], client.phases[-1]) == ("Disconnected", 4401, "signed_out")


async def test_who_has_no_token_is_signed_out(consumer: Consumer, tmp_path: Path) -> None:
    async with signing_realm() as realm, running_server(tmp_path, settings=realm_settings(realm)) as server:
        async with typescript_client(consumer, server.address) as client:
            await client.until(lambda line: line.get("phase") == "signed_out")


async def test_a_program_whose_chat_is_closed_ends_and_its_readers_are_told(consumer: Consumer) -> None:
    async with talking(saying()) as address, typescript_client(consumer, address) as client:
        await client.tell("ask", **{"as": "it", "message": "hello"})
        await client.tell("close")
        assert (await client.failed("it"))["failed"] == "Disconnected"
        assert client.phases[-1] == "closed"
