"""The stream of one exchange, at moments that no real connection hits reliably."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import pytest
from starlette.types import Message
from support.scripted_run import ScriptedRun
from support.sessions import idle_relay

from agentic_backend.auth.user import User
from agentic_backend.config.limits import LimitsSettings
from agentic_backend.relay.relay import Relay
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.sse import ChatV2Renderer, exchange_stream

ANN = User("ann", "Ann")


@pytest.fixture
async def relay() -> AsyncIterator[Relay]:
    relay = idle_relay()
    yield relay
    relay.drain.cut_short.set()
    await relay.aclose()


@pytest.mark.parametrize("stops", [True, False])
async def test_a_client_that_is_gone_before_the_stream_begins_counts_as_any_other(relay: Relay, stops: bool) -> None:
    run, place, is_over = ScriptedRun.begin(relay, "e"), ExitStack(), asyncio.Event()
    place.callback(is_over.set)
    door = cast(DoorServices, SimpleNamespace(relay=relay, limits=LimitsSettings()))
    stream = exchange_stream(door, ANN, run.log, place, ChatV2Renderer(), stops_with_client=stops)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        await asyncio.Event().wait()

    await stream({"type": "http", "method": "POST", "path": "/", "state": {}}, receive, send)
    assert is_over.is_set() and run.was_stopped == stops
    assert not run.log.is_followed
    if not stops:
        run.finish()
