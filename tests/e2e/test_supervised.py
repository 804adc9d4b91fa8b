"""The server under a service manager: what it says, and what its parent does about a worker that hangs."""

import asyncio
import os
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from graphs import loop_blocking
from support.chat_client import chat, check_exchange
from support.processes import children
from support.rest_client import metric_at
from support.server_process import PATIENCE_S, ServerProcess, command, serving
from support.service_manager import service_manager

OFFLINE = {"AGENTIC_MODELS__DEFAULT__MODEL": "offline"}
# A module whose import tells that it has begun, and waits.
LATE = """
import os, pathlib, time
from loop_blocking import in_a_thread
pathlib.Path(f"waits-{os.getpid()}").touch()
while not pathlib.Path("go-on").exists():
    time.sleep(0.02)
"""
HANGUP = 1 << (signal.SIGHUP - 1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With a catalog of an agent that answers, and one that blocks the event loop for good."""
    shutil.copy(loop_blocking.__file__, tmp_path)
    entries = [{"id": name, "class_path": f"loop_blocking:{name}"} for name in ("in_a_thread", "never_ending")]
    (tmp_path / "agents_catalog.yaml").write_text(yaml.safe_dump({"agents": entries}))
    return tmp_path


async def test_it_is_ready_once_it_serves_and_says_when_it_ends(tmp_path: Path) -> None:
    with service_manager(tmp_path / "notify") as manager:
        environment = {**OFFLINE, **manager.environment}
        async with command("serve", "--port", 0, cwd=tmp_path, environment=environment) as server:
            await manager.until("READY=1")
            await server.started()
            async with chat(server.address) as client:
                await client.send({"message": "count down slowly from 20"})
                await client.until("delta")
                assert manager.listen() == []
                server.process.send_signal(signal.SIGTERM)
                await manager.until("STOPPING=1")
                await client.until("final")
                check_exchange([event for event in client.events if event["type"] != "session"])
            assert await server.ended() == 0
        manager.listen()
        assert manager.heard == ["READY=1", "STOPPING=1"]


async def test_a_reload_is_announced_and_ended(directory: Path) -> None:
    with service_manager(directory / "notify") as manager:
        async with serving(cwd=directory, environment=manager.environment) as server:
            await manager.until("READY=1")
            server.process.send_signal(signal.SIGHUP)
            await manager.until("READY=1")
            # One that fails ends too: what was there goes on.
            (directory / "agents_catalog.yaml").write_text("agents: nobody")
            server.process.send_signal(signal.SIGHUP)
            await manager.until("READY=1")
            assert await server.stop() == 0
            assert "catalog not reloaded" in server.stderr
        manager.listen()
    states = [said.split("=")[0] for said in manager.heard]
    assert states == ["READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING"]


async def test_one_that_can_not_start_is_never_ready(tmp_path: Path) -> None:
    with service_manager(tmp_path / "notify") as manager:
        away = {**OFFLINE, **manager.environment, "AGENTIC_STORE__URL": "mongodb://127.0.0.1:1/"}
        async with command("serve", "--port", 0, cwd=tmp_path, environment=away) as server:
            assert await server.ended() == 1
        assert manager.listen() == []


async def test_a_loop_that_hangs_is_not_called_alive(directory: Path) -> None:
    with service_manager(directory / "notify", silent_at_most_s=3) as manager:
        async with serving(cwd=directory, environment=manager.environment) as server:
            await manager.until("READY=1")
            await manager.until("WATCHDOG=1", times=3)
            async with chat(server.address) as client:
                await client.send({"message": "hello", "agent_id": "never_ending"})
                async with asyncio.timeout(PATIENCE_S):
                    while "code blocks the event loop" not in server.stderr:
                        await asyncio.sleep(0.05)
                manager.listen()
                # Longer than it may be silent: a service manager would end it now.
                await asyncio.sleep(3.5)
                assert manager.listen() == []
            server.process.kill()


async def hanging(server: ServerProcess) -> None:
    """Let a worker hang for good, until the parent has noticed it."""
    async with chat(server.address) as client:
        await client.send({"message": "hello", "agent_id": "never_ending"})
        async with asyncio.timeout(PATIENCE_S):
            while "worker hangs and is killed" not in server.stderr:
                await asyncio.sleep(0.05)


@pytest.mark.mongodb
@pytest.mark.redis
async def test_workers_are_ready_together_and_one_that_hangs_is_replaced(
    mongodb_url: str, redis_url: str, directory: Path
) -> None:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url, "--workers", 2]
    with service_manager(directory / "notify", silent_at_most_s=20) as manager:
        async with serving(*arguments, cwd=directory, environment=manager.environment) as parent:
            await manager.until("READY=1")
            await parent.started(times=2)
            before = set(children(parent.pid))
            await hanging(parent)
            await parent.started(times=3)
            after = set(children(parent.pid))
            assert len(before - after) == len(after - before) == 1
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(chat(parent.address)) for _ in range(6)]
                for client in clients:
                    check_exchange(await client.ask("hello", agent_id="in_a_thread"))
            await manager.until("WATCHDOG=1")
            assert await parent.stop() == 0
        manager.listen()
    # The parent lives, whatever its workers do, and it alone speaks.
    assert [said for said in manager.heard if said != "WATCHDOG=1"] == ["READY=1", "STOPPING=1"]


@pytest.mark.mongodb
@pytest.mark.redis
async def test_a_reload_of_workers_ends_once_each_has_ended_its_own(
    mongodb_url: str, redis_url: str, directory: Path
) -> None:
    arguments = ["--store", mongodb_url, "--broadcast", redis_url, "--workers", 2]
    catalog = directory / "agents_catalog.yaml"
    with service_manager(directory / "notify") as manager:
        async with serving(*arguments, cwd=directory, environment=manager.environment) as parent:
            await manager.until("READY=1")
            await parent.started(times=2)
            (directory / "late.py").write_text(LATE)
            entries = yaml.safe_load(catalog.read_text())["agents"]
            catalog.write_text(yaml.safe_dump({"agents": [*entries, {"id": "late", "class_path": "late:in_a_thread"}]}))
            parent.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(PATIENCE_S):
                while len(list(directory.glob("waits-*"))) < 2:
                    await asyncio.sleep(0.05)
            assert [said.split("=")[0] for said in manager.listen()] == ["RELOADING"]
            (directory / "go-on").touch()
            await manager.until("READY=1")
            assert await metric_at(parent.internal, 'chat_reloads_total{outcome="ok"}') == 2
            assert await metric_at(parent.internal, "chat_last_reload_ok") == 1
            # One that fails ends too, in each.
            catalog.write_text("agents: nobody")
            parent.process.send_signal(signal.SIGHUP)
            await manager.until("READY=1")
            assert await metric_at(parent.internal, 'chat_reloads_total{outcome="failed"}') == 2
            assert await metric_at(parent.internal, "chat_last_reload_ok") == 0
            assert await parent.stop() == 0
            assert parent.stderr.count('"catalog reloaded"') == parent.stderr.count('"catalog not reloaded"') == 2
        manager.listen()
    states = [said.split("=")[0] for said in manager.heard]
    assert states == ["READY", "RELOADING", "READY", "RELOADING", "READY", "STOPPING"]


def catches_hangup(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(int(line.split()[1], 16) & HANGUP for line in lines if line.startswith("SigCgt:"))


@pytest.mark.mongodb
@pytest.mark.redis
async def test_a_hangup_while_it_starts_ends_neither_parent_nor_worker(
    mongodb_url: str, redis_url: str, tmp_path: Path
) -> None:
    """From the first line of its own code on: sent to all its processes, again and again, until all workers serve."""
    arguments = ["--store", mongodb_url, "--broadcast", redis_url, "--workers", 2]
    async with command(
        "serve", "--port", 0, *arguments, cwd=tmp_path, environment=OFFLINE, start_new_session=True
    ) as parent:
        async with asyncio.timeout(PATIENCE_S):
            while not catches_hangup(parent.pid):
                await asyncio.sleep(0.001)
            while parent.stdout.count("Chat at") < 2:
                os.killpg(parent.pid, signal.SIGHUP)
                assert parent.process.returncode is None, parent.stderr
                await asyncio.sleep(0.01)
        async with chat(parent.address) as client:
            check_exchange(await client.ask("hello"))
        assert "worker ended" not in parent.stderr
        assert await parent.stop() == 0
