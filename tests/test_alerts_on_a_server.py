"""The alerts' expressions in a real Prometheus that scrapes a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import yaml
from services.prometheus import RULES, Prometheus, Sample
from support.chat_client import chat
from support.running_server import RunningServer, running_server

EXPRESSIONS: dict[str, str] = {
    rule["alert"]: rule["expr"]
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
# True wherever the machine that runs the tests is busy or small.
OF_THE_MACHINE = {
    "DescriptorsShort",
    "EventLoopBlocked",
    "EventLoopLate",
    "FirstTokenSlow",
    "MemoryNearLimit",
    "StartSlow",
    "StoreSlow",
}
LONGEST_S = 180


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    """One whose catalog has no faults."""
    async with running_server(tmp_path) as server:
        yield server


@pytest.fixture
def prometheus(tmp_path: Path, server: RunningServer) -> Iterator[Prometheus]:
    prometheus = Prometheus(tmp_path, [server.internal.removeprefix("http://")])
    prometheus.start()
    yield prometheus
    prometheus.stop()


@pytest.fixture
async def asked(server: RunningServer) -> AsyncIterator[Callable[[str, int], Awaitable[None]]]:
    async with chat(server.address) as client:

        async def ask(words: str, times: int) -> None:
            for _ in range(times):
                await client.ask(words)

        yield ask


async def until_true(prometheus: Prometheus, expression: str) -> list[Sample]:
    async with asyncio.timeout(LONGEST_S):
        while not (samples := await prometheus.query(expression)):
            await asyncio.sleep(0.2)
    return samples


async def true_alerts(prometheus: Prometheus) -> set[str]:
    return {alert for alert, expression in EXPRESSIONS.items() if await prometheus.query(expression)}


async def test_a_server_that_answers_burns_no_budget_and_no_alert_is_true(
    prometheus: Prometheus, asked: Callable[[str, int], Awaitable[None]]
) -> None:
    # A counter has to be seen twice for an increase.
    await until_true(prometheus, 'instance_slo:events:count{slo="completion"} == 0')
    await asked("hello", 20)
    await until_true(prometheus, 'slo:events:increase5m{slo="completion"} >= 10')
    burning = {labels["slo"]: rate for labels, rate in await prometheus.query("slo:burn_rate:ratio1h")}
    assert set(burning) == {"availability", "completion", "first_token", "start"}
    assert (burning["availability"], burning["completion"]) == (0, 0)
    assert await true_alerts(prometheus) - OF_THE_MACHINE == set()


async def test_a_model_that_fails_is_seen_in_the_objective_and_by_its_error(
    prometheus: Prometheus, asked: Callable[[str, int], Awaitable[None]]
) -> None:
    await until_true(prometheus, 'instance_slo:events:count{slo="completion"} == 0')
    await asked("fail at once", 12)
    [(labels, rate)] = await until_true(prometheus, EXPRESSIONS["CompletionBurnsFast"])
    assert (labels["job"], labels["slo"]) == ("agentic", "completion")
    # All of them fail: 1 / 0.005.
    assert rate == pytest.approx(200)
    # The first failures brought the series; those that come after are its increase.
    await asked("fail at once", 12)
    [(labels, _)] = await until_true(prometheus, EXPRESSIONS["ModelErrors"])
    assert (labels["gen_ai_request_model"], labels["error_type"]) == ("offline", "_OTHER")
    assert await prometheus.query(EXPRESSIONS["AvailabilityBurnsFast"]) == []


async def test_an_instance_that_is_gone_is_seen(tmp_path: Path) -> None:
    prometheus = Prometheus(tmp_path, ["127.0.0.1:1"])
    prometheus.start()
    try:
        await until_true(prometheus, "up")
        [(labels, _)] = await until_true(prometheus, EXPRESSIONS["InstanceDown"])
        assert labels["instance"] == "127.0.0.1:1"
    finally:
        prometheus.stop()
