"""The usage calls: sums of what the caller has used, of all users for admins, and nobody else's."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from services.mongodb import further_on_mongodb
from support.chat_client import chat
from support.rest_client import rest
from support.running_server import FAST, RunningServer, running_server
from support.usage_agents import ENTRIES

from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.trail import TrailQuery, UsageRecord

PRICE = {"model": "*", "input_per_million": 1, "output_per_million": 2, "from": "2026-01-01"}
SETTINGS = {**FAST, "prices": [PRICE], "titles": {"enabled": False}}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def server(store_url: str, tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, settings={**SETTINGS, "store": {"url": store_url}}) as server:
        yield server


def used(number: int, **fields: Any) -> UsageRecord:
    at = fields.pop("at", NOON)
    values: dict[str, Any] = {
        "id": f"u{number}",
        "at": at,
        "day": at.date().isoformat(),
        "user_id": "alice",
        "group": None,
        "session_id": "s",
        "exchange_id": "e",
        "agent_id": "assistant",
        "purpose": "answer",
        "model": "m",
        "input_tokens": 10,
        "output_tokens": 5,
        "cost": 0.5,
        "currency": "USD",
        "priced_on": "2026-01-01",
    }
    return UsageRecord(**values | fields)


async def get(server: RunningServer, path: str, token: str | None = "dev:alice", **parameters: Any) -> httpx.Response:
    async with rest(server, token) as client:
        return await client.get(path, params=parameters)


async def sums(server: RunningServer, path: str = "/usage", **parameters: Any) -> dict[tuple[str | None, ...], Any]:
    """The calls and the cost in dollars by key, since the beginning of time."""
    response = await get(server, path, **{"start": "2026-01-01", **parameters})
    assert response.status_code == 200, response.text
    return {
        tuple(each["keys"].values()): (each["calls"], {cost["currency"]: cost["amount"] for cost in each["costs"]})
        for each in response.json()["sums"]
    }


async def test_the_callers_own_usage_by_day_and_agent(server: RunningServer, store: Store) -> None:
    day_after = NOON + timedelta(days=1)
    await store.add_trail(
        [
            used(1),
            used(2, agent_id="team"),
            used(3, at=day_after),
            used(4, at=day_after, cost=2.0, currency="EUR"),
            used(5, at=day_after, cost=None, currency=None, input_tokens=None, output_tokens=None),
            used(6, user_id="bob"),
        ]
    )
    assert await sums(server, by="day,agent_id") == {
        ("2026-03-01", "assistant"): (1, {"USD": 0.5}),
        ("2026-03-01", "team"): (1, {"USD": 0.5}),
        ("2026-03-02", "assistant"): (3, {"USD": 0.5, "EUR": 2.0}),
    }
    assert await sums(server) == {(): (5, {"USD": 1.5, "EUR": 2.0})}
    assert await sums(server, start=day_after.isoformat(), by="day") == {("2026-03-02",): (3, {"USD": 0.5, "EUR": 2.0})}
    assert await sums(server, end=day_after.isoformat()) == {(): (2, {"USD": 1.0})}


async def test_others_usage_is_only_for_admins(server: RunningServer, store: Store) -> None:
    await store.add_trail([used(1, group="a"), used(2, user_id="bob", session_id="t", group="b")])
    assert await sums(server, session_id="t") == {}
    assert await sums(server, user_id="bob", by="user_id") == {("alice",): (1, {"USD": 0.5})}
    refused = await get(server, "/admin/usage")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    both = {("alice", "a"): (1, {"USD": 0.5}), ("bob", "b"): (1, {"USD": 0.5})}
    assert await sums(server, "/admin/usage", token=None, by="user_id,group") == both
    assert await sums(server, "/admin/usage", token=None, user_id="bob") == {(): (1, {"USD": 0.5})}
    assert await sums(server, "/admin/usage", token=None, group="b", by="user_id") == {("bob",): (1, {"USD": 0.5})}


async def test_what_an_exchange_and_its_session_cost_is_there_with_the_final(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        first = (await client.ask("What is 17 * 23?"))[-1]
        second = (await client.ask("hello", session_id=first["session_id"]))[-1]
    body = (await get(server, "/usage", session_id=first["session_id"], by="exchange_id")).json()
    assert body["priced"] is True and body["truncated"] is False
    by_exchange = {each["keys"]["exchange_id"]: each for each in body["sums"]}
    assert set(by_exchange) == {first["exchange_id"], second["exchange_id"]}
    for final in (first, second):
        usage, each = final["usage"], by_exchange[final["exchange_id"]]
        assert each["input_tokens"] == usage["input_tokens"] and each["output_tokens"] == usage["output_tokens"]
        amount = (usage["input_tokens"] + 2 * usage["output_tokens"]) / 1_000_000
        assert each["costs"] == [{"amount": pytest.approx(amount), "currency": "USD"}]


async def test_without_times_the_last_31_days_are_summed(server: RunningServer, store: Store) -> None:
    now = datetime.now(UTC)
    await store.add_trail([used(1, at=now - timedelta(days=30)), used(2, at=now - timedelta(days=32))])
    body = (await get(server, "/usage")).json()
    assert [each["calls"] for each in body["sums"]] == [1]
    assert abs(datetime.fromisoformat(body["start"]) - (now - timedelta(days=31))) < timedelta(minutes=1)
    of_session = (await get(server, "/usage", session_id="s")).json()
    assert [each["calls"] for each in of_session["sums"]] == [2]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"by": "day,day"}, "by"),
        ({"by": "text"}, "by"),
        ({"by": ",".join(["day"] * 1_000)}, "by"),
        ({"start": "soon"}, "start"),
        ({"start": "2026-01-02", "end": "2026-01-02"}, "end"),
    ],
)
@further_on_mongodb("store_url")
async def test_a_wrong_parameter_is_named(server: RunningServer, parameters: dict[str, str], named: str) -> None:
    response = await get(server, "/usage", **parameters)
    assert (response.status_code, response.json()["error"]["content"].split(":")[0]) == (400, named)


async def test_a_spent_budget_refuses_every_ask_until_it_is_renewed(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    budgets = {"users": {"default": {"cost": 5, "per": "day"}, "rich": {"cost": None}}}
    settings = {**SETTINGS, "store": {"url": store_url}, "budgets": budgets}
    now = datetime.now(UTC)
    spent = [used(number, user_id=name, at=now, cost=5.0) for number, name in enumerate(("alice", "rich"))]
    yesterday = now - timedelta(days=1)
    await store.add_trail([*spent, used(7, user_id="bob", at=yesterday, cost=50.0), used(8, user_id="cy", cost=9.0)])
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            for mode in ("chat", "query"):
                [refusal] = await refused_ask(client, mode)
                assert (refusal["code"], refusal["retryable"]) == ("budget_exceeded", False)
                assert refusal["content"] == "Your budget of 5 USD a day is used up."
                assert 0 < refusal["retry_after_s"] <= 86_400
        async with rest(server, "dev:alice") as http:
            session_id = (await http.post("/sessions", json={})).json()["id"]
            response = await http.post(f"/sessions/{session_id}/messages", json={"content": "hello"})
            assert response.status_code == 429 and int(response.headers["retry-after"]) <= 86_400
            messages = (await http.get(f"/sessions/{session_id}/messages")).json()
            assert messages["messages"] == []
        for name in ("bob", "rich", "cy"):
            async with chat(server.address, token=f"dev:{name}") as client:
                assert (await client.ask("hello"))[-1]["status"] == "ok"


async def refused_ask(client: Any, mode: str) -> list[dict[str, Any]]:
    await client.send({"message": "hello", "mode": mode})
    return [await client.until("error")]


async def test_what_this_server_spends_counts_at_once(store_url: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "store": {"url": store_url}, "budgets": {"users": {"alice": {"cost": 0.000001}}}}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            assert (await client.ask("hello", client_exchange_id="mine"))[-1]["status"] == "ok"
            [refusal] = await refused_ask(client, "chat")
            assert refusal["code"] == "budget_exceeded"
            assert "a month" in refusal["content"]
            again = await client.ask("hello", client_exchange_id="mine")
            assert again[-1]["status"] == "ok", "a repeated ask spends nothing"


async def test_what_waits_goes_on_waiting_while_its_budget_is_spent(store_url: str, tmp_path: Path) -> None:
    settings = {**SETTINGS, "store": {"url": store_url}, "budgets": {"users": {"alice": {"cost": 0.000001}}}}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            await client.send({"message": "call wait(seconds=0)", "agent_id": "approving"})
            waiting = await client.until("awaiting_human")
            [request] = waiting["payload"]["requests"]
            decision = {"action": "approve", "call_id": request["call_id"], "args_sha256": request["args_sha256"]}
            names = {name: waiting[name] for name in ("session_id", "exchange_id")}
            payload = {"decisions": [decision], "answers": {}}
            await client.send({"type": "human_resume", **names, "payload": payload})
            assert (await client.until("error"))["code"] == "budget_exceeded"
        exchange = (await get(server, f"/exchanges/{waiting['exchange_id']}")).json()
        assert (exchange["status"], "decisions" in exchange) == ("awaiting_human", False)
        async with rest(server, "dev:alice") as http:
            refused = await http.post(f"/exchanges/{waiting['exchange_id']}/resume", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_exceeded")
    settings["budgets"] = {}
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            await client.send({"type": "human_resume", **names, "payload": payload})
            assert (await client.until("final"))["status"] == "ok"


@further_on_mongodb("store_url")
async def test_the_group_that_pays_for_an_exchange_is_asked_again_before_it_goes_on(
    store_url: str, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump({"organisations": {"acme": {}}}))
    settings = {
        **SETTINGS,
        "store": {"url": store_url},
        "policies": {"file": str(file)},
        "budgets": {"groups": {"acme": {"cost": 5}}},
    }
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            asked = {"message": "call wait(seconds=0)", "agent_id": "approving", "scope": {"organisation": "acme"}}
            await client.send(asked)
            waiting = await client.until("awaiting_human")
    await store.add_trail([used(1, user_id="bob", group="acme", at=datetime.now(UTC), cost=5.0)])
    async with running_server(tmp_path, agents=ENTRIES, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            [request] = waiting["payload"]["requests"]
            decision = {"action": "approve", "call_id": request["call_id"], "args_sha256": request["args_sha256"]}
            names = {name: waiting[name] for name in ("session_id", "exchange_id")}
            payload = {"decisions": [decision], "answers": {}}
            await client.send({"type": "human_resume", **names, "payload": payload})
            assert (await client.until("error"))["code"] == "budget_exceeded"
        async with rest(server, "dev:alice") as http:
            refused = await http.post(f"/exchanges/{waiting['exchange_id']}/resume", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "budget_exceeded")


async def test_who_deletes_their_data_has_still_spent_the_budget(store_url: str, store: Store, tmp_path: Path) -> None:
    budgets = {"users": {"alice": {"cost": 0.000001}}, "groups": {"default": {"cost": 1}}}
    settings = {**SETTINGS, "store": {"url": store_url}, "budgets": budgets}
    async with running_server(tmp_path, settings=settings) as server:
        async with chat(server.address, token="dev:alice") as client:
            final = (await client.ask("hello"))[-1]
        async with rest(server, "dev:alice") as http:
            assert (await http.delete("/me")).status_code == 204
    [left] = (await store.trail(TrailQuery(UsageRecord))).records
    assert left.cost and "alice" not in repr(left) and final["exchange_id"] not in repr(left)
    for deletion in await store.deletions():
        # Its minute is over.
        await store.end_deletion(deletion)
    async with running_server(tmp_path, settings=settings) as server:
        assert (await get(server, "/usage")).json()["sums"] == []
        async with chat(server.address, token="dev:alice") as client:
            [refusal] = await refused_ask(client, "chat")
            assert refusal["code"] == "budget_exceeded"
    async with running_server(tmp_path, settings={**settings, "budgets": {}}) as server:
        async with rest(server, "dev:alice") as http:
            assert (await http.delete("/me")).status_code == 204
