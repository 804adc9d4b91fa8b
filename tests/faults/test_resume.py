"""What a crash has interrupted goes on from its last checkpoint, and a tool that had finished isn't run again."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
from support.chat_client import Event, check_exchange, is_answer, text_of
from support.durable_client import DurableClient
from support.fault_agents import notes, words
from support.figures import figure
from support.rest_client import error_of, rest, sse_events
from support.server_process import ServerProcess, serving
from support.shown_exchange import ShownExchange
from support.stored_session import ended, stored_session

USER = "dev:ann"
LEASE_S = 5
# A tool that finishes, one that is running when the server is killed, and an answer.
SCRIPT = "note a | hold 0.3 | stumble b | words 30 0"


def runs(directory: Path) -> list[str]:
    return [value for value, _ in notes(directory)]


async def interrupted(
    server: ServerProcess, script: str, until: Callable[[ShownExchange], object], agent_id: str = "scripted"
) -> dict[str, str]:
    """Kill the server when an exchange has come so far; the ids of that one."""
    client = DurableClient(lambda: server.address)
    asking = asyncio.create_task(client.ask(script, agent_id=agent_id))
    async with asyncio.timeout(60):
        while not until(client.shown):
            assert not asking.done(), asking.result()
            await asyncio.sleep(0.01)
    # Checkpoints are taken where a tool has finished, which is a moment after its result is seen.
    await asyncio.sleep(0.5)
    assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
    asking.cancel()
    await asyncio.wait({asking})
    assert client.shown.session_id is not None and client.shown.exchange_id is not None
    return {"session_id": client.shown.session_id, "exchange_id": client.shown.exchange_id}


def in_second_tool(directory: Path) -> Callable[[ShownExchange], object]:
    return lambda shown: runs(directory) == ["a", "b"]


async def resume(http: httpx.AsyncClient, exchange_id: str) -> list[Event]:
    """The events of the exchange that goes on with this one."""
    async with http.stream("POST", f"/exchanges/{exchange_id}/resume", json={}) as response:
        if response.status_code != 200:
            await response.aread()
        assert response.status_code == 200, response.text
        return [event async for event in sse_events(response)]


async def check_resumed(http: httpx.AsyncClient, left: dict[str, str], directory: Path) -> None:
    """The session has the interrupted exchange and the one that went on, in which only what was open has run again."""
    first, second = await stored_session(http, left["session_id"])
    assert (first.status, second.status) == ("interrupted", "ok")
    assert (first.record["id"], second.record["resumes"]) == (left["exchange_id"], left["exchange_id"])
    assert second.messages[0]["parts"] == first.messages[0]["parts"]
    assert second.messages[0]["metadata"]["extras"]["resumes"] == left["exchange_id"]
    assert second.answer == words(30)
    assert runs(directory) == ["a", "b", "b"]
    [before, again] = [key for value, key in notes(directory) if value == "b"]
    assert before == again, "a tool that runs again finds the idempotency key of its first run"
    figure("a finished tool ran once; the one that was cut ran again under the same idempotency key")


async def test_an_interrupted_exchange_goes_on_without_its_finished_tools(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        left = await interrupted(server, SCRIPT, in_second_tool(directory))
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        assert await ended(http, left["exchange_id"]) == "interrupted"
        events = await resume(http, left["exchange_id"])
        check_exchange(events)
        assert events[0]["resumes"] == left["exchange_id"]
        assert (events[-1]["status"], answer_of(events[-1])) == ("ok", words(30))
        await check_resumed(http, left, directory)
        refused = await http.post(f"/exchanges/{left['exchange_id']}/resume", json={})
        assert (refused.status_code, error_of(refused)["code"]) == (409, "checkpoint_missing")


def answer_of(final: Event) -> str:
    [answer] = [message for message in final["messages"] if is_answer(message)]
    return text_of(answer)


async def test_another_instance_goes_on_with_it(directory: Path, mongodb_url: str) -> None:
    environment = {"AGENTIC_RELAY__LEASE_S": str(LEASE_S)}
    async with AsyncExitStack() as running:
        first, other = [
            await running.enter_async_context(serving("--store", mongodb_url, cwd=directory, environment=environment))
            for _ in range(2)
        ]
        left = await interrupted(first, SCRIPT, in_second_tool(directory))
        async with rest(other, USER) as http:
            assert await ended(http, left["exchange_id"]) == "interrupted"
            check_exchange(await resume(http, left["exchange_id"]))
            await check_resumed(http, left, directory)


async def test_there_is_nothing_to_go_on_from_without_a_checkpoint(directory: Path) -> None:
    """Before its first tool has finished; once the session has gone on; and where nothing was interrupted."""
    async with serving(cwd=directory) as server:
        early = await interrupted(server, "words 5000 50", lambda shown: shown.writing)
    async with serving(cwd=directory) as server:
        late = await interrupted(server, SCRIPT, in_second_tool(directory))
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        client = DurableClient(lambda: server.address)
        final = await client.ask("words 5 0", session_id=late["session_id"])
        for exchange_id in (early["exchange_id"], late["exchange_id"], final["exchange_id"]):
            refused = await http.post(f"/exchanges/{exchange_id}/resume", json={})
            assert (refused.status_code, error_of(refused)["code"]) == (409, "checkpoint_missing")
        for left in (early, late):
            [first, *_] = await stored_session(http, left["session_id"])
            assert first.status == "interrupted"
    figure("3 exchanges without a checkpoint: checkpoint_missing, and nothing ran")


async def test_an_agent_that_may_goes_on_by_itself(directory: Path) -> None:
    async with serving(cwd=directory) as server:
        left = await interrupted(server, SCRIPT, in_second_tool(directory), agent_id="replayed")
    async with serving(cwd=directory) as server, rest(server, USER) as http:
        await eventually_idle(http, left["session_id"])
        await check_resumed(http, left, directory)


async def eventually_idle(http: httpx.AsyncClient, session_id: str) -> None:
    """Until the session has more than its interrupted exchange, and nothing runs in it."""

    async def is_idle() -> bool:
        session: dict[str, Any] = (await http.get(f"/sessions/{session_id}")).json()
        messages = (await http.get(f"/sessions/{session_id}/messages")).json()["messages"]
        asked = [message for message in messages if message["role"] == "user"]
        return len(asked) == 2 and "active_exchange_id" not in session

    await until(is_idle)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.05)
