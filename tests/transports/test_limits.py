"""What one user may take: sockets, running exchanges, asks in a minute; and what one process may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.approval_agents import ENTRIES as APPROVING
from support.approval_agents import calls
from support.chat_client import PATIENCE_S, ChatClient, chat
from support.rest_client import error_of, messages_of, rest, sse_events
from support.running_server import RunningServer, running_server
from support.signing_realm import signing_realm
from support.test_agents import ENTRIES
from websockets.exceptions import ConnectionClosed

from agentic_backend.config.topics.limits import WITH_USERS


def limited(directory: Path, **limits: int) -> Any:
    return running_server(directory, agents=ENTRIES, settings={"limits": limits})


async def close_code(server: RunningServer, token: str) -> int | None:
    """What a further socket of this user is closed with; None where it stays open."""
    async with chat(server.address, token=token) as client:
        try:
            await client.send({"type": "ping"})
            await client.until("pong")
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0
    return None


async def test_a_user_has_so_many_sockets(tmp_path: Path) -> None:
    async with limited(tmp_path, sockets_per_user=2) as server:
        async with chat(server.address, token="dev:alice"), chat(server.address, token="dev:alice") as second:
            await second.send({"type": "ping"})
            await second.until("pong")
            assert await close_code(server, "dev:alice") == 4429
            assert await close_code(server, "dev:bob") is None
        # The server has answered their goodbyes, but may not have counted them yet.
        async with asyncio.timeout(PATIENCE_S):
            while await close_code(server, "dev:alice") is not None:
                await asyncio.sleep(0.05)


async def test_a_process_has_so_many_sockets(tmp_path: Path) -> None:
    async with limited(tmp_path, max_sockets=1) as server, chat(server.address, token="dev:alice") as client:
        await client.send({"type": "ping"})
        await client.until("pong")
        assert await close_code(server, "dev:bob") == 4429


async def test_a_session_that_is_followed_by_sse_counts_as_a_socket(tmp_path: Path) -> None:
    async with (
        limited(tmp_path, sockets_per_user=1, max_sockets=2) as server,
        rest(server, "dev:alice") as alice,
        rest(server, "dev:bob") as bob,
        rest(server, "dev:carol") as carol,
    ):
        [of_alice, of_bob, of_carol] = [
            f"/sessions/{(await client.post('/sessions', json={})).json()['id']}/events"
            for client in (alice, bob, carol)
        ]
        async with alice.stream("GET", of_alice) as followed:
            assert followed.status_code == 200
            assert await close_code(server, "dev:alice") == 4429
            refusal = await alice.get(of_alice)
            assert (refusal.status_code, error_of(refusal)["code"]) == (429, "rate_limited")
            assert int(refusal.headers["retry-after"]) == error_of(refusal)["retry_after_s"] > 0
            async with bob.stream("GET", of_bob) as also_followed:
                assert also_followed.status_code == 200
                assert (await carol.get(of_carol)).status_code == 429
        async with asyncio.timeout(PATIENCE_S):
            while await close_code(server, "dev:alice") is not None:
                await asyncio.sleep(0.05)


async def test_an_answer_by_sse_counts_as_a_socket_and_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async with limited(tmp_path, sockets_per_user=1) as server, rest(server, "dev:alice") as alice:
        ids = [(await alice.post("/sessions", json={})).json()["id"] for _ in range(2)]
        first, second = (f"/sessions/{session_id}/messages" for session_id in ids)
        async with alice.stream("POST", first, json={"content": "wait 60 seconds"}) as answered:
            assert answered.status_code == 200
            events = sse_events(answered)
            started = await anext(events)
            assert await close_code(server, "dev:alice") == 4429
            for call, body in ((second, {"content": "hello"}), (f"/exchanges/{started['exchange_id']}/resume", {})):
                refusal = await alice.post(call, json=body)
                assert (refusal.status_code, error_of(refusal)["code"]) == (429, "rate_limited")
            assert (await messages_of(alice, ids[1])) == []
            assert (await alice.post(f"/sessions/{ids[0]}/cancel", json={})).json() == {"cancelled": True}
            assert [event async for event in events][-1]["type"] == "final"
        async with asyncio.timeout(PATIENCE_S):
            while await close_code(server, "dev:alice") is not None:
                await asyncio.sleep(0.05)


async def test_an_ask_that_is_refused_gives_its_place_back(tmp_path: Path) -> None:
    async with limited(tmp_path, sockets_per_user=1) as server, rest(server, "dev:alice") as alice:
        for _ in range(3):
            assert (await alice.post("/sessions/none/messages", json={"content": "hello"})).status_code == 404
            assert (await alice.post("/exchanges/none/resume", json={})).status_code == 404
            assert (await alice.get("/sessions/none/events")).status_code == 404
        assert await close_code(server, "dev:alice") is None


async def test_a_user_has_so_many_empty_sessions(tmp_path: Path) -> None:
    async with limited(tmp_path, empty_sessions_per_user=3) as server, rest(server, "dev:alice") as alice:
        opened = [await alice.post("/sessions", json={}) for _ in range(3)]
        assert [response.status_code for response in opened] == [201] * 3
        for call in ("/sessions", "/chatbot/session"):
            refusal = await alice.post(call, json={})
            assert (refusal.status_code, error_of(refusal)["code"]) == (429, "rate_limited")
        async with rest(server, "dev:bob") as bob:
            assert (await bob.post("/sessions", json={})).status_code == 201
        await alice.delete(f"/sessions/{opened[0].json()['id']}")
        assert (await alice.post("/sessions", json={})).status_code == 201
        async with chat(server.address, token="dev:alice") as client:
            assert (await client.ask("hello", agent_id="echo"))[-1]["status"] == "ok"


async def test_a_user_s_requests_at_once_are_so_many_and_others_wait_for_none(tmp_path: Path) -> None:
    """Bodies that don't come keep their calls at work."""

    async def slow_body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with limited(tmp_path, requests_per_user=2) as server, AsyncExitStack() as stack:
        alice, bob = [await stack.enter_async_context(rest(server, f"dev:{name}")) for name in ("alice", "bob")]
        slow = [asyncio.create_task(alice.post("/sessions", content=slow_body())) for _ in range(2)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (refusal := await alice.get("/agents")).status_code != 429:
                    await asyncio.sleep(0.05)
            assert error_of(refusal)["code"] == "rate_limited" and error_of(refusal)["retry_after_s"]
            assert (await bob.get("/agents")).status_code == 200
        finally:
            for task in slow:
                task.cancel()
            await asyncio.wait(slow)
        async with asyncio.timeout(PATIENCE_S):
            while (await alice.get("/agents")).status_code != 200:
                await asyncio.sleep(0.05)


async def test_a_user_has_so_many_waiting_exchanges(tmp_path: Path) -> None:
    limits = {"waiting_per_user": 2}
    async with (
        running_server(tmp_path, agents=APPROVING, settings={"limits": limits}) as server,
        chat(server.address, token="dev:alice") as alice,
        chat(server.address, token="dev:bob") as bob,
    ):
        ask = {"message": calls(("send_email", {"to": "ann@example.org"})), "agent_id": "approving"}
        waiting = []
        for number in range(2):
            await alice.send({**ask, "client_exchange_id": str(number)})
            waiting.append(await alice.until("awaiting_human"))
        event = await refused(alice, "one more")
        assert (event["code"], event["retryable"]) == ("too_many_runs", True)
        async with rest(server, "dev:alice") as http:
            assert len((await http.get("/sessions")).json()["sessions"]) == 2, "what is refused leaves nothing"
        # What was asked before is no new ask.
        await alice.send({**ask, "client_exchange_id": "0"})
        assert (await bob.ask("What is 1+1?"))[-1]["status"] == "ok"
        await alice.send({"type": "stop", "session_id": waiting[0]["session_id"]})
        await alice.until("final")
        assert (await alice.ask("What is 1+1?"))[-1]["status"] == "ok"


async def test_sockets_that_have_not_signed_in_have_a_pool_of_their_own(tmp_path: Path) -> None:
    async with signing_realm() as realm:
        keycloak = {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}
        limits = {"max_sockets": 1, "unauthenticated_sockets": 2, "authenticate_timeout_s": 30}
        async with running_server(tmp_path, settings={"auth": keycloak, "limits": limits}) as server:
            async with chat(server.address):
                assert await close_code(server, realm.sign()) is None, "who has said nothing takes no user's place"
                async with chat(server.address):
                    assert await close_code(server, realm.sign()) == 4429
            async with asyncio.timeout(PATIENCE_S):
                while await close_code(server, realm.sign()) is not None:
                    await asyncio.sleep(0.05)


async def refused(client: ChatClient, message: str) -> dict[str, Any]:
    await client.send({"message": message, "client_exchange_id": message})
    return await client.until("error")


async def test_a_user_has_so_many_running_exchanges(tmp_path: Path) -> None:
    async with (
        limited(tmp_path, running_per_user=2) as server,
        chat(server.address, token="dev:alice") as alice,
        chat(server.address, token="dev:bob") as bob,
    ):
        sessions = []
        for _ in range(2):
            await alice.send({"message": "hang forever"})
            sessions.append((await alice.until("started"))["session_id"])
        event = await refused(alice, "one more")
        assert (event["code"], event["retryable"], event["client_exchange_id"]) == ("too_many_runs", True, "one more")
        assert event["retry_after_s"] > 0
        assert (await bob.ask("hello", agent_id="echo"))[-1]["status"] == "ok"
        await alice.send({"type": "stop", "session_id": sessions[0]})
        await alice.until("final")
        assert (await alice.ask("hello", agent_id="echo"))[-1]["status"] == "ok"


async def test_a_user_has_so_many_asks_in_a_minute(tmp_path: Path) -> None:
    async with limited(tmp_path, asks_per_minute=3) as server, chat(server.address, token="dev:alice") as alice:
        for _ in range(3):
            await alice.ask("hello", agent_id="echo")
        # What was asked before is no new ask, however often it is sent.
        event = await refused(alice, "one more")
        assert event["code"] == "rate_limited" and 0 < event["retry_after_s"] <= 60
        async with rest(server, "dev:alice") as http:
            session_id = (await http.post("/sessions", json={"agent_id": "echo"})).json()["id"]
            response = await http.post(f"/sessions/{session_id}/messages", json={"content": "hello"})
            assert (response.status_code, error_of(response)["code"]) == (429, "rate_limited")
            assert 0 < int(response.headers["retry-after"]) <= 60


@pytest.mark.parametrize("times", [5])
async def test_an_ask_that_is_repeated_counts_once(tmp_path: Path, times: int) -> None:
    async with limited(tmp_path, asks_per_minute=2) as server, chat(server.address, token="dev:alice") as alice:
        finals = [(await alice.ask("hello", agent_id="echo", client_exchange_id="mine"))[-1] for _ in range(times)]
        assert len({final["exchange_id"] for final in finals}) == 1
        assert (await alice.ask("hello", agent_id="echo"))[-1]["status"] == "ok"


async def test_an_ask_that_is_repeated_counts_once_though_its_events_are_gone(tmp_path: Path) -> None:
    limits, forgetful = {"asks_per_minute": 2, "running_per_user": 1}, {"keep_ended_bytes": 0}
    settings = {"limits": limits, "relay": forgetful}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as alice:
            fields = {"agent_id": "echo", "client_exchange_id": "mine"}
            finals = [(await alice.ask("hello", **fields))[-1] for _ in range(4)]
            assert len({final["exchange_id"] for final in finals}) == 1


async def test_a_refused_run_takes_nothing_from_the_asks_of_the_minute(tmp_path: Path) -> None:
    async with limited(tmp_path, running_per_user=1, asks_per_minute=2) as server:
        async with chat(server.address, token="dev:alice") as alice:
            await alice.send({"message": "hang forever"})
            session_id = (await alice.until("started"))["session_id"]
            for number in range(5):
                assert (await refused(alice, f"one more {number}"))["code"] == "too_many_runs"
            await alice.send({"type": "stop", "session_id": session_id})
            await alice.until("final")
            assert (await alice.ask("hello", agent_id="echo"))[-1]["status"] == "ok"


async def test_users_of_keycloak_have_limits_though_nothing_is_set(tmp_path: Path) -> None:
    async with signing_realm() as realm, AsyncExitStack() as stack:
        settings = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}
        server = await stack.enter_async_context(running_server(tmp_path, settings=settings))
        for _ in range(WITH_USERS["sockets_per_user"]):
            client = await stack.enter_async_context(chat(server.address, token=realm.sign()))
            await client.send({"type": "ping"})
            await client.until("pong")
        assert await close_code(server, realm.sign()) == 4429
        assert await close_code(server, realm.sign(sub="bob-id")) is None
