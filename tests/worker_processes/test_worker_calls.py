"""Calls of worker processes: real ones, whatever they do."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from support.further_cases import further
from support.processes import children, is_there, runs
from support.worker_code import PATH

from agentic_backend.errors import ApplicationUnavailable
from agentic_backend.kpi import Kpi
from agentic_backend.worker_processes import worker_calls, worker_process
from agentic_backend.worker_processes.waiting_calls import MOST_CALLS
from agentic_backend.worker_processes.worker import Worker
from agentic_backend.worker_processes.worker_calls import Workers


class Opened:
    def __init__(self, workers: Workers, kpi: Kpi) -> None:
        self._workers = workers
        self._kpi = kpi

    async def call(self, method: str, *arguments: object, user: str = "ann", timeout_s: float = 20) -> Any:
        return await self._workers.call("counter", user, method, arguments, timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended without being called."""
        process = self._workers._calls["counter"]._process
        return process is not None and process.has_ended

    def metric(self, name: str, **labels: str) -> float:
        told = "".join(f'{label}="{value}",' for label, value in labels.items())
        series = f'chat_application_worker_{name}{{application="notes",{told}worker="counter"}} '
        text = self._kpi.exposition("")[0].decode()
        return sum(float(line.removeprefix(series)) for line in text.splitlines() if line.startswith(series))


@asynccontextmanager
async def opened(name: str = "Counter", **declared: Any) -> AsyncIterator[Opened]:
    kpi = Kpi()
    worker = Worker("counter", f"{PATH}:{name}", **declared)
    workers = Workers("notes", "Notes", [worker], kpi.applications.workers)
    before = {*children(os.getpid())}
    try:
        yield Opened(workers, kpi)
    finally:
        await workers.aclose()
        assert {*children(os.getpid())} <= before


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(10):
        while any(map(runs, pids)):
            await asyncio.sleep(0.01)


async def test_a_process_begins_with_the_first_call_and_keeps_what_it_has_made() -> None:
    async with opened(arguments={"start": 5}) as worker:
        await asyncio.sleep(0.01)
        assert worker.metric("running") == 0
        assert [await worker.call("count") for _ in range(3)] == [6, 7, 8]
        value = {"a": [1, 2.5, None, True, "ü"], "b": b"\x00\xff" * 100_000}
        assert await worker.call("echo", value) == value
        assert worker.metric("running") == 1 and worker.metric("seconds_count", outcome="ok") == 4
        pid = await worker.call("pid")
    await until_gone(pid)
    assert worker.metric("ends_total", reason="closed") == 1


async def test_it_stands_back_and_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "hunter2")
    monkeypatch.setenv("MODELS_FOLDER", "/models")
    async with opened(environment=("MODELS_FOLDER", "NOT_THERE")) as worker:
        found = await worker.call("environment")
        assert {name for name in found if not name.startswith("LC_")} == {"MODELS_FOLDER"}
        limits = await worker.call("limits")
        assert limits["nice"] >= 10 and limits["oom"] == 1000


