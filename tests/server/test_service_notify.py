"""What is said to a service manager: over a real datagram socket, in the words of sd_notify(3)."""

import asyncio
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest
from support.recorded_agents import eventually
from support.service_manager import service_manager

from agentic_backend.server.service_notify import ServiceNotify, told_alive
from agentic_backend.server.workers.workers import WorkerPipe


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_it_says_what_the_server_does(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "notify") if kind == "path" else f"@agentic-{uuid4()}"
    with service_manager(address, silent_at_most_s=30) as manager:
        service = ServiceNotify.take(dict(manager.environment))
        # Nobody watches it yet.
        service.alive()
        service.ready()
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        service.reloading()
        after_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        for _ in range(100):
            service.alive()
        service.stopping()
        ready, reloading, alive, stopping = manager.listen()
    assert (ready, alive, stopping) == ("READY=1", "WATCHDOG=1", "STOPPING=1")
    state, clock = reloading.splitlines()
    assert state == "RELOADING=1"
    assert before_us <= int(clock.removeprefix("MONOTONIC_USEC=")) <= after_us


def test_child_processes_are_not_told_where_to_speak(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1", "PATH": "/bin"}
    ServiceNotify.take(environment)
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("watched", "limit_s"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": str(os.getpid())}, 1.5),
        ({"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_it_knows_how_long_it_may_be_silent(watched: dict[str, str], limit_s: float | None) -> None:
    assert ServiceNotify.take({"NOTIFY_SOCKET": "/run/notify", **watched}).silent_at_most_s == limit_s
    assert ServiceNotify.take(dict(watched)).silent_at_most_s is None, "nobody would hear it"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative"])
def test_without_an_address_it_says_nothing(address: str, caplog: pytest.LogCaptureFixture) -> None:
    ServiceNotify.take({"NOTIFY_SOCKET": address}).ready()
    assert caplog.messages == []


def test_a_manager_that_is_gone_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = ServiceNotify(str(tmp_path / "nobody"))
    for _ in range(3):
        service.ready()
    assert caplog.messages == ["service manager does not listen"]


def test_a_manager_that_does_not_read_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with service_manager(tmp_path / "notify", silent_at_most_s=1e-6) as manager:
        service = ServiceNotify.take(manager.environment)
        service.ready()
        for _ in range(1_000):
            service.alive()
        assert 0 < len(manager.listen()) < 1_000
    assert caplog.messages == ["service manager does not listen"]


async def test_what_the_server_is_waits_until_there_is_room(tmp_path: Path) -> None:
    with service_manager(tmp_path / "notify", silent_at_most_s=1e-6) as manager:
        service = ServiceNotify.take(manager.environment)
        service.ready()
        for _ in range(1_000):
            service.alive()
        stopping = asyncio.create_task(asyncio.to_thread(service.stopping))
        await manager.until("STOPPING=1")
        await stopping


async def test_the_loop_s_life_is_told_while_it_turns(tmp_path: Path) -> None:
    with service_manager(tmp_path / "notify", silent_at_most_s=0.3) as manager:
        service = ServiceNotify.take(manager.environment)
        service.ready()
        async with told_alive(service):
            await manager.until("WATCHDOG=1", times=3)
            # What it says from here on is of a loop that does not turn.
            manager.listen()
            time.sleep(1)
            assert manager.listen() == []
            await manager.until("WATCHDOG=1", times=2)
        manager.listen()
        await asyncio.sleep(0.3)
        assert manager.listen() == []


async def test_nobody_is_told_who_does_not_watch(tmp_path: Path) -> None:
    with service_manager(tmp_path / "notify") as manager:
        async with told_alive(ServiceNotify.take(manager.environment)):
            await asyncio.sleep(0.05)
        assert manager.listen() == []


async def test_a_worker_is_heard_from_its_start_on_and_never_waits(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    worker = WorkerPipe(theirs, 1.0)
    worker.alive()
    with pytest.raises(BlockingIOError):
        os.read(ours, 10)
    worker.ready()
    worker.alive()
    worker.reloading()
    worker.ready()
    worker.stopping()
    assert os.read(ours, 10) == b"r!r"
    for _ in range(200_000):
        worker.alive()
    await eventually(lambda: os.read(ours, 10) == b"!" * 10)
    os.close(ours)
    worker.alive()
    os.close(theirs)
