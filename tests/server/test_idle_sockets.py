"""What a socket keeps while it is idle, and the light stand-ins for asyncio's classes that it has."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chat_client import chat
from support.running_server import running_server
from uvicorn._types import ASGIReceiveEvent

from agentic_backend.relay.light_event import LightEvent
from agentic_backend.server.input.abortable_websocket import AbortableWebSocket, Inbox

PATIENCE_S = 10


def awaited_by(task: asyncio.Task[None]) -> Iterator[str]:
    """The files of the coroutines that a task is in."""
    coroutine = task.get_coro()
    while (code := getattr(coroutine, "cr_code", None)) is not None:
        yield code.co_filename
        coroutine = coroutine.cr_await  # type: ignore[union-attr]


async def test_an_idle_socket_keeps_neither_its_handshake_nor_the_way_to_its_endpoint(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, chat(server.address) as client:
        await client.send({"type": "ping"})
        await client.until("pong")
        # By its type, as `isinstance` asks what a weak proxy stands for, which may be gone.
        sockets = [each for each in gc.get_objects() if issubclass(type(each), AbortableWebSocket)]
        [socket] = [each for each in sockets if not each.disconnected]
        assert socket.scope == {}
        assert not hasattr(socket, "request") and not hasattr(socket, "response")
        [served] = [list(awaited_by(task)) for task in socket.tasks if __file__ not in awaited_by(task)]
        assert any(file.endswith("connection.py") for file in served)
        assert not [file for file in served if "starlette" in file or file.endswith(("gate.py", "call_ids.py"))]


async def test_all_who_wait_for_a_light_event_go_on() -> None:
    event = LightEvent()
    waiting = [asyncio.create_task(event.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    event.set()
    event.clear()
    _, pending = await asyncio.wait(waiting, timeout=PATIENCE_S)
    assert [task.cancelled() for task in waiting] == [False, True, False]
    assert not pending and not event.is_set()


async def test_a_light_event_that_is_set_lets_everybody_through() -> None:
    event = LightEvent()
    event.set()
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()
        await event.wait()
    event.clear()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await event.wait()


async def test_an_inbox_gives_messages_in_order_also_after_a_cancelled_wait() -> None:
    inbox, first, second = Inbox(), connect(), connect()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await inbox.get()
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put_nowait(first)
    inbox.put_nowait(second)
    assert await asyncio.wait_for(waiting, PATIENCE_S) is first
    assert not inbox.empty()
    assert await asyncio.wait_for(inbox.get(), PATIENCE_S) is second
    assert inbox.empty()


def connect() -> ASGIReceiveEvent:
    return {"type": "websocket.connect"}
