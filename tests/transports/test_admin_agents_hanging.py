"""Code of an agent in the database that does not end while it is imported: it holds nobody else up."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.admin_agents import ON, call, entry, served_ids
from support.running_server import RunningServer, running_server
from support.server_process import PATIENCE_S

from agentic_backend.agents.code import import_thread

MODULE = """
import time
from pathlib import Path

from support.test_agents import echo_graph

while Path({hold!r}).exists():
    time.sleep(0.01)


def build():
    return echo_graph
"""
HANGING = entry("hanging", "hanging_module:build")
SETTINGS: dict[str, Any] = {"agents": {"database": {**ON, "classes": [*ON["classes"], "hanging_module:*"]}}}


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """While this file is there, the import of `hanging_module` does not end."""
    hold = tmp_path / "hold"
    hold.touch()
    (tmp_path / "hanging_module.py").write_text(MODULE.format(hold=str(hold)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(import_thread, "LONGEST_S", 0.3)
    yield hold
    hold.unlink(missing_ok=True)
    for thread in threading.enumerate():
        if thread.name == "imports":
            thread.join()
    sys.modules.pop("hanging_module", None)


async def until_saved(server: RunningServer, text: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await call(server, "POST", "", {"yaml": text}))[0] != 201:
            await asyncio.sleep(0.05)


async def test_a_check_that_does_not_end_is_refused_and_what_is_served_goes_on(
    tmp_path: Path, hold: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        assert (await call(server, "POST", "", {"yaml": entry()}))[0] == 201
        for _ in range(2):
            status, refused = await call(server, "POST", "/check", {"yaml": HANGING})
            assert (status, refused["error"]["code"]) == (503, "agent_unavailable")
        assert [record.message for record in caplog.records].count("import of agents has not ended") == 1
        assert len([thread for thread in threading.enumerate() if thread.name == "imports"]) == 1
        assert await served_ids(server) == ["assistant", "helper"]
        # What needs no import can be written still, and all of it can be read.
        assert (await call(server, "DELETE", "/helper"))[0] == 204
        assert (await call(server, "GET"))[0] == 200
        hold.unlink()
        await until_saved(server, HANGING)
        assert await served_ids(server) == ["assistant", "hanging"]


async def test_a_check_whose_client_goes_holds_nothing_up(
    tmp_path: Path, hold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_thread, "LONGEST_S", PATIENCE_S)
    async with running_server(tmp_path, settings=SETTINGS) as server:
        checking = asyncio.create_task(call(server, "POST", "/check", {"yaml": HANGING}))
        async with asyncio.timeout(PATIENCE_S):
            while "hanging_module" not in sys.modules:
                await asyncio.sleep(0.01)
        checking.cancel()
        await asyncio.wait({checking})
        following = asyncio.create_task(call(server, "POST", "/check", {"yaml": entry()}))
        hold.unlink()
        assert await following == (200, {"problems": []})


async def test_of_many_checks_only_some_wait(tmp_path: Path, hold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_thread, "LONGEST_S", PATIENCE_S)
    async with running_server(tmp_path, settings=SETTINGS) as server:
        checks = [asyncio.create_task(call(server, "POST", "/check", {"yaml": HANGING})) for _ in range(20)]
        done, waiting = set[Any](), set(checks)
        async with asyncio.timeout(PATIENCE_S):
            while len(waiting) > 8:
                newly, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                done |= newly
        assert {(status, body["error"]["code"]) for status, body in (each.result() for each in done)} == {
            (429, "rate_limited")
        }
        hold.unlink()
        assert [await each for each in waiting] == [(200, {"problems": []})] * 8


async def test_a_server_starts_and_serves_all_others_once_the_import_ends(tmp_path: Path, hold: Path) -> None:
    hold.unlink()
    async with running_server(tmp_path, settings=SETTINGS) as server:
        await until_saved(server, HANGING)
    sys.modules.pop("hanging_module")
    hold.touch()
    async with running_server(tmp_path, settings=SETTINGS) as server:
        assert await served_ids(server) == ["assistant"]
        hold.unlink()
        async with asyncio.timeout(PATIENCE_S):
            while await served_ids(server) != ["assistant", "hanging"]:
                await asyncio.sleep(0.05)
