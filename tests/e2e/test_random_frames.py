"""Random frames, right and wrong, from several sockets of two users at one real server: the contract holds throughout.

What a user says carries a mark of theirs, which must never show up at the other.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.chat_client import ChatClient, Event, chat, check_calls, check_exchange, is_answer, is_refusal
from support.rest_client import messages_of, rest
from support.running_server import RunningServer, running_server
from support.tabs import Tab, check_lines
from support.test_agents import ENTRIES

ASSISTANT = [
    "repeat after me:",
    "what is 2*3? I am",
    "hang after 5 tokens. I am",
    "fail after 5 tokens. I am",
    "what is 12*34, and wait 5 seconds. I am",
]
AGENTS = ["echo", "raising", "asking", "fails-in-init", "nothing"]
ASKS: list[dict[str, Any]] = [
    *[{"agent_id": "assistant", "message": message} for message in ASSISTANT],
    *[{"agent_id": "assistant", "message": message, "mode": "query"} for message in ASSISTANT[1:3]],
    *[{"agent_id": agent_id, "message": "hello"} for agent_id in AGENTS],
    {"message": "hello", "wizard": 1},
]
HELLO = {"agent_id": "echo", "message": "hello"}
GARBAGE = ["", "{", "[]", "null", '{"type": 5}', '{"type": "final"}', '{"type": "stop"}', '{"message": ""}']
WHO, WHICH = st.integers(0, 3), st.integers(0, 5)
ASK = st.tuples(st.just("ask"), WHO, st.sampled_from(ASKS), WHICH, st.sampled_from([None, None, "x1", "x2", "x3"]))
STEPS = st.lists(
    st.one_of(
        *[ASK] * 8,
        st.tuples(st.just("stop"), WHO, WHICH, st.booleans()),
        st.tuples(st.just("follow"), WHO, WHICH, st.sampled_from([None, 0, 0, 3, 7, 10**6])),
        st.tuples(st.just("unfollow"), WHO, WHICH),
        st.tuples(st.just("trespass"), WHO, WHICH, st.sampled_from(["ask", "stop", "follow", "unfollow"])),
        st.tuples(st.just("say"), WHO, st.sampled_from(GARBAGE)),
        st.tuples(st.just("ping"), WHO),
        st.tuples(st.just("reconnect"), WHO, st.booleans()),
        st.tuples(st.just("rest"), WHO, WHICH, st.sampled_from(["complete", "cancel", "rename", "delete"])),
        st.tuples(st.just("pause"), st.sampled_from([0, 0.005, 0.03])),
    ),
    min_size=10,
    max_size=60,
)


class World:
    """Two users with two tabs each, what they have learned so far, and the steps that they can make."""

    def __init__(self, server: RunningServer, number: int) -> None:
        self.server = server
        self.users = [f"ann-{number}", f"ben-{number}"]
        self.begun: dict[tuple[str, str], str] = {}
        self.deleted = False
        self.tabs = [Tab(server.address, self.users[place // 2]) for place in range(4)]

    def other(self, user: str) -> str:
        return self.users[1 - self.users.index(user)]

    def known(self, user: str, name: str) -> list[str]:
        """The sessions or exchanges (`name`: session_id, exchange_id) that a user has seen, in order."""
        seen = [event[name] for tab in self.tabs if tab.user == user for event in tab.events if "seq" in event]
        return list(dict.fromkeys(value for value in seen if value is not None)) or ["nothing"]

    def one(self, user: str, name: str, which: int) -> str:
        known = self.known(user, name)
        return known[which % len(known)]

    async def ask(self, who: int, ask: dict[str, Any], which: int, name: str | None) -> None:
        tab = self.tabs[who]
        frame = {**ask, "message": f"{ask['message']} {tab.user}"}
        # Mostly in one of the first two sessions, so that asks meet what runs.
        if which and "mode" not in ask:
            frame["session_id"] = self.one(tab.user, "session_id", which % 2)
        received = len(tab.lives[-1])
        await tab.send(frame | ({"client_exchange_id": name} if name else {}))
        # Mostly long enough to learn what it began, so that the next steps can name it.
        with suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                while len(tab.lives[-1]) == received:
                    await asyncio.sleep(0.001)

    async def stop(self, who: int, which: int, by_session: bool) -> None:
        name = "session_id" if by_session else "exchange_id"
        await self.tabs[who].send({"type": "stop", name: self.one(self.tabs[who].user, name, which)})

    async def follow(self, who: int, which: int, after_seq: int | None) -> None:
        name = "session_id" if after_seq is None else "exchange_id"
        frame: dict[str, Any] = {"type": "follow", name: self.one(self.tabs[who].user, name, which)}
        await self.tabs[who].send(frame | ({} if after_seq is None else {"after_seq": after_seq}))

    async def unfollow(self, who: int, which: int) -> None:
        tab = self.tabs[who]
        tab.unfollowed = True
        await tab.send({"type": "unfollow", "session_id": self.one(tab.user, "session_id", which)})

    async def trespass(self, who: int, which: int, verb: str) -> None:
        tab = self.tabs[who]
        frame = {"type": verb, "session_id": self.one(self.other(tab.user), "session_id", which)}
        if verb == "ask":
            frame["message"] = f"trespassing {tab.user}"
        elif which % 2 and verb != "unfollow":
            frame = {"type": verb, "exchange_id": self.one(self.other(tab.user), "exchange_id", which)}
        await tab.send(frame)

    async def say(self, who: int, text: str) -> None:
        await self.tabs[who].send(text)

    async def ping(self, who: int) -> None:
        await self.tabs[who].ping()

    async def reconnect(self, who: int, broken: bool) -> None:
        await self.tabs[who].close(broken=broken)
        await self.tabs[who].open()

    async def rest(self, who: int, which: int, verb: str) -> None:
        user = self.tabs[who].user
        path = f"/sessions/{self.one(user, 'session_id', which)}"
        async with rest(self.server, f"dev:{user}") as http:
            match verb:
                case "rename":
                    response = await http.patch(path, json={"title": f"renamed {user}"})
                case "delete":
                    self.deleted = True
                    response = await http.delete(path)
                case _:
                    response = await http.post(f"{path}/{verb}")
        assert response.status_code in (200, 204, 404)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def live(server: RunningServer, number: int, steps: list[tuple[Any, ...]]) -> None:
    """Make the steps, bring everything to its end, and judge what was received and what is stored."""
    world = World(server, number)
    for who, tab in enumerate(world.tabs):
        await tab.open()
        await world.ask(who, HELLO, 0, None)
        await tab.heard()
    for step in steps:
        act: Callable[..., Coroutine[Any, Any, None]] = getattr(world, step[0])
        await act(*step[1:])
    for tab in world.tabs:
        await tab.heard()
    for user in world.users:
        async with rest(server, f"dev:{user}") as http, chat(server.address, token=f"dev:{user}") as judge:
            await end_all(http, judge)
            await check_store(http, user, world.other(user))
            await check_exchanges(judge, world.known(user, "exchange_id"))
    for tab in world.tabs:
        # Twice, because what is written after the first answer is written before the second.
        await tab.heard()
        await tab.heard()
        await tab.close()
    check_lines(world.tabs)
    for tab in world.tabs:
        check_tab(tab, world)


async def end_all(http: httpx.AsyncClient, judge: ChatClient) -> None:
    """Stop what runs; of every session the server then says that it is idle."""
    for session in await sessions_of(http):
        stop = {"type": "stop", "session_id": session["id"]}
        await judge.send(stop)
        if (await judge.until("final", "idle"))["type"] == "final":
            await judge.send(stop)
            await judge.until("idle")


async def sessions_of(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    sessions: list[dict[str, Any]] = (await http.get("/sessions", params={"limit": 200})).json()["sessions"]
    return sessions


async def check_store(http: httpx.AsyncClient, user: str, other: str) -> None:
    """Ranks have no gap, exchanges came one after the other, and each is whole; nobody else's words are there."""
    for session in await sessions_of(http):
        messages = await messages_of(http, session["id"])
        assert (session["user_id"], session["next_rank"]) == (user, len(messages))
        assert session["message_count"] == len(messages)
        assert other not in str(messages) + str(session)
        assert all(before["timestamp"] <= after["timestamp"] for before, after in pairwise(messages))
        for exchange_id in dict.fromkeys(message["exchange_id"] for message in messages):
            record = (await http.get(f"/exchanges/{exchange_id}")).json()
            mine = [message for message in messages if message["exchange_id"] == exchange_id]
            ranks = [message["rank"] for message in mine]
            assert ranks == list(range(ranks[0], ranks[-1] + 1)), "one exchange at a time"
            assert mine[0]["role"] == "user" and user in str(mine[0]["parts"])
            check_calls(mine)
            answers = sum(is_answer(message) for message in mine)
            assert answers == 1 if record["status"] == "ok" else answers <= 1
            assert record["status"] in ("ok", "error", "stopped")


