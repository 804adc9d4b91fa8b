"""A stop that comes while an exchange is ending: it ends once, in one status, and the session goes on."""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import httpx
from faults.sizes import SIZES
from support.chat_client import ChatClient, Event, chat
from support.figures import figure
from support.rest_client import rest
from support.server_process import ServerProcess, serving
from support.stored_session import stored_session

SESSIONS = 20
# Below zero is at once: some stops come while their ask is being admitted.
SHORTEST_S, LONGEST_S = -0.02, 0.12
ASKS = ["words 6 200", "words 2 200 | note a | words 2 200"]


async def test_a_race_of_stop_against_finish_has_one_end(directory: Path) -> None:
    moments = random.Random(3)
    async with serving(cwd=directory, environment={"AGENTIC_LOG__LEVEL": "error"}) as server:
        raced = await asyncio.gather(*(race(server, number, moments) for number in range(SESSIONS)))
    ends = sum(raced, Counter[str]())
    assert set(ends) == {"ok", "stopped"}, "both sides win some"
    assert ends.total() >= SIZES.races
    told = ", ".join(f"{count} {status}" for status, count in sorted(ends.items()))
    figure(f"{ends.total()} races of stop against finish: exactly one end each ({told})")


async def duration(client: ChatClient) -> float:
    """How long an exchange takes on this machine at the moment, in seconds: on a slow one no stop would be too late."""
    began = time.monotonic()
    await client.ask(ASKS[1])
    return time.monotonic() - began


async def race(server: ServerProcess, number: int, moments: random.Random) -> Counter[str]:
    """Stop exchange after exchange of one session around the time at which it ends; how they ended."""
    ends: dict[str, str] = {}
    async with chat(server.address) as client, rest(server) as http:
        longest_s = max(LONGEST_S, 1.5 * await duration(client))
        session_id = (await http.post("/sessions", json={})).json()["id"]
        for turn in range(-(-SIZES.races // SESSIONS)):
            await client.send({"message": ASKS[(number + turn) % len(ASKS)], "session_id": session_id})
            await asyncio.sleep(moments.uniform(SHORTEST_S, longest_s))
            stop = stop_over_rest if moments.random() < 0.3 else stop_over_socket
            final = await stop(client, http, session_id)
            assert final["type"] == "final", final
            ends[final["exchange_id"]] = final["status"]
        stored = await stored_session(http, session_id)
    finals = [event["exchange_id"] for event in client.events if event["type"] == "final"][1:]
    assert finals == list(ends), "each has one final"
    assert {exchange.record["id"]: exchange.status for exchange in stored} == ends
    return Counter(ends.values())


async def stop_over_socket(client: ChatClient, http: httpx.AsyncClient, session_id: str) -> Event:
    """Stop what runs; the final, and the stop's answer read too."""
    before = len(client.events)
    await client.send({"type": "stop", "session_id": session_id})
    final = await client.ended()
    await client.send({"type": "ping"})
    await client.until("pong")
    answers = [event["type"] for event in client.events[before:] if event["type"] in ("final", "idle")]
    assert answers in (["final"], ["final", "idle"]), "a stop is answered once the exchange has ended"
    return final


async def stop_over_rest(client: ChatClient, http: httpx.AsyncClient, session_id: str) -> Event:
    """Stop what runs; the final."""
    response = await http.post(f"/sessions/{session_id}/cancel", json={})
    assert response.status_code == 200, response.text
    return await client.ended()
