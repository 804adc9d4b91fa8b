"""Exchanges go on without sockets: a client that comes back has every event once, and every tab shows the same."""

import asyncio
import random
from pathlib import Path

from faults.sizes import SIZES
from support.chat_client import chat, is_refusal
from support.durable_client import DurableClient
from support.fault_agents import words
from support.figures import figure
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.shown_exchange import ShownExchange
from support.stored_session import stored_session

USER = "dev:ann"
CLIENTS, TABS = 8, 5
AT_THE_SAME_TIME, WITHIN_S = 40, 0.01
ASK = "words 30 100 | note a | words 170 100"


async def test_a_client_that_loses_its_socket_again_and_again_has_every_event_once(directory: Path) -> None:
    """Gaps and repeats are errors of ShownExchange; that nothing is missing at the end is seen in the text."""
    moments = random.Random(1)
    async with serving(cwd=directory) as server:
        dropped = await asyncio.gather(*(keep_dropping(server, moments, number) for number in range(CLIENTS)))
    reconnects = sum(dropped)
    assert reconnects >= SIZES.reconnects
    figure(f"{reconnects} reconnects at random points: 0 gaps, 0 repeats")


async def keep_dropping(server: ServerProcess, moments: random.Random, number: int) -> int:
    """Chat on until this client has reconnected often enough; how often that was."""
    client = DurableClient(lambda: server.address, user=f"user-{number}")
    reconnects, session = 0, {}
    while reconnects * CLIENTS < SIZES.reconnects:
        opened = client.opened
        asking = asyncio.create_task(client.ask(ASK, **session))
        while not asking.done():
            await asyncio.wait({asking}, timeout=moments.uniform(0, 0.4))
            client.drop()
        final = await asking
        session = {"session_id": final["session_id"]}
        assert final["status"] == "ok"
        reconnects += client.opened - opened - 1
        async with rest(server, f"dev:{client.user}") as http:
            stored = (await stored_session(http, final["session_id"]))[-1]
        assert list(client.shown.messages.values()) == final["messages"] == stored.messages
        assert stored.answer == words(170)
    return reconnects


async def test_tabs_that_join_at_any_moment_show_the_same_to_the_last_byte(directory: Path) -> None:
    moments = random.Random(2)
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        session_id = (await http.post("/sessions", json={})).json()["id"]
        first = DurableClient(lambda: server.address)
        asking = asyncio.create_task(first.ask(ASK, session_id=session_id))
        tabs = await asyncio.gather(*(tab(server, session_id, moments.uniform(0, 2)) for _ in range(TABS)))
        await asking
        [exchange] = await stored_session(http, session_id)
    texts = {repr(sorted(shown.messages.items())) for shown in (first.shown, *tabs)}
    assert texts == {repr(list(enumerate(exchange.messages)))}
    assert exchange.answer == words(170)
    figure(f"{TABS} tabs that joined at random moments: byte-equal")


async def tab(server: ServerProcess, session_id: str, after_s: float) -> ShownExchange:
    """What a tab shows that is opened after some time and follows the session."""
    await asyncio.sleep(after_s)
    shown = ShownExchange()
    async with chat(server.address, token=USER) as client:
        await client.send({"type": "follow", "session_id": session_id})
        while shown.final is None:
            event = await client.receive()
            assert not is_refusal(event)
            if "seq" in event:
                shown.apply(event)
    return shown


async def test_a_tab_that_comes_together_with_the_ask_sees_it_too(directory: Path) -> None:
    moments = random.Random(3)
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        async with chat(server.address, token=USER) as asking, chat(server.address, token=USER) as following:
            for _ in range(AT_THE_SAME_TIME):
                session_id = (await http.post("/sessions", json={})).json()["id"]
                await asking.send({"message": "words 10 100", "session_id": session_id})
                await asyncio.sleep(moments.uniform(-WITHIN_S, WITHIN_S))
                await following.send({"type": "follow", "session_id": session_id})
                finals = [await client.until("final") for client in (asking, following)]
                assert finals[0] == finals[1]
    figure(f"{AT_THE_SAME_TIME} tabs that came together with the ask: each saw it")
