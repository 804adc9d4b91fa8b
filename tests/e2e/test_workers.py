"""Workers are scraped and probed at one port: their metrics are summed, their health is one."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from support.chat_client import chat
from support.processes import children
from support.rest_client import plain_http
from support.server_process import PATIENCE_S, ServerProcess, serving

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
WORKERS = 2
FAST = {"AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 0}'}


@pytest.fixture
async def parent(shared: list[str], tmp_path: Path) -> AsyncIterator[ServerProcess]:
    async with serving(*shared, "--workers", WORKERS, cwd=tmp_path, environment=FAST) as parent:
        await parent.started(times=WORKERS)
        await answers(parent, lambda series: up(series) == [1, 1])
        yield parent


async def scrape(parent: ServerProcess) -> Series:
    async with plain_http(timeout=PATIENCE_S) as http:
        text = (await http.get(f"{parent.internal}/metrics")).text
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


async def answers(parent: ServerProcess, condition: Callable[[Series], bool]) -> Series:
    """Wait until a scrape is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition(series := await scrape(parent)):
            await asyncio.sleep(0.05)
    return series


def up(series: Series) -> list[float]:
    return [series["chat_worker_up", (("worker", str(number)),)] for number in range(WORKERS)]


def ended(series: Series) -> float:
    """The exchanges that have ended, on all workers."""
    return sum(value for (name, _), value in series.items() if name == "chat_exchange_total")


async def ask(parent: ServerProcess, times: int) -> None:
    for _ in range(times):
        async with chat(parent.address) as client:
            await client.ask("hello", mode="query")


def counters(series: Series) -> Series:
    endings = ("_total", "_count", "_bucket")
    return {
        each: value
        for each, value in series.items()
        if each[0].endswith(endings) and each[0].startswith(("chat_", "gen_ai_"))
    }


async def test_what_workers_count_is_summed_at_one_port(parent: ServerProcess) -> None:
    lines = {line for line in parent.stdout.splitlines() if line.startswith("Chat at ")}
    assert len(lines) == 1, "all name the same addresses"
    await ask(parent, 12)
    series = await answers(parent, lambda series: ended(series) == 12)
    duration = ("gen_ai_invoke_agent_duration_seconds_count", (("error_type", ""), ("gen_ai_agent_name", "Assistant")))
    assert series[duration] == 12
    assert series["chat_running_limit", ()] % WORKERS == 0
    assert series["chat_dependency_up", (("dependency", "broadcast"),)] == 1, "the least of all"
    assert len([name for name, _ in series if name == "chat_instance_info"]) == WORKERS
    of_processes = {labels for name, labels in series if name == "process_resident_memory_bytes"}
    assert of_processes == {(("worker", "0"),), (("worker", "1"),)}
    assert [value for (name, _), value in series.items() if name == "chat_build_info"] == [1]


async def test_the_sum_is_valid_in_both_formats_and_keeps_exemplars(parent: ServerProcess) -> None:
    await ask(parent, 6)
    await answers(parent, lambda series: ended(series) == 6)
    async with plain_http(timeout=PATIENCE_S) as http:
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        told = await http.get(f"{parent.internal}/metrics", headers=accept)
    assert told.headers["content-type"].startswith("application/openmetrics-text")
    samples = [one for family in openmetrics_families(told.text) for one in family.samples]
    assert any(one.exemplar is not None and "exchange_id" in one.exemplar.labels for one in samples)


async def test_no_counter_goes_down_when_a_worker_is_killed(parent: ServerProcess) -> None:
    await ask(parent, 10)
    before = await answers(parent, lambda series: ended(series) == 10)
    for worker in children(parent.pid)[:WORKERS]:
        os.kill(worker, signal.SIGKILL)
        lacks_one = await answers(parent, lambda series: 0 in up(series))
        assert {each for each, value in counters(before).items() if lacks_one[each] < value} == set()
        before = await answers(parent, lambda series: up(series) == [1, 1])
    assert ended(before) == 10
    await ask(parent, 5)
    after = await answers(parent, lambda series: ended(series) == 15)
    assert {each for each, value in counters(before).items() if after[each] < value} == set()


async def test_health_is_one_while_a_worker_is_gone_or_stands_still(parent: ServerProcess) -> None:
    async def status(http: httpx.AsyncClient, path: str) -> tuple[int, str]:
        answer = await http.get(f"{parent.internal}/health/{path}")
        return answer.status_code, answer.json()["status"]

    async with plain_http(timeout=PATIENCE_S) as http:
        async with asyncio.timeout(PATIENCE_S):
            while await status(http, "ready") != (200, "ok"):
                await asyncio.sleep(0.05)
        workers = children(parent.pid)[:WORKERS]
        os.kill(workers[0], signal.SIGSTOP)
        try:
            assert await status(http, "ready") == (200, "ok"), "the other one takes what comes"
            assert await status(http, "live") == (200, "ok"), "not yet silent for long"
            os.kill(workers[1], signal.SIGSTOP)
            assert await status(http, "ready") == (503, "no_worker")
            assert await status(http, "live") == (503, "no_worker")
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_S):
            while await status(http, "ready") != (200, "ok") or await status(http, "live") != (200, "ok"):
                await asyncio.sleep(0.05)
        assert (await http.get(f"{parent.internal}/log")).text.count("server started") == WORKERS


async def test_the_joint_listener_is_replaced_and_ends_with_its_parent(parent: ServerProcess) -> None:
    [joint] = children(parent.pid)[WORKERS:]
    os.kill(joint, signal.SIGTERM)
    assert up(await scrape(parent)) == [1, 1], "a signal to all processes does not end it before the workers"
    os.kill(joint, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        while "joint listener ended" not in parent.stderr:
            await asyncio.sleep(0.05)
    await answers(parent, lambda series: up(series) == [1, 1])
    assert await parent.stop() == 0
    async with plain_http() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{parent.internal}/metrics")
