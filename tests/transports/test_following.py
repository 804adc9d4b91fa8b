"""`follow` and `unfollow`: whatever happens to sockets, a client can see all of an exchange."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support import paced_agent
from support.chat_client import PATIENCE_S, ChatClient, Event, chat, check_exchange, final_text, text_of
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES

from agentic_backend.offline.phrases import lorem

MODEL = {"models": {"default": {"model": "offline", "options": {"words_per_second": 0, "countdown_per_second": 100}}}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server whose countdowns take a hundredth of a second a number."""
    async with running_server(tmp_path, agents=[*ENTRIES, paced_agent.ENTRY], settings=MODEL) as server:
        yield server


@pytest.fixture
def pace() -> paced_agent.Pace:
    """Lets the paced agent say its next words."""
    return paced_agent.begin()


@pytest.fixture
async def forgetful_server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """A server that keeps no events of ended exchanges."""
    directory = tmp_path / "forgetful"
    directory.mkdir()
    async with running_server(directory, agents=ENTRIES, settings={"relay": {"keep_ended_bytes": 0}}) as server:
        yield server


async def running(client: ChatClient, message: str = "count down slowly from 60", **fields: Any) -> Event:
    """The `started` of an exchange that goes on for a while and has begun to speak."""
    await client.send({"message": message, **fields})
    started = await client.until("started")
    await client.until("delta", exchange_id=started["exchange_id"])
    return started


async def writing(client: ChatClient, pace: paced_agent.Pace) -> Event:
    """The `started` of an exchange that has begun to speak, and goes on when the test allows it."""
    pace.write(5)
    return await running(client, paced_agent.ASK, agent_id="paced")


async def lines_until_final(client: ChatClient) -> list[str]:
    """The frames as they arrive, up to a final."""
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while True:
            line = str(await client.socket.recv())
            event = json.loads(line)
            if "seq" in event:
                lines.append(line)
            if event["type"] == "final":
                return lines


def joined(lines: list[str]) -> list[object]:
    """Frames as they are, but all that was said in a block between two of them as one: merging is the server's."""
    shown: list[object] = []
    for line in lines:
        event = json.loads(line)
        if event["type"] != "delta":
            shown.append(line)
        elif shown and isinstance(shown[-1], dict):
            shown[-1][event["block"]] = shown[-1].get(event["block"], "") + event["text"]
        else:
            shown.append({event["block"]: event["text"]})
    return shown


def after(events: list[Event], seq: int) -> list[str]:
    return [json.dumps(event) for event in events if event["seq"] > seq]


async def followed(client: ChatClient, exchange_id: str, after_seq: int, **fields: Any) -> list[Event]:
    """What a `follow` of an ended exchange gives, up to its final."""
    before = len(client.events)
    await client.send({"type": "follow", "exchange_id": exchange_id, "after_seq": after_seq, **fields})
    await client.until("final")
    return client.events[before:]