async def check_exchanges(judge: ChatClient, exchange_ids: list[str]) -> None:
    """Every exchange that was ever seen has ended, and can be followed from its beginning unless it was deleted."""
    for exchange_id in exchange_ids:
        # A query may still run, because it has no session that could be stopped.
        await judge.send({"type": "stop", "exchange_id": exchange_id})
        await answered(judge)
        before = len(judge.events)
        await judge.send({"type": "follow", "exchange_id": exchange_id})
        last = await answered(judge)
        if is_refusal(last):
            assert last["code"] == "exchange_not_found"
        else:
            check_exchange(judge.events[before:])


async def answered(judge: ChatClient) -> Event:
    """The next event that ends an answer."""
    while True:
        event = await judge.receive()
        if event["type"] in ("final", "idle") or is_refusal(event):
            return event


def check_tab(tab: Tab, world: World) -> None:
    """What a tab received is its user's own, and nothing in it went wrong."""
    other = world.other(tab.user)
    foreign = {*world.known(other, "session_id"), *world.known(other, "exchange_id")} - {"nothing"}
    for event in tab.events:
        assert other not in str(event)
        if is_refusal(event):
            assert event["code"] != "internal"
            if foreign & {event.get("session_id"), event.get("exchange_id")}:
                assert event["code"] in ("session_not_found", "exchange_not_found")
            continue
        assert not any(name in str(event) for name in foreign)
        if event["type"] == "started" and "client_exchange_id" in event:
            assert event["session"] is None or event["session"]["user_id"] == tab.user
            begun = world.begun.setdefault((tab.user, event["client_exchange_id"]), event["exchange_id"])
            assert begun == event["exchange_id"] or world.deleted, "one name, one exchange"
    last = {event["exchange_id"]: event["type"] for event in map(json.loads, tab.lives[-1]) if "seq" in event}
    assert tab.unfollowed or set(last.values()) <= {"final"}, "who follows an exchange sees its end"


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The loop in which one server lives through all examples."""
    with asyncio.Runner() as runner:
        yield runner


def test_the_contract_holds_for_random_frames(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    serving = running_server(tmp_path, agents=ENTRIES)
    server = runner.run(serving.__aenter__())
    numbers = count()

    # Not shrunk: the times are real, so that a smaller example may well pass.
    @settings(
        max_examples=15,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(STEPS)
    def hold(steps: list[tuple[Any, ...]]) -> None:
        runner.run(live(server, next(numbers), steps))

    try:
        hold()
    finally:
        runner.run(serving.__aexit__(None, None, None))
    odd = {"frame failed", "socket failed", "background task failed", "request failed"}
    assert odd & {record.getMessage() for record in caplog.records} == set()
