"""A server that closes the socket or refuses: the client stays away, waits, comes back, or asks the next one."""

import asyncio

import pytest
from support.hostile_answers import FINAL, STARTED, asked, refusal
from support.hostile_chat_server import HostileSocket, hostile_server

from agentic_backend.client import Final, Refused, Started, TryLater, TurnedAway, Unreachable, connect
from agentic_backend.client import line as client_line


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (1008, "too many frames"),
        (1009, "a frame was too large"),
        (4403, "has no access"),
        (1002, "does not understand"),
        (1003, "does not understand"),
    ],
)
async def test_a_close_code_that_says_stay_away_is_obeyed(code: int, why: str) -> None:
    sockets = 0

    async def behave(socket: HostileSocket) -> None:
        nonlocal sockets
        sockets += 1
        await socket.frame("ask")
        await socket.close(code)

    async with hostile_server(behave) as address:
        with pytest.raises(TurnedAway) as away:
            await asked(address)
    assert away.value.code == code and sockets == 1
    assert why in str(away.value)


@pytest.mark.parametrize("code", [1001, 1011, 1012, 4008, 1000, 4999])
async def test_after_any_other_close_code_it_comes_back_and_asks_again(code: int) -> None:
    asks = []

    async def behave(socket: HostileSocket) -> None:
        asks.append(await socket.frame("ask"))
        if len(asks) == 1:
            await socket.close(code)
        else:
            await socket.send(STARTED)
            await socket.send(FINAL)
            await socket.gone()

    async with hostile_server(behave) as address:
        assert isinstance((await asked(address))[-1], Final)
    assert asks[0] == asks[1]


async def test_too_many_connections_make_it_wait_longer_than_a_lost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_line, "_RETURN_S", (1.0, 1.0))
    times = []

    async def behave(socket: HostileSocket) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            await socket.close(4429)
        else:
            await socket.frame("ask")
            await socket.send(STARTED)
            await socket.send(FINAL)
            await socket.gone()

    async with hostile_server(behave) as address:
        await asked(address)
    assert times[1] - times[0] > 0.4


async def test_too_many_connections_for_too_long_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_line, "_RETURN_S", (0.1, 0.1))

    async def behave(socket: HostileSocket) -> None:
        await socket.close(4429)

    async with hostile_server(behave) as address:
        with pytest.raises(Unreachable):
            await asked(address, patience_s=0.5)


async def test_an_ask_refused_by_a_server_that_goes_is_sent_to_the_next_one() -> None:
    asks = 0

    async def behave(socket: HostileSocket) -> None:
        nonlocal asks
        ask = await socket.frame("ask")
        asks += 1
        if asks == 1:
            await socket.send(refusal("shutting_down", refused="ask", client_exchange_id=ask["client_exchange_id"]))
            await socket.close(1012)
        else:
            await socket.send(STARTED)
            await socket.send(FINAL)
            await socket.gone()

    async with hostile_server(behave) as address:
        assert [type(event) for event in await asked(address)] == [Started, Final]


async def test_a_stop_refused_by_a_server_that_goes_is_sent_to_the_next_one() -> None:
    stops = 0

    async def behave(socket: HostileSocket) -> None:
        nonlocal stops
        await socket.frame("stop")
        stops += 1
        if stops == 1:
            await socket.send(refusal("shutting_down", refused="stop", session_id="s1"))
            await socket.send({"type": "pong"})
            await socket.close(1012)
        await socket.gone()

    async with hostile_server(behave) as address, connect(address) as chat:
        await chat.stop(session_id="s1")
    assert stops == 2


async def test_a_refusal_has_all_that_the_server_told() -> None:
    async def behave(socket: HostileSocket) -> None:
        await socket.frame("ask")
        told = {"retryable": True, "retry_after_s": 2.5, "refused": "ask", "client_exchange_id": "x1"}
        await socket.send(refusal("session_busy", **told))
        await socket.gone()

    async with hostile_server(behave) as address:
        with pytest.raises(TryLater) as refused:
            await asked(address)
    error = refused.value
    assert isinstance(error, Refused)
    assert (error.code, error.content, error.retry_after_s, error.request_id) == ("session_busy", "no", 2.5, "r1")
    assert error.whose == "client"


async def test_a_follow_refused_for_the_moment_is_tried_on_another_socket() -> None:
    sockets = 0

    async def behave(socket: HostileSocket) -> None:
        nonlocal sockets
        sockets += 1
        if sockets == 1:
            await socket.frame("ask")
            await socket.send(STARTED)
            await socket.close(1012)
            return
        follow = await socket.frame("follow")
        assert (follow["exchange_id"], follow["after_seq"]) == ("e1", 1)
        if sockets == 2:
            told = {"refused": "follow", "exchange_id": "e1", "retryable": True}
            await socket.send(refusal("store_unavailable", **told))
        else:
            await socket.send(FINAL)
        await socket.gone()

    async with hostile_server(behave) as address:
        assert [type(event) for event in await asked(address)] == [Started, Final]
    assert sockets == 3
