"""The metric of created sessions counts each once, on whatever door it is opened."""

from collections.abc import Awaitable, Callable

import pytest
from support.chat_client import chat, is_refusal
from support.rest_client import metric_at, plain_http, rest
from support.running_server import RunningServer

Opening = Callable[[RunningServer], Awaitable[None]]


async def by_rest(server: RunningServer) -> None:
    async with rest(server) as http:
        assert (await http.post("/sessions", json={})).status_code == 201


async def by_the_older_call(server: RunningServer) -> None:
    async with rest(server) as http:
        assert (await http.post("/chatbot/session", json={})).status_code < 300


async def by_an_ask(server: RunningServer) -> None:
    async with chat(server.address) as client:
        session_id = (await client.ask("hello"))[-1]["session_id"]
        await client.ask("hello again", session_id=session_id)


async def by_an_ask_that_is_sent_again(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for _ in range(2):
            await client.ask("hello", client_exchange_id="once")


async def by_an_ask_in_the_classic_form(server: RunningServer) -> None:
    async with chat(server.address, subprotocols=None) as client:
        await client.send({"message": "hello"})
        await client.until("final")


async def by_the_session_stream(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        assert (await http.post("/sessions", json={"toolId": "assistant"})).status_code == 201


async def by_a_chat_run(server: RunningServer) -> None:
    async with plain_http(base_url=server.address) as http:
        for _ in range(2):
            assert (await http.post("/api/chat", json={"message": "hello", "runId": "once"})).status_code == 200


async def by_an_ask_that_quits(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("quit")


async def created(server: RunningServer) -> float:
    return await metric_at(server.internal, 'chat_sessions_created_total{agent_id="assistant"}')


@pytest.mark.parametrize(
    "open_session",
    [
        by_rest,
        by_the_older_call,
        by_an_ask,
        by_an_ask_that_is_sent_again,
        by_an_ask_in_the_classic_form,
        by_the_session_stream,
        by_a_chat_run,
        by_an_ask_that_quits,
    ],
)
async def test_a_session_that_is_opened_counts_once(server: RunningServer, open_session: Opening) -> None:
    await open_session(server)
    assert await created(server) == 1


async def test_what_opens_no_session_counts_none(server: RunningServer) -> None:
    async with rest(server) as http, chat(server.address) as client:
        assert (await http.post("/sessions", json={"agent_id": "nobody"})).status_code == 404
        assert is_refusal((await client.ask("hello", agent_id="nobody"))[-1])
        assert is_refusal((await client.ask("hello", session_id="nowhere"))[-1])
        assert (await client.ask("hello", mode="query"))[-1]["status"] == "ok"
    assert await created(server) == 0
