"""The TypeScript client follows sessions, the list of them, and exchanges that were begun elsewhere."""

import asyncio

import pytest
from support.chat_client import chat, final_text
from support.paced_agent import ASK, WORDS, Pace, first_words
from support.rest_client import rest
from support.running_server import RunningServer
from support.tcp_line import line_to
from support.typescript_client import Consumer, Line, TypescriptClient, typescript_client

from agentic_backend.offline.phrases import lorem

pytestmark = pytest.mark.typescript


async def test_a_session_is_followed_over_its_exchanges_and_over_broken_connections(
    consumer: Consumer, chat_server: RunningServer, pace: Pace
) -> None:
    async with (
        line_to(chat_server.address) as line,
        typescript_client(consumer, line.address) as client,
        chat(chat_server.address) as other,
    ):
        session_id = (await other.ask("my name is Zorblax"))[0]["session_id"]
        await client.tell("follow_session", **{"as": "session", "session_id": session_id})
        await client.event("session", "idle")
        await other.send({"type": "ask", "session_id": session_id, "message": ASK, "agent_id": "paced"})
        await other.until("error", "started")
        for words in (5, 10):
            pace.write(5)
            await client.until_written("session", first_words(words))
            await line.cut()
        pace.finish()
        await client.event("session", "final")
        await other.ask("what is my name?", session_id=session_id)
        await client.until(lambda _: len(ends(client)) == 2)
        assert [event["status"] for event in ends(client)] == ["ok", "ok"]
        assert "Zorblax" in final_text(client.events("session"))


async def test_the_list_of_sessions_is_followed_over_broken_connections(
    consumer: Consumer, chat_server: RunningServer
) -> None:
    async with (
        line_to(chat_server.address) as line,
        typescript_client(consumer, line.address) as client,
        chat(chat_server.address) as other,
    ):
        await client.tell("follow_sessions", **{"as": "list"})
        await client.event("list", "following_sessions")
        session_id = (await other.ask("my name is Zorblax"))[0]["session_id"]
        await client.event("list", "session")
        await line.cut()
        await client.until(
            lambda _: [event["type"] for event in client.events("list")].count("following_sessions") == 2
        )
        await other.ask("what is my name?", session_id=session_id)
        await client.until(
            lambda _: any(event.get("session", {}).get("next_rank") == 4 for event in client.events("list"))
        )
        await client.tell("leave", **{"as": "list"})


def ends(client: TypescriptClient) -> list[Line]:
    return [event for event in client.events("session") if event["type"] == "final"]


async def test_an_exchange_is_followed_from_where_another_program_was(
    consumer: Consumer, chat_server: RunningServer, pace: Pace
) -> None:
    async with typescript_client(consumer, chat_server.address) as first:
        await first.tell("ask", **{"as": "it", "message": ASK, "fields": {"agent_id": "paced"}})
        pace.write(10)
        await first.until_written("it", first_words(10))
        place = await first.answer("place", **{"as": "it"})
    async with typescript_client(consumer, chat_server.address) as second:
        where = {"session_id": place["session_id"], "exchange_id": place["id"], "seq": place["seq"]}
        await second.tell("follow_exchange", **{"as": "it", **where})
        pace.finish()
        events = await second.ended("it")
        assert min(event["seq"] for event in events) > place["seq"]
        assert first.written("it") + second.written("it") == lorem(WORDS)


async def test_what_is_not_there_is_not_followed(client: TypescriptClient) -> None:
    await client.tell("follow_exchange", **{"as": "exchange", "session_id": "none", "exchange_id": "none"})
    await client.tell("follow_session", **{"as": "session", "session_id": "none"})
    assert (await client.failed("session"))["code"] == "session_not_found"
    assert (await client.failed("exchange"))["failed"] == "Refused"


async def test_who_leaves_an_exchange_hears_no_more_and_it_goes_on(
    client: TypescriptClient, chat_server: RunningServer, pace: Pace
) -> None:
    await client.tell("ask", **{"as": "it", "message": ASK, "fields": {"agent_id": "paced"}})
    started = await client.event("it", "started")
    await client.tell("leave", **{"as": "it"})
    await client.ended("it")
    pace.finish()
    async with rest(chat_server) as http:
        while (await http.get(f"/exchanges/{started['exchange_id']}")).json()["status"] == "running":
            await asyncio.sleep(0.05)
    assert {event["type"] for event in client.events("it")} <= {"started", "stream"}
