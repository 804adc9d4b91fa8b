"""The hooks of an application see what its settings say, and its chores come back; neither harms anybody."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.chat_client import chat, text_of
from support.rest_client import metric_at
from support.running_server import RunningServer, running_server
from support.test_agents import ENTRIES
from support.watching_application import PATH, Watching

from agentic_backend.application import Application, Chore, Hook, HookContext, HookResult, Point
from agentic_backend.hosting.declared_work import declared_chores, declared_hooks


def served(tmp_path: Path, store: str | None = None, **settings: Any) -> AbstractAsyncContextManager[RunningServer]:
    options = {"applications": [{"class_path": PATH, "settings": settings}], "store": {"url": store}}
    return running_server(tmp_path, agents=ENTRIES, settings=options)


def serving() -> Watching:
    """The one that the server has made last, which it serves."""
    return Watching.made[-1]


async def asked(server: RunningServer) -> tuple[str, str]:
    """The status of an ask, and the text that it ends with."""
    async with chat(server.address) as client:
        final = (await client.ask("hello", agent_id="echo"))[-1]
    return final["status"], text_of(final["messages"][-1])


async def test_hooks_see_sessions_and_exchanges_and_change_what_they_may(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert await asked(server) == ("ok", "All is well.")
        async with asyncio.timeout(10):
            while set(serving().seen) < {"opened", "asked", "answered"}:
                await asyncio.sleep(0.01)
        label = '{module="watching:asked",point="chat:before_ai"}'
        assert await metric_at(server.internal, f"chat_module_duration_seconds_count{label}") == 1


async def test_hooks_are_for_its_own_agents_unless_they_say_otherwise(tmp_path: Path) -> None:
    async with served(tmp_path, agents="shipped") as server:
        assert await asked(server) == ("ok", "echo: hello")
        assert serving().seen == []


@pytest.mark.parametrize("act", ["hang", "exit"])
async def test_a_hook_that_fails_blocks_or_lets_pass_as_it_declares(tmp_path: Path, act: str) -> None:
    async with served(tmp_path, act=act) as server:
        status, _ = await asked(server)
        assert status == "blocked"
        label = '{module="watching:asked",point="chat:before_ai"}'
        assert await metric_at(server.internal, f"chat_module_failures_total{label}") == 1


async def test_a_hook_blocks(tmp_path: Path) -> None:
    async with served(tmp_path, act="block") as server:
        assert await asked(server) == ("blocked", "Not today.")


async def test_a_chore_comes_back_also_after_it_has_failed(tmp_path: Path) -> None:
    async with served(tmp_path, act="exit") as server:
        async with asyncio.timeout(10):
            while len(serving().swept) < 2:
                await asyncio.sleep(0.01)
        label = '{chore="watching:sweep",outcome="failed"}'
        assert await metric_at(server.internal, f"chat_housekeeping_runs_total{label}") >= 1


@pytest.mark.parametrize("kind", ON_MONGODB)
async def test_one_instance_at_a_time_does_a_chore(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    async with fresh_database(server_url(kind, request)) as url, AsyncExitStack() as stack:
        instances = []
        for name in ("one", "other"):
            (directory := tmp_path / name).mkdir()
            await stack.enter_async_context(served(directory, store=url))
            instances.append(serving())
        async with asyncio.timeout(20):
            while max(len(instance.swept) for instance in instances) < 3:
                await asyncio.sleep(0.01)
        assert min(len(instance.swept) for instance in instances) == 0


class Declaring(Application):
    async def look(self, context: HookContext) -> HookResult:
        raise NotImplementedError

    async def sweep(self) -> None:
        raise NotImplementedError

    def blocking(self) -> None:
        raise NotImplementedError


IT = Declaring(None)


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        ([Hook("chat:before_ai", IT.look)], "has to be a Point"),  # type: ignore[arg-type]
        ([Hook(Point.BEFORE_AI, IT.look, timeout_s=61)], "timeout_s"),
        ([Hook(Point.BEFORE_AI, IT.look, on_failure="stop")], "on_failure"),  # type: ignore[arg-type]
        ([Hook(Point.BEFORE_AI, IT.look, priority=0)], "priority"),
        ([Hook(Point.BEFORE_AI, IT.blocking)], "async"),  # type: ignore[arg-type]
        ([Hook(Point.BEFORE_AI, IT.look), Hook(Point.AFTER_AI, IT.look)], "two hooks are the method 'look'"),
        ([IT.look], "of class Hook"),
        (None, "of class Hook"),
    ],
)
def test_wrong_hooks_are_refused(hooks: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        declared_hooks("it", hooks)


@pytest.mark.parametrize(
    ("chores", "why"),
    [
        ([Chore(IT.sweep, every_s=0.5)], "every_s"),
        ([Chore(IT.sweep, every_s=float("nan"))], "every_s"),
        ([Chore(IT.sweep, every_s=60, timeout_s=51)], "timeout_s"),
        ([Chore(IT.blocking, every_s=60)], "async"),  # type: ignore[arg-type]
        ([Chore(IT.sweep, every_s=60)] * 2, "two chores are the method 'sweep'"),
        ({}, "of class Chore"),
    ],
)
def test_wrong_chores_are_refused(chores: Any, why: str) -> None:
    with pytest.raises(Exception, match=why):
        declared_chores("it", chores)