async def test_what_the_code_raises_ends_one_call_and_says_no_text(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as worker:
        for method, error in {"fail": "ValueError", "leave": "SystemExit", "absent": "AttributeError"}.items():
            with pytest.raises(ApplicationUnavailable) as raised:
                await worker.call(method)
            assert raised.value.retryable is False
            told = vars(caplog.records[-1])
            assert (told["message"], told["worker"], told["error"]) == ("worker process raised", "counter", error)
            assert ("worker_code.py" in told["where"]) == (method != "absent") and "hunter2" not in str(told)
        for kind in ("object", "nan", "surrogate", "key"):
            with pytest.raises(ApplicationUnavailable):
                await worker.call("odd", kind)
        for kind in ("text", "bytes"):
            with pytest.raises(ApplicationUnavailable):
                await worker.call("large", kind)
        assert len(await worker.call("large", "fits")) == 31 * 1024 * 1024
        assert await worker.call("count") == 1


@pytest.mark.parametrize(
    ("method", "arguments", "reason"),
    [
        ("die", [signal.SIGKILL.value], "died"),
        ("fault", [], "died"),
        ("fill", [], "memory"),
        ("map_much", [], "died"),
        ("scribble", [b"rubbish" * 100], "rubbish"),
        ("scribble", [b"\xff" * 16], "rubbish"),
    ],
)
async def test_a_process_that_is_lost_costs_one_call(
    method: str, arguments: list[Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(memory_mb=600) as worker:
        assert await worker.call("count") == 1
        if method == "map_much":
            # mmap tells it as an OSError, which is the code's.
            with pytest.raises(ApplicationUnavailable):
                await worker.call(method)
            assert await worker.call("count") == 2
            return
        lost, other = await asyncio.gather(
            worker.call(method, *arguments), worker.call("count", user="bob"), return_exceptions=True
        )
        assert isinstance(lost, ApplicationUnavailable) and lost.retryable
        assert other == 1
        [told] = [vars(record) for record in caplog.records if record.message == "worker process lost"]
        assert (told["reason"], told["method"]) == (reason, method)
        assert worker.metric("ends_total", reason=reason) == worker.metric("seconds_count", outcome=reason) == 1


async def test_a_call_that_hangs_is_ended_at_its_time() -> None:
    async with opened() as worker:
        pid = await worker.call("pid")
        began = time.monotonic()
        with pytest.raises(ApplicationUnavailable) as raised:
            await worker.call("nap", 3600, timeout_s=0.3)
        assert raised.value.retryable and time.monotonic() - began < 5
        assert await worker.call("count") == 1
        assert not runs(pid) and worker.metric("ends_total", reason="timeout") == 1


async def test_who_waits_long_costs_nobody_the_process() -> None:
    async with opened() as worker:
        await worker.call("count")
        working = asyncio.create_task(worker.call("nap", 0.6))
        await asyncio.sleep(0.05)
        with pytest.raises(ApplicationUnavailable):
            await worker.call("count", timeout_s=0.2)
        await working
        assert await worker.call("count") == 2


async def test_a_flood_of_output_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    async with opened() as worker:
        assert await worker.call("flood") == 64
    assert capfd.readouterr() == ("", "")


async def test_what_it_has_started_ends_with_it() -> None:
    async with opened() as worker:
        first = await worker.call("fork")
        with pytest.raises(ApplicationUnavailable):
            await worker.call("die")
        assert not any(map(runs, first))
        second = await worker.call("fork")
        assert all(map(runs, second))
    assert not any(map(runs, second))


async def test_a_keeper_that_stands_still_is_killed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "_END_S", 0.2)
    async with opened() as worker:
        keeper = await worker.call("stop_keeper")
        pid = await worker.call("pid")
    assert not is_there(keeper)
    await until_gone(pid)


SERVER = f"""
import asyncio
from agentic_backend.kpi import Kpi
from agentic_backend.worker_processes.worker import Worker
from agentic_backend.worker_processes.worker_calls import Workers

async def main():
    workers = Workers("notes", "Notes", [Worker("counter", "{PATH}:Counter")], Kpi().applications.workers)
    started = await workers.call("counter", "ann", "fork", [], 20)
    started.append(await workers.call("counter", "ann", "pid", [], 20))
    print(*started, flush=True)
    await workers.call("counter", "ann", "nap", [3600], 600)

asyncio.run(main())
"""


async def test_nothing_outlives_a_server_that_is_killed() -> None:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    pids = [*map(int, (await server.stdout.readline()).split())]
    assert len(pids) == 4 and all(map(runs, pids))
    pids += children(server.pid)
    server.kill()
    await server.wait()
    await until_gone(*pids)


async def test_a_keeper_that_is_killed_takes_the_worker_with_it() -> None:
    async with opened() as worker:
        keeper, first = await worker.call("keeper"), await worker.call("fork")
        hanging = asyncio.create_task(worker.call("nap", 3600))
        await asyncio.sleep(0.05)
        os.kill(keeper, signal.SIGKILL)
        with pytest.raises(ApplicationUnavailable):
            await hanging
        assert worker.metric("ends_total", reason="died") == 1
        await until_gone(first[0])
        for alone in first[1:]:
            # Nobody knows of those with a session of their own any more.
            os.kill(alone, signal.SIGKILL)


async def test_it_ends_in_whatever_state_it_is() -> None:
    for wait_s in (0, 0.02, 0.4):
        async with opened() as worker:
            calls = [asyncio.create_task(worker.call("nap", 3600)) for _ in range(3)]
            await asyncio.sleep(wait_s)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in results} == {ApplicationUnavailable}
        with pytest.raises(ApplicationUnavailable):
            await worker.call("count")


async def test_first_calls_at_once_make_one_process() -> None:
    async with opened() as worker:
        counts = await asyncio.gather(*(worker.call("count", user=f"u{number % 7}") for number in range(50)))
        assert sorted(counts) == list(range(1, 51))


async def test_it_ends_when_it_is_idle_and_begins_again() -> None:
    async with opened(idle_s=0.1) as worker:
        pid = await worker.call("pid")
        await until_gone(pid)
        assert await worker.call("count") == 1
        assert worker.metric("ends_total", reason="idle") >= 1


async def test_one_that_died_while_idle_is_replaced_unseen() -> None:
    async with opened() as worker:
        pid = await worker.call("pid")
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            # The keeper sees to what is left before it closes the socket.
            while not worker.has_ended:
                await asyncio.sleep(0.01)
        assert await worker.call("count") == 1


@pytest.mark.parametrize("name", ["NeverMade", "NeverReady", "Absent"])
async def test_what_never_starts_is_tried_again_later(name: str, caplog: pytest.LogCaptureFixture) -> None:
    # The others say at once what is wrong with them.
    async with opened(name, start_s=0.5 if name == "NeverReady" else 30) as worker:
        for _ in range(2):
            with pytest.raises(ApplicationUnavailable) as raised:
                await worker.call("count")
            assert raised.value.retryable
        assert raised.value.retry_after_s == 1
        [told] = [vars(record) for record in caplog.records if record.message == "worker process can't start"]
        errors = {"NeverMade": "RuntimeError", "NeverReady": "timeout", "Absent": "AttributeError"}
        assert told["error"] == errors[name] and "hunter2" not in str(told)
        assert worker.metric("refusals_total") == 1


async def test_one_death_after_the_other_is_backed_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_calls, "_FIRST_REST_S", 1.0)
    async with opened() as worker:
        for _ in range(2):
            with pytest.raises(ApplicationUnavailable):
                await worker.call("die")
        with pytest.raises(ApplicationUnavailable) as raised:
            await worker.call("count")
        assert raised.value.retry_after_s is not None
        async with asyncio.timeout(20):
            while True:
                with suppress(ApplicationUnavailable):
                    assert await worker.call("count") == 1
                    break
                await asyncio.sleep(0.05)


