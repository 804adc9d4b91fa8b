"""What applications use of their server: models at their users' expense, transcripts of own sessions, metrics."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.chat_client import chat, text_of
from support.judging_application import JUDGED, LAST, PATH, Judging
from support.rest_client import error_of, metric_at, plain_http, rest
from support.running_server import FAST, RunningServer, running_server

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.application import Metric
from agentic_backend.hosting.declared_metrics import declared_metrics
from agentic_backend.testing import open_application

PRICE = {"model": "*", "input_per_million": 1, "output_per_million": 2, "from": "2026-01-01"}
SETTINGS = {**FAST, "prices": [PRICE], "titles": {"enabled": False}, "applications": [{"class_path": PATH}]}
RANKER = {
    "id": "ranker",
    "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
    "tools": ["support.judging_application:rank_them"],
}


def judging(server: RunningServer, user: str) -> httpx.AsyncClient:
    return plain_http(base_url=f"{server.address}/apps/judging", headers={"authorization": f"Bearer dev:{user}"})


async def calls_by(server: RunningServer, user: str, by: str = "purpose") -> dict[str, int]:
    """How many calls of models the usage has of the user, by purpose."""
    async with rest(server, f"dev:{user}") as client:
        sums = (await client.get("/usage", params={"by": by, "start": "2026-01-01"})).json()["sums"]
    return {row["keys"][by]: row["calls"] for row in sums}


async def until_counted(server: RunningServer, user: str, wanted: dict[str, int]) -> None:
    async with asyncio.timeout(10):
        # Usage is stored in the background.
        while await calls_by(server, user) != wanted:
            await asyncio.sleep(0.02)


async def test_models_are_asked_at_the_expense_of_whoever_it_is_for(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[RANKER], settings=SETTINGS) as server:
        async with judging(server, "ann") as ann:
            assert (await ann.post("/verdicts", json={"text": "words 2 0"})).json()["text"]
            missing = await ann.post("/verdicts", json={"text": "", "model": "absent"})
            assert error_of(missing)["code"] == "agent_unavailable"
            assert (await ann.post("/forgetful", json={"text": "words 2 0"})).status_code == 200
            assert (await ann.get("/streamed")).text.count("event: judgement") == 2
        await until_counted(server, "ann", {"judge": 1, "application": 3})
        async with chat(server.address, token="dev:bob") as client:
            final = (await client.ask('use the tool rank_them with {"text": "words 2 0"}', agent_id="ranker"))[-1]
        assert final["status"] == "ok" and text_of(final["messages"][-1])
        # A hook before each message, the tool, and the answers around it.
        await until_counted(server, "bob", {"grounding": 1, "rerank": 1, "answer": 2})
        by_exchange = await calls_by(server, "bob", "exchange_id")
        assert list(by_exchange.values()) == [4]
        assert await calls_by(server, "ann") == {"judge": 1, "application": 3}


async def test_a_tool_of_a_query_is_of_its_exchange_and_its_group(tmp_path: Path) -> None:
    async with running_server(tmp_path, agents=[RANKER], settings=SETTINGS) as server:
        async with chat(server.address, token="dev:bob") as client:
            ask = {"message": 'use the tool rank_them with {"text": "words 2 0"}', "agent_id": "ranker"}
            await client.send({"type": "ask", "mode": "query", **ask})
            assert (await client.until("final"))["status"] == "ok"
        await until_counted(server, "bob", {"grounding": 1, "rerank": 1, "answer": 2})
        assert len(await calls_by(server, "bob", "exchange_id")) == 1


async def test_who_has_spent_a_budget_is_refused_before_a_model_is_asked(tmp_path: Path) -> None:
    budgets: dict[str, Any] = {"budgets": {"users": {"ann": {"cost": 0.000001}}}}
    async with running_server(tmp_path, settings={**SETTINGS, **budgets}) as server:
        async with judging(server, "ann") as ann, judging(server, "bob") as bob:
            assert (await ann.post("/verdicts", json={"text": "hello"})).status_code == 200
            refused = await ann.post("/verdicts", json={"text": "hello"})
            assert (refused.status_code, error_of(refused)["code"]) == (429, "budget_exceeded")
            assert error_of(await ann.post("/forgetful", json={"text": "hello"}))["code"] == "budget_exceeded"
            assert (await bob.post("/verdicts", json={"text": "hello"})).status_code == 200
        await until_counted(server, "ann", {"judge": 1})


async def test_what_nobody_asks_for_has_no_budget_and_an_odd_purpose_is_refused() -> None:
    async with open_application(Judging) as opened:
        assert await opened.application.ask_model("", "words 2 0")
        with pytest.raises(ValueError, match="no purpose"):
            await opened.application.ask_model("", "words 2 0", purpose="answer")  # type: ignore[arg-type]


async def test_a_transcript_is_read_by_its_own_user_alone(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        async with chat(server.address, token="dev:ann") as client:
            session_id = (await client.ask("words 2 0"))[-1]["session_id"]
            await client.ask("words 3 0", session_id=session_id)
        async with judging(server, "ann") as ann, judging(server, "bob") as bob:
            first = (await ann.get(f"/sessions/{session_id}/said")).json()
            assert first["ranks"] == [0, 1] and first["texts"][0] == "words 2 0"
            rest_of = (await ann.get(f"/sessions/{session_id}/said?after=1")).json()
            assert rest_of["ranks"] == [2, 3] and rest_of["texts"][0] == "words 3 0"
            for other in (bob, ann):
                asked = session_id if other is bob else "absent"
                assert error_of(await other.get(f"/sessions/{asked}/said"))["code"] == "session_not_found"


async def test_its_metrics_are_seen_within_bounds(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server, judging(server, "ann") as ann:
        for number in range(3):
            assert (await ann.post("/verdicts", json={"text": f"words {number} 0"})).status_code == 200
        assert await metric_at(server.internal, 'chat_app_judging__judged_total{word="words"}') == 3
        assert await metric_at(server.internal, 'chat_app_judging__length_bucket{le="10.0"}') == 3
        assert await metric_at(server.internal, "chat_app_judging__last") == 9


async def test_a_metric_has_no_more_series_than_it_may() -> None:
    async with open_application(Judging) as opened:
        for number in range(150):
            opened.application.measure(JUDGED, word=f"w{number}" * 30)
        opened.application.measure(JUDGED, 2, word="w0" * 30)
        opened.application.measure(JUDGED, word="\udcff")
        text = opened.app.kpi.exposition("")[0].decode()
        series = [line for line in text.splitlines() if line.startswith("chat_app_judging__judged_total")]
        assert len(series) == 101 and 'chat_app_judging__judged_total{word="other"} 51.0' in series
        assert all(len(line) < 200 for line in series)
        wrong: list[tuple[Metric, float, dict[str, Any]]] = [
            (JUDGED, 1, {}),
            (JUDGED, 1, {"word": "w", "more": "m"}),
            (JUDGED, 1, {"word": 3}),
            (JUDGED, -1, {"word": "w"}),
            (LAST, float("nan"), {}),
        ]
        for metric, value, labels in wrong:
            with pytest.raises(ValueError):
                opened.application.measure(metric, value, **labels)
        with pytest.raises(LookupError):
            opened.application.measure(Metric("absent", "gauge", "It."))


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("metrics", "'metrics' has to be a list"),
        ([Metric("Judged", "counter", "It.")], "a name has"),
        ([Metric("a__b", "counter", "It.")], "a name has"),
        ([Metric("a_total", "counter", "It.")], "a name has"),
        ([Metric("a", "summary", "It.")], "needs a type"),  # type: ignore[arg-type]
        ([Metric("a", "counter", "")], "a meaning"),
        ([Metric("a", "counter", "It.", ("a", "a"))], "labels"),
        ([Metric("a", "counter", "It.", ("le",))], "labels"),
        ([Metric("a", "histogram", "It.", buckets=(2, 1))], "buckets"),
        ([Metric("a", "histogram", "It.", buckets=(2**53, 2**53 + 1))], "buckets"),
        ([Metric("a", "gauge", "It.", together="mean")], "together"),  # type: ignore[arg-type]
        ([Metric("a", "counter", "It."), Metric("a", "gauge", "It.")], "another metric"),
    ],
)
def test_an_odd_metric_is_refused(metrics: object, said: str) -> None:
    with pytest.raises(ClassPathError, match=said):
        declared_metrics(metrics)
