"""The metrics calls, over KPI records that real exchanges left."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from support.chat_client import chat
from support.kpi_rows import fill
from support.rest_client import plain_http
from support.running_server import RunningServer

from agentic_backend.sessions.reading.kpi_report import BUCKETS_AT_MOST
from tests.stores.samples import EPOCH

PATH = "/agentic/v1/metrics/chatbot"


NO_TIMES = [
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "0000-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2026-01-01T00:00:00+23:59",
    "2026-01-01T00:00:00-23:59",
    "2026-01-01T00:00:00+24:00",
    "0001-01-01T00:00:00+23:59:59.999999",
    "9" * 5_000,
    "²026-01-01",
    "2026-01-01\x00",
    "",
]


def around_now() -> dict[str, str]:
    now = datetime.now(UTC)
    return {"start": (now - timedelta(hours=1)).isoformat(), "end": (now + timedelta(hours=1)).isoformat()}


async def get(server: RunningServer, call: str, token: str | None = None, **parameters: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with plain_http(base_url=server.address, timeout=10) as client:
        return await client.get(f"{PATH}/{call}", params={**around_now(), **parameters}, headers=headers)


async def test_figures_by_time_and_group(server: RunningServer) -> None:
    async with chat(server.address) as client:
        for message in ("hello", "hello again"):
            await client.ask(message, agent_id="echo")
        await client.ask("hello", agent_id="raising")
        await client.ask("hello", agent_id="echo", mode="query")
    response = await get(
        server,
        "numerical",
        precision="day",
        agg=["latency_ms:count", "latency_ms:p95", "first_token_ms:mean"],
        groupby=["agent_id", "status"],
    )
    report = response.json()
    assert report["precision"] == "day"
    counts = {(b["group"]["agent_id"], b["group"]["status"]): b["aggregations"] for b in report["buckets"]}
    assert counts["echo", "ok"]["latency_ms:count"] == 3
    assert counts["raising", "error"]["latency_ms:count"] == 1
    assert counts["echo", "ok"]["latency_ms:p95"] >= 0
    assert all(bucket["timestamp"].endswith("T00:00:00.000000Z") for bucket in report["buckets"])


async def test_the_summary_has_totals_by_agent_and_status(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("What is 1+1?")
        await client.ask("fail at once")
    totals = {(t["agent_id"], t["status"]): t for t in (await get(server, "summary")).json()["totals"]}
    assert totals["assistant", "ok"]["count"] == 1
    assert totals["assistant", "ok"]["total_tokens"] > 0
    assert totals["assistant", "error"]["count"] == 1


async def test_a_user_sees_their_own_and_an_admin_all(server: RunningServer) -> None:
    async with chat(server.address, token="dev:alice") as client:
        await client.ask("hello", agent_id="echo")
    assert (await get(server, "summary", token="dev:bob")).json() == {"totals": []}
    assert (await get(server, "summary", token="dev:alice")).json()["totals"][0]["count"] == 1
    # The developer of developer mode is an admin.
    assert (await get(server, "summary")).json()["totals"][0]["count"] == 1


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"start": "yesterday"}, "start"),
        ({"end": "2000-01-01"}, "end"),
        ({"precision": "week"}, "precision"),
        ({"agg": "latency_ms"}, "agg"),
        ({"agg": "texts:mean"}, "agg"),
        ({"groupby": "message"}, "groupby"),
        ({"agg": ["latency_ms:mean", "latency_ms:max", "latency_ms:mean"]}, "agg: latency_ms:mean is there twice"),
        ({"agg": ["latency_ms:mean"] * 1_000}, "agg:"),
        ({"groupby": ["status", "status"]}, "groupby: status is there twice"),
        ({"groupby": ["status"] * 1_000}, "groupby:"),
        *[({name: time}, name) for name in ("start", "end") for time in NO_TIMES],
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_parameter_is_named(shared_server: RunningServer, parameters: dict[str, str], named: str) -> None:
    response = await get(shared_server, "numerical", **{"agg": "latency_ms:mean", **parameters})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "bad_frame"
    assert response.json()["error"]["content"].startswith(named)


async def test_times_near_the_ends_of_time_are_times(server: RunningServer) -> None:
    span = {"start": "0001-01-01T00:00:00Z", "end": "9999-12-31T23:59:59.999999Z"}
    async with chat(server.address) as client:
        await client.ask("hello", agent_id="echo")
    assert (await get(server, "summary", **span)).json()["totals"][0]["count"] == 1
    response = await get(server, "numerical", agg="latency_ms:count", precision="day", **span)
    assert [bucket["aggregations"] for bucket in response.json()["buckets"]] == [{"latency_ms:count": 1}]


async def test_an_answer_has_so_many_buckets(server: RunningServer) -> None:
    await asyncio.to_thread(fill, server.data / "chat.sqlite3", "developer", BUCKETS_AT_MOST + 1)
    span = {"start": EPOCH.isoformat(), "end": (EPOCH + timedelta(days=1)).isoformat(), "agg": "latency_ms:p95"}
    refusal = await get(server, "numerical", precision="sec", **span)
    assert (refusal.status_code, refusal.json()["error"]["content"][:9]) == (400, "precision")
    assert len((await get(server, "numerical", precision="min", **span)).json()["buckets"]) == 167