async def test_users_take_turns() -> None:
    done: list[str] = []

    async def ask(worker: Opened, user: str, number: int) -> None:
        await worker.call("echo", number, user=user)
        done.append(f"{user}{number}")

    async with opened() as worker:
        await worker.call("count")
        working = asyncio.create_task(worker.call("nap", 0.2))
        await asyncio.sleep(0.05)
        asks = [ask(worker, "ann", number) for number in range(3)] + [ask(worker, "bob", number) for number in range(2)]
        await asyncio.gather(working, *asks)
    assert done == ["ann0", "bob0", "ann1", "bob1", "ann2"]


async def test_what_waits_is_bounded_and_a_cancelled_caller_frees_its_place() -> None:
    async with opened() as worker:
        await worker.call("count")
        working = asyncio.create_task(worker.call("nap", 2))
        await asyncio.sleep(0.05)
        for _ in range(5):
            waiting = [asyncio.create_task(worker.call("count")) for _ in range(MOST_CALLS)]
            await asyncio.sleep(0.01)
            assert worker.metric("waiting") == MOST_CALLS
            with pytest.raises(ApplicationUnavailable) as raised:
                await worker.call("count")
            assert raised.value.retry_after_s == 1
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert worker.metric("waiting") == 0
        # Whoever leaves while it works leaves the process as it is.
        working.cancel()
        assert await worker.call("count") == 2
        assert worker.metric("ends_total", reason="timeout") == 0


async def test_so_many_bytes_wait_and_no_more() -> None:
    async with opened() as worker:
        await worker.call("count")
        working = asyncio.create_task(worker.call("nap", 2))
        waiting = [asyncio.create_task(worker.call("echo", bytes(30 * 1024 * 1024))) for _ in range(2)]
        async with asyncio.timeout(20):
            while worker.metric("waiting") < 2:
                await asyncio.sleep(0.01)
        with pytest.raises(ApplicationUnavailable):
            await worker.call("echo", bytes(5 * 1024 * 1024))
        assert await worker.call("echo", 1, user="bob") == 1
        await asyncio.gather(working, *waiting)


@pytest.mark.parametrize(
    ("method", "arguments", "timeout_s", "error"),
    [
        ("echo", [object()], 1, TypeError),
        ("echo", [lambda: 1], 1, TypeError),
        ("_work", [], 1, ValueError),
        ("__init__", [], 1, ValueError),
        ("a.b", [], 1, ValueError),
        ("echo", [1], 0, ValueError),
        ("echo", [1], float("nan"), ValueError),
        ("echo", [1], 601, ValueError),
        ("echo", [1], True, ValueError),
    ],
)
async def test_an_odd_call_is_refused_where_it_is_made(
    method: str, arguments: list[Any], timeout_s: Any, error: type[Exception]
) -> None:
    async with opened() as worker:
        with pytest.raises(error):
            await worker.call(method, *arguments, timeout_s=timeout_s)
        assert worker.metric("running") == 0


async def test_large_arguments_do_not_block_the_loop() -> None:
    texts = ["word " * 100] * 8_000
    async with opened() as worker:
        await worker.call("count")
        late_s, clock = 0.0, asyncio.get_running_loop().time

        async def watch() -> None:
            nonlocal late_s
            while True:
                began = clock()
                await asyncio.sleep(0.005)
                late_s = max(late_s, clock() - began)

        watching = asyncio.create_task(watch())
        assert len(await worker.call("echo", texts)) == len(texts)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    # Far less than it takes to pack and read them, on any machine.
    assert late_s < 0.25


@pytest.fixture
def quick_rests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_calls, "_FIRST_REST_S", 0.001)
    monkeypatch.setattr(worker_calls, "_LONGEST_REST_S", 0.001)
    yield


@pytest.mark.usefixtures("quick_rests")
@pytest.mark.parametrize("times", [5, further(100)])
async def test_killed_in_mid_call_again_and_again_it_comes_back(times: int) -> None:
    async with opened() as worker:
        for _ in range(times):
            pid = await worker.call("pid")
            hanging = asyncio.create_task(worker.call("nap", 3600))
            await asyncio.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(ApplicationUnavailable):
                await hanging
            assert not runs(pid)
        assert worker.metric("ends_total", reason="died") == times
