"""Each call of a model leaves one record with its cost, whatever it was for and however it ended."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from services.mongodb import further_on_mongodb
from support.asking_modules import modules_file
from support.chat_client import PATIENCE_S, ChatClient, Event, chat
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server
from support.usage_agents import ENTRIES

from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord

PRICE = {"model": "off*", "input_per_million": 1_000_000, "output_per_million": 2_000_000, "from": "2026-01-01"}
SETTINGS = {**FAST, "prices": [PRICE], "titles": {"enabled": False}}


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, agents=ENTRIES, settings={**SETTINGS, "store": {"url": store_url}}) as server:
        yield server


@pytest.fixture
async def client(server: RunningServer) -> AsyncIterator[ChatClient]:
    async with chat(server.address, token="dev:alice") as client:
        yield client


async def records(store: Store, **where: Any) -> list[UsageRecord]:
    return (await store.trail(TrailQuery(UsageRecord, where))).records


async def records_of(store: Store, event: Event, number: int) -> list[UsageRecord]:
    """The records of an exchange, once there are so many; at the end no more than that."""
    async with asyncio.timeout(PATIENCE_S):
        while len(await records(store, exchange_id=event["exchange_id"])) < number:
            await asyncio.sleep(0.02)
    found = await records(store, exchange_id=event["exchange_id"])
    assert len(found) == number
    return found


def check(record: UsageRecord, **values: Any) -> None:
    expected = {"user_id": "alice", "agent_id": "assistant", "purpose": "answer"} | values
    assert {name: getattr(record, name) for name in expected} == expected


async def test_an_answer_with_a_tool_leaves_a_priced_record_of_each_call(client: ChatClient, store: Store) -> None:
    final = (await client.ask("What is 17 * 23?"))[-1]
    found = await records_of(store, final, 2)
    for record in found:
        check(record, session_id=final["session_id"], model="offline", currency="USD", priced_on="2026-01-01")
        assert record.input_tokens and record.output_tokens
        assert record.cost == record.input_tokens + 2 * record.output_tokens
        assert record.day == record.at.date().isoformat()
    assert sum(record.input_tokens or 0 for record in found) == final["usage"]["input_tokens"]
    assert sum(record.output_tokens or 0 for record in found) == final["usage"]["output_tokens"]


@further_on_mongodb("store_url")
async def test_each_message_of_a_model_has_its_cost(server: RunningServer, client: ChatClient, store: Store) -> None:
    final = (await client.ask("What is 17 * 23?"))[-1]
    costs = [message["metadata"]["extras"].get("cost") for message in final["messages"]]
    assert [cost is not None for cost in costs] == [bool(m["metadata"].get("token_usage")) for m in final["messages"]]
    found = await records_of(store, final, 2)
    assert sorted(cost["amount"] for cost in costs if cost) == sorted(record.cost or 0 for record in found)
    async with rest(server, "dev:alice") as http:
        stored = (await http.get(f"/sessions/{final['session_id']}/messages")).json()["messages"]
    assert stored == final["messages"]


@further_on_mongodb("store_url")
async def test_calls_that_nobody_sees_are_recorded(client: ChatClient, store: Store) -> None:
    final = (await client.ask("hello", agent_id="aside"))[-1]
    found = await records_of(store, final, 3)
    assert Counter(record.purpose for record in found) == {"answer": 1, "internal": 2}
    assert all(record.cost for record in found)


@further_on_mongodb("store_url")
async def test_the_calls_of_an_expert_are_recorded_with_its_leaders(client: ChatClient, store: Store) -> None:
    final = (await client.ask("ask assistant: What is 17 * 23?", agent_id="lead"))[-1]
    assert final["status"] == "ok"
    found = await records_of(store, final, 4)
    assert all(record.cost and record.agent_id == "lead" for record in found)


@further_on_mongodb("store_url")
async def test_a_call_in_a_thread_is_recorded(client: ChatClient, store: Store) -> None:
    [record] = await records_of(store, (await client.ask("hello", agent_id="whole"))[-1], 1)
    check(record, agent_id="whole")
    assert record.cost


@further_on_mongodb("store_url")
async def test_a_call_that_fails_has_unknown_tokens(client: ChatClient, store: Store) -> None:
    [record] = await records_of(store, (await client.ask("fail at once"))[-1], 1)
    check(record, input_tokens=None, output_tokens=None, cost=None, currency=None, priced_on=None)


@pytest.mark.parametrize("mode", ["chat", "query"])
@further_on_mongodb("store_url")
async def test_a_call_that_is_stopped_costs_what_was_sent_and_said(client: ChatClient, store: Store, mode: str) -> None:
    asked = "count down slowly from 100. " + "Take your time. " * 100
    running = await client.running(asked, words=8, mode=mode)
    named = "session_id" if mode == "chat" else "exchange_id"
    await client.send({"type": "stop", named: running[named]})
    final = await client.until("final")
    [record] = await records_of(store, final, 1)
    check(record, estimated=True, currency="USD")
    said = final["messages"][-1]["parts"][0]["text"]
    assert record.input_tokens and record.output_tokens and record.cost
    assert len(asked) / 5 < record.input_tokens < len(asked)
    assert abs(record.output_tokens - len(said) / 4) <= 3
    assert record.cost == record.input_tokens + 2 * record.output_tokens


@further_on_mongodb("store_url")
async def test_a_record_is_stored_though_no_message_follows_soon(client: ChatClient, store: Store) -> None:
    await client.send({"message": "hello", "agent_id": "long-aside"})
    begun = await client.receive()
    [record] = await records_of(store, begun, 1)
    check(record, agent_id="long-aside", purpose="internal")
    await client.send({"type": "stop", "session_id": begun["session_id"]})
    await records_of(store, await client.until("final"), 1)


async def test_a_pause_loses_no_record_and_makes_none_twice(server: RunningServer, store: Store) -> None:
    async with chat(server.address, token="dev:alice") as client:
        await client.send({"message": "call wait(seconds=0)", "agent_id": "approving"})
        waiting = await client.until("awaiting_human")
        before = await records_of(store, waiting, 1)
        [request] = waiting["payload"]["requests"]
        decision = {"action": "approve", "call_id": request["call_id"], "args_sha256": request["args_sha256"]}
        await client.send(
            {
                "type": "human_resume",
                "session_id": waiting["session_id"],
                "exchange_id": waiting["exchange_id"],
                "payload": {"decisions": [decision], "answers": {}},
            }
        )
        final = await client.until("final")
    after = await records_of(store, final, 2)
    assert final["status"] == "ok"
    assert before[0] in after
    assert sum(record.input_tokens or 0 for record in after) == final["usage"]["input_tokens"]


async def test_a_query_leaves_records_without_a_session(client: ChatClient, store: Store) -> None:
    final = (await client.ask("What is 17 * 23?", mode="query"))[-1]
    for record in await records_of(store, final, 2):
        check(record, session_id=None)
        assert record.cost


@further_on_mongodb("store_url")
async def test_a_title_leaves_a_record(store_url: str, store: Store, tmp_path: Path) -> None:
    settings = {**SETTINGS, "titles": {"enabled": True}, "store": {"url": store_url}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            final = (await client.ask("hello"))[-1]
            await client.named(final["session_id"])
        found = await records_of(store, final, 2)
    [title] = [record for record in found if record.purpose == "title"]
    check(title, purpose="title", session_id=final["session_id"])
    assert title.cost


async def test_what_modules_ask_at_each_point_is_recorded_as_the_users(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "modules": {"file": str(modules_file(tmp_path))}, "store": {"url": store_url}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            asked = (await client.ask("hello"))[-1]
            await records_of(store, asked, 5)
            ended = (await client.ask("quit", session_id=asked["session_id"]))[-1]
            assert ended["session"]["state"] == "completed"
            query = (await client.ask("hello", mode="query"))[-1]
        in_query = await records_of(store, query, 4)
        async with asyncio.timeout(PATIENCE_S):
            while len(in_session := await records(store, session_id=asked["session_id"])) < 7:
                await asyncio.sleep(0.02)
    assert Counter(record.purpose for record in in_query) == {"answer": 1, "module": 3}
    assert Counter(record.purpose for record in in_session) == {"answer": 1, "module": 6}
    for record in (*in_query, *in_session):
        check(record, purpose=record.purpose)
        assert record.cost


@further_on_mongodb("store_url")
async def test_a_summary_leaves_a_record(store_url: str, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "chat_profiles.yaml"
    file.write_text(yaml.safe_dump({"profiles": {"short": {"max_history_turns": 1}}, "default_profile": "short"}))
    settings = {**SETTINGS, "chat_profiles": {"file": str(file)}, "store": {"url": store_url}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            session_id = (await client.ask("hello"))[-1]["session_id"]
            await client.ask("hello again", session_id=session_id)
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await records(store, session_id=session_id, purpose="summary")):
                await asyncio.sleep(0.02)
    for record in found:
        check(record, purpose="summary")
        assert record.exchange_id and record.cost
