"""An exchange that waits for a person needs no process: it outlives its server, and a decision counts once."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
from faults.sizes import SIZES
from support.chat_client import Event, chat
from support.fault_agents import notes
from support.figures import figure
from support.rest_client import error_of, rest
from support.server_process import ServerProcess, serving
from support.stored_session import stored_session

USER, STRANGER = "dev:ann", "dev:bob"
LEASE_S = 5
SCRIPT = "words 3 0 | note a | send b | words 4 0"


async def waiting(server: ServerProcess) -> Event:
    """Ask for something that needs an approval; the event that asks for it."""
    async with chat(server.address, token=USER) as client:
        await client.send({"message": SCRIPT, "agent_id": "approved"})
        return await client.until("awaiting_human")


def approval(asked: Event, **changes: Any) -> dict[str, Any]:
    """The payload that approves of all that is asked."""
    return {
        "decisions": [
            {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve", **changes}
            for request in asked["payload"]["requests"]
        ]
    }


async def decide(http: httpx.AsyncClient, asked: Event, payload: dict[str, Any]) -> str:
    """Send the payload; `ok` once its exchange has ended well, or the code of the refusal."""
    path = f"/exchanges/{asked['exchange_id']}/resume"
    async with http.stream("POST", path, json={"payload": payload}) as response:
        body = (await response.aread()).decode()
    return "ok" if response.status_code == 200 and '"status":"ok"' in body else str(error_of(response)["code"])


def sent(directory: Path) -> int:
    return [value for value, _ in notes(directory)].count("b")


async def check_sent_once(http: httpx.AsyncClient, asked: Event, directory: Path) -> None:
    [exchange] = await stored_session(http, asked["session_id"])
    assert exchange.status == "ok" and exchange.answer == "1 2 3 4"
    assert [value for value, _ in notes(directory)] == ["a", "b"]
    [decision] = exchange.record["decisions"]
    assert (decision["action"], decision["by"], decision["args"]) == ("approve", "ann", {"value": "b"})


async def test_a_decision_after_a_restart_counts_once(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        asked = await waiting(server)
        assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        record = (await http.get(f"/exchanges/{asked['exchange_id']}")).json()
        assert (record["status"], record["pending"]) == ("awaiting_human", asked["payload"])
        await shows_what_waits(server, asked)
        assert await decide(http, asked, approval(asked)) == "ok"
        await check_sent_once(http, asked, directory)
        for again in (approval(asked), approval(asked, action="reject")):
            assert await decide(http, asked, again) == "approval_not_found"
        await check_sent_once(http, asked, directory)
    figure("approved after kill -9 and a restart: ran once; the decision sent again: approval_not_found")


async def shows_what_waits(server: ServerProcess, asked: Event) -> None:
    """A tab that opens later sees the question, without its socket having heard of it before."""
    async with chat(server.address, token=USER) as tab:
        await tab.send({"type": "follow", "session_id": asked["session_id"]})
        assert (await tab.until("awaiting_human"))["payload"] == asked["payload"]


async def test_a_decision_at_another_instance_counts_once(directory: Path, mongodb_url: str) -> None:
    """Where it was asked is killed, or decides at the same moment as the other instance."""
    environment = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S)}
    async with AsyncExitStack() as running:
        first, other = [
            await running.enter_async_context(serving("--store", mongodb_url, cwd=directory, environment=environment))
            for _ in range(2)
        ]
        https = [await running.enter_async_context(rest(server, USER)) for server in (first, other)]
        both = await waiting(first)
        codes = await asyncio.gather(*(decide(http, both, approval(both)) for http in https))
        assert sorted(codes) == ["approval_not_found", "ok"]
        await check_sent_once(https[1], both, directory)
        (directory / "notes.txt").unlink()

        asked = await waiting(first)
        assert await first.stop(signal.SIGKILL) == -signal.SIGKILL
        await asyncio.sleep(LEASE_S + 1)
        await shows_what_waits(other, asked)
        assert await decide(https[1], asked, approval(asked)) == "ok"
        await check_sent_once(https[1], asked, directory)
        assert await decide(https[1], asked, approval(asked)) == "approval_not_found"
    figure("decided at another instance: ran once, also where both instances were told at the same moment")


async def test_no_decision_that_nobody_may_make_is_acted_upon(directory: Path) -> None:
    """Other arguments, other calls, other people, old decisions: none of them runs anything or changes what waits."""
    choice = random.Random(5)
    async with serving(cwd=directory) as server, rest(server, USER) as http, rest(server, STRANGER) as stranger:
        old, asked = await waiting(server), await waiting(server)
        assert await decide(http, old, approval(old)) == "ok"
        before = sent(directory)
        codes = set()
        for _ in range(SIZES.tampered):
            client, exchange, payload, expected = choice.choice(tampered(http, stranger, old, asked, choice))
            codes.add(code := await decide(client, exchange, payload))
            assert code in expected, (code, expected)
        assert sent(directory) == before
        record = (await http.get(f"/exchanges/{asked['exchange_id']}")).json()
        assert (record["status"], record["pending"]) == ("awaiting_human", asked["payload"])
        assert await decide(http, asked, approval(asked)) == "ok"
        assert sent(directory) == before + 1
    figure(f"{SIZES.tampered} tampered, replayed and foreign decisions: none executed ({', '.join(sorted(codes))})")


Tampered = tuple[httpx.AsyncClient, Event, dict[str, Any], set[str]]


def tampered(
    http: httpx.AsyncClient, stranger: httpx.AsyncClient, old: Event, asked: Event, choice: random.Random
) -> list[Tampered]:
    """Decisions that must not count, each with who sends it, to which exchange, and the codes that may refuse it."""
    good, sha = approval(asked), asked["payload"]["requests"][0]["args_sha256"]
    other_sha = f"{choice.getrandbits(256):064x}"
    mismatch, not_found = {"approval_mismatch"}, {"approval_not_found"}
    edited = {"action": "edit", "args": {"value": "z"}, "args_sha256": other_sha}
    twice = {"decisions": good["decisions"] * 2}
    half = {"decisions": [*good["decisions"], {"call_id": "none", "args_sha256": sha, "action": "approve"}]}
    return [
        (http, asked, approval(asked, args_sha256=other_sha), mismatch),
        (http, asked, approval(asked, **edited), mismatch),
        (http, asked, approval(asked, call_id=f"call-{choice.getrandbits(32)}"), not_found),
        (http, asked, approval(old), not_found),
        (http, old, approval(old), not_found),
        (http, old, good, not_found),
        (http, asked, half, not_found),
        (http, asked, twice, {"approval_not_found", "bad_frame"}),
        (http, asked, approval(asked, action="edit"), {"bad_frame"}),
        (stranger, asked, good, {"exchange_not_found"}),
    ]