async def test_two_tabs_get_the_same_bytes(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as other:
        await one.send({"message": "What time is it in Tokyo, and what is 12*34?"})
        first = await one.socket.recv()
        started = json.loads(first)
        await other.send({"type": "follow", "exchange_id": started["exchange_id"]})
        seen = await asyncio.gather(lines_until_final(one), lines_until_final(other))
        assert joined([str(first), *seen[0]]) == joined(seen[1])
        check_exchange([json.loads(line) for line in seen[1]])


async def test_a_tab_that_opens_late_gets_what_the_first_one_saw(server: RunningServer, pace: paced_agent.Pace) -> None:
    async with chat(server.address) as one, chat(server.address) as other:
        started = await writing(one, pace)
        await other.send({"type": "follow", "session_id": started["session_id"]})
        first = await other.socket.recv()
        pace.finish()
        seen = await asyncio.gather(lines_until_final(one), lines_until_final(other))
        exchange = [event for event in one.events if "seq" in event]
        before = [json.dumps(event, separators=(",", ":"), ensure_ascii=False) for event in exchange]
        assert joined(before + seen[0]) == joined([str(first), *seen[1]])


async def test_a_follow_from_any_place_gives_exactly_what_came_after_it(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("tell me what you do: wait 0.1 seconds, and then what is 2*3? ")
        check_exchange(events)
        exchange_id = events[-1]["exchange_id"]
        await client.named()
        for seq in [0, *(event["seq"] for event in events[:-1])]:
            again = await followed(client, exchange_id, seq)
            assert joined([json.dumps(event) for event in again]) == joined(after(events, seq))
        await client.send({"type": "follow", "exchange_id": exchange_id, "after_seq": events[-1]["seq"]})
        assert (await client.receive())["type"] == "idle"


async def test_a_socket_that_breaks_in_the_middle_of_an_answer_loses_nothing(
    server: RunningServer, pace: paced_agent.Pace
) -> None:
    events: list[Event] = []
    async with chat(server.address) as client:
        started = await writing(client, pace)
        events += client.events
        client.socket.transport.abort()
    for _ in range(5):
        async with chat(server.address) as client:
            follow = {"type": "follow", "exchange_id": started["exchange_id"], "after_seq": events[-1]["seq"]}
            await client.send(follow)
            for _ in range(2):
                pace.write(10)
                events.append(await client.receive())
            client.socket.transport.abort()
    pace.finish()
    async with chat(server.address) as client:
        await client.send(follow | {"after_seq": events[-1]["seq"]})
        await client.until("final")
        events += client.events
    check_exchange(events)
    assert final_text(events) == lorem(paced_agent.WORDS)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_place_that_the_log_does_not_know_is_answered_by_a_reset(server: RunningServer, ended: bool) -> None:
    async with chat(server.address) as client, chat(server.address) as other:
        started = await running(client, "hang after 20 tokens")
        if ended:
            await client.send({"type": "stop", "session_id": started["session_id"]})
            await client.until("final")
        await other.send({"type": "follow", "exchange_id": started["exchange_id"], "after_seq": 1_000_000})
        reset = await other.receive()
        await other.send({"type": "stop", "session_id": started["session_id"]})
        final = await other.until("final")
        assert reset["type"] == "reset"
        assert reset["seq"] < final["seq"]
        assert reset["messages"] == final["messages"][: len(reset["messages"])]
        said = {partial["block"]: partial["text"] for partial in reset["partial"]}
        for event in other.events:
            if event["type"] == "delta":
                assert event["seq"] > reset["seq"]
                said[event["block"]] += event["text"]
        assert set(said.values()) <= {final_text([final])}
        assert bool(said) is not ended


async def test_a_reset_of_a_waiting_exchange_tells_again_what_it_waits_for(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "asking"})
        waiting = await client.until("awaiting_human")
        await client.named()
        await client.send({"type": "follow", "exchange_id": waiting["exchange_id"], "after_seq": 1_000_000})
        reset = await client.receive()
        assert (reset["type"], reset["partial"]) == ("reset", [])
        again = await client.receive()
        assert again == waiting and again["seq"] > reset["seq"]


async def test_following_a_session_shows_what_runs_and_every_later_exchange_until_unfollow(
    server: RunningServer,
) -> None:
    async with chat(server.address) as one, chat(server.address) as tab:
        first = await running(one, "hang after 20 tokens")
        session_id = first["session_id"]
        await tab.send({"type": "follow", "session_id": session_id})
        await tab.until("delta")
        await one.send({"type": "stop", "session_id": session_id})
        await one.until("final")
        await tab.until("final")
        check_exchange([event for event in tab.events if "seq" in event])
        for number in range(3):
            mine = await one.ask(f"number {number}", agent_id="echo", session_id=session_id)
            await tab.until("final", exchange_id=mine[-1]["exchange_id"])
            shown = [event for event in tab.events if event.get("exchange_id") == mine[-1]["exchange_id"]]
            check_exchange(shown)
            assert shown[-1] == mine[-1]
        await tab.send({"type": "unfollow", "session_id": session_id})
        await tab.send({"type": "ping"})
        await tab.until("pong")
        await one.ask("one more", agent_id="echo", session_id=session_id)
        await tab.silent()


async def test_unfollow_ends_the_events_of_what_runs_and_follow_brings_them_back(
    server: RunningServer, pace: paced_agent.Pace
) -> None:
    async with chat(server.address) as client:
        started = await writing(client, pace)
        await client.send({"type": "unfollow", "session_id": started["session_id"]})
        await client.send({"type": "ping"})
        await client.until("pong")
        pace.write(10)
        await client.silent()
        await client.send({"type": "follow", "session_id": started["session_id"]})
        before = len(client.events)
        await client.until("started")
        pace.finish()
        await client.until("final")
        check_exchange(client.events[before:])


async def test_another_follow_moves_the_one_cursor(server: RunningServer, pace: paced_agent.Pace) -> None:
    async with chat(server.address) as client:
        started = await writing(client, pace)
        for _ in range(5):
            await client.send({"type": "follow", "exchange_id": started["exchange_id"]})
        # A follow after the end would show it again.
        await client.send({"type": "ping"})
        await client.until("pong")
        pace.finish()
        final = await client.until("final")
        await client.named()
        again = [event for event in client.events if event["type"] == "started"]
        assert 2 <= len(again) <= 6
        last = max(place for place, event in enumerate(client.events) if event["type"] == "started")
        check_exchange(client.events[last:])
        assert [event for event in client.events if event["type"] == "final"] == [final]
        await client.silent()


async def test_following_an_idle_session_is_answered_by_idle(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        empty = (await http.post("/sessions", json={})).json()
        await client.send({"type": "follow", "session_id": empty["id"]})
        assert await client.receive() == {"type": "idle", "session_id": empty["id"], "next_rank": 0}
        await client.ask("hello", agent_id="echo", session_id=empty["id"])
        await client.send({"type": "follow", "session_id": empty["id"]})
        assert await client.until("idle") == {"type": "idle", "session_id": empty["id"], "next_rank": 2}
        assert len(await messages_of(http, empty["id"])) == 2


@pytest.mark.parametrize("forgets", [False, True], ids=["kept", "gone"])
async def test_following_an_exchange_at_its_very_end_is_answered_by_idle(
    server: RunningServer, forgetful_server: RunningServer, forgets: bool
) -> None:
    async with chat((forgetful_server if forgets else server).address) as client:
        final = (await client.ask("hello", agent_id="echo"))[-1]
        await client.ask("hello again", agent_id="echo", session_id=final["session_id"])
        at_the_end = {"type": "follow", "exchange_id": final["exchange_id"], "after_seq": final["seq"]}
        for frame in (at_the_end, at_the_end | {"session_id": final["session_id"]}):
            await client.send(frame)
            assert await client.until("idle") == {"type": "idle", "session_id": final["session_id"], "next_rank": 4}
        # A cursor that was further back has moved: nothing is shown again.
        await client.send(at_the_end | {"after_seq": 0})
        await client.send(at_the_end)
        before = len(client.events)
        await client.until("idle")
        assert [event["type"] for event in client.events[before:]].count("final") <= 1
        await client.silent()


async def test_following_a_query_at_its_very_end_is_answered_by_idle(server: RunningServer) -> None:
    async with chat(server.address) as client:
        final = (await client.ask("hello", agent_id="echo", mode="query"))[-1]
        await client.send({"type": "follow", "exchange_id": final["exchange_id"], "after_seq": final["seq"]})
        assert await client.receive() == {"type": "idle", "session_id": None, "next_rank": 0}


async def test_of_an_exchange_whose_events_are_gone_there_is_still_the_final(forgetful_server: RunningServer) -> None:
    async with chat(forgetful_server.address) as client:
        for message, fields in [("What is 12*34?", {}), ("hello", {"agent_id": "raising"})]:
            events = await client.ask(message, **fields)
            for after_seq in (0, 3, 1_000_000):
                again = await followed(client, events[-1]["exchange_id"], after_seq)
                [final] = [event for event in again if event["type"] != "session"]
                assert final == events[-1] | {"session": final["session"]}


async def test_a_session_tells_its_followers_when_its_title_or_state_changes(server: RunningServer) -> None:
    async with chat(server.address) as one, chat(server.address) as other, rest(server) as http:
        session_id = (await one.ask("hello", agent_id="echo"))[-1]["session_id"]
        await other.send({"type": "follow", "session_id": session_id})
        await other.until("idle")
        renamed = (await http.patch(f"/sessions/{session_id}", json={"title": "A new name"})).json()
        for client in (one, other):
            while (changed := await client.until("session"))["session"]["title"] != "A new name":
                pass
            assert changed == {"type": "session", "session": renamed}
        await http.post(f"/sessions/{session_id}/complete")
        for client in (one, other):
            assert (await client.until("session"))["session"]["state"] == "completed"
        await other.send({"type": "unfollow", "session_id": session_id})
        await other.send({"type": "ping"})
        await other.until("pong")
        await http.patch(f"/sessions/{session_id}", json={"title": "Another one"})
        await one.until("session")
        await other.silent()


async def test_a_new_session_gets_its_title_after_the_first_token(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "count down slowly from 50, and tell me about it"})
        types = []
        while "session" not in types:
            types.append((await client.receive())["type"])
        assert "delta" in types, "the title never comes before the first token"
        named = client.events[-1]["session"]
        started = client.events[0]["session"]
        assert named["title"] != started["title"]
        assert named["id"] == started["id"]


@pytest.mark.parametrize("exchange", [True, False])
async def test_what_is_another_users_is_not_found(server: RunningServer, exchange: bool) -> None:
    async with chat(server.address, token="dev:alice") as alice, chat(server.address, token="dev:bob") as bob:
        started = await running(alice)
        session, exchange_id = started["session_id"], started["exchange_id"]
        for target in ({"exchange_id": exchange_id}, {"session_id": session, "exchange_id": exchange_id}):
            await bob.send({"type": "follow", **target})
            refused = await bob.receive()
            assert (refused["code"], refused["refused"]) == ("exchange_not_found", "follow")
            assert {name: refused[name] for name in target} == target
        await bob.send({"type": "follow", "session_id": session})
        assert (await bob.receive())["code"] == "session_not_found"
        await bob.send({"type": "unfollow", "session_id": session})
        await alice.until("final")
        await bob.send({"type": "follow", "exchange_id": exchange_id})
        assert (await bob.receive())["code"] == "exchange_not_found"
        await bob.silent()


async def test_what_is_not_there_is_not_found(server: RunningServer) -> None:
    async with chat(server.address) as client:
        mine, other = await client.ask("hello", agent_id="echo"), await client.ask("hi", agent_id="echo")
        await client.send({"type": "follow", "session_id": "nothing"})
        assert (await client.until("error"))["code"] == "session_not_found"
        await client.send({"type": "follow", "exchange_id": "nothing"})
        assert (await client.until("error"))["code"] == "exchange_not_found"
        mixed = {"session_id": mine[-1]["session_id"], "exchange_id": other[-1]["exchange_id"]}
        await client.send({"type": "follow", **mixed})
        assert (await client.until("error"))["code"] == "exchange_not_found"


async def test_a_deleted_session_can_not_be_followed(server: RunningServer) -> None:
    async with chat(server.address) as client, rest(server) as http:
        final = (await client.ask("hello", agent_id="echo", client_exchange_id="x1"))[-1]
        assert (await http.delete(f"/sessions/{final['session_id']}")).status_code == 204
        await client.send({"type": "follow", "exchange_id": final["exchange_id"]})
        assert (await client.until("error", "final"))["code"] == "exchange_not_found"
        await client.send({"type": "follow", "session_id": final["session_id"]})
        assert (await client.until("error", "final"))["code"] == "session_not_found"
        events = await client.ask("hello again", agent_id="echo", client_exchange_id="x1")
        assert final_text(events) == "echo: hello again", "the name is free again"


def _said(client: ChatClient, channel: str) -> str:
    return "".join(event["text"] for event in client.events if event.get("channel") == channel and "text" in event)


async def test_a_block_that_is_being_written_is_shown_in_a_reset(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.send({"message": "think first: hang after 20 tokens"})
        await client.until("started")
        while len(_said(client, "final").split()) < 20:
            await client.receive()
        await client.send({"type": "follow", "exchange_id": client.events[0]["exchange_id"], "after_seq": 99_999})
        reset = await client.until("reset")
        channels = {partial["channel"]: partial["text"] for partial in reset["partial"]}
        assert set(channels) == {"thought", "final"}
        assert [text_of(message) for message in reset["messages"]] == ["think first: hang after 20 tokens"]
        assert len(channels["final"].split()) == 20
