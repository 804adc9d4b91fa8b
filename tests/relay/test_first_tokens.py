"""wait_for_first_tokens: other work waits while an exchange waits for its first token, though not for long."""

import asyncio
import time

import pytest
from support.scripted_run import ScriptedRun
from support.sessions import idle_relay

from agentic_backend.relay import relay as relay_module
from agentic_backend.relay.first_tokens import wait_for_first_tokens
from agentic_backend.relay.relay import Relay

LONG_S = 30.0


async def ends_soon(waiting: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(5):
        await waiting


def test_what_runs_longer_than_this_does_not_wait_for_the_process() -> None:
    assert relay_module._STARTS_WITHIN_S < LONG_S


async def test_nothing_is_waited_for_where_nothing_runs() -> None:
    relay = idle_relay()
    assert not relay.awaits_first_token
    await ends_soon(asyncio.create_task(wait_for_first_tokens(relay, LONG_S)))


@pytest.mark.parametrize("how", ["speaks", "ends", "stays silent"])
async def test_the_wait_ends_once_each_exchange_has_spoken_or_ended_or_takes_long(how: str) -> None:
    relay = idle_relay()
    spoken, silent = ScriptedRun.begin(relay, "e1"), ScriptedRun.begin(relay, "e2", "s2")
    spoken.has_spoken = True
    waiting = asyncio.create_task(wait_for_first_tokens(relay, LONG_S))
    await asyncio.sleep(0.2)
    assert not waiting.done() and relay.awaits_first_token
    if how == "speaks":
        silent.has_spoken = True
    elif how == "ends":
        silent.finish()
    else:
        silent.began_at = time.monotonic() - LONG_S
    await ends_soon(waiting)
    for run in (spoken, silent):
        run.finish()
    await relay.aclose()


async def test_what_is_being_admitted_waits_for_its_first_token() -> None:
    relay, admitted = idle_relay(), asyncio.Event()

    async def begin() -> None:
        await admitted.wait()

    admission = relay.admit("ann", begin)
    waiting = asyncio.create_task(wait_for_first_tokens(relay, LONG_S))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    admitted.set()
    await admission
    await ends_soon(waiting)


async def test_nothing_waits_longer_than_it_wants() -> None:
    relay = idle_relay()
    run = ScriptedRun.begin(relay, "e1")
    await ends_soon(asyncio.create_task(wait_for_first_tokens(relay, 0.1)))
    assert relay.awaits_first_token
    run.finish()
    await relay.aclose()


async def test_a_shutdown_does_not_wait_for_first_tokens() -> None:
    relay: Relay = idle_relay()
    run = ScriptedRun.begin(relay, "e1")
    waiting = relay.spawn(wait_for_first_tokens(relay, LONG_S))
    await asyncio.sleep(0)
    run.task_may_end.set()
    async with asyncio.timeout(5):
        await relay.aclose()
    assert waiting.cancelled()
