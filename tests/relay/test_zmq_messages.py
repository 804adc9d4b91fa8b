"""Long messages between workers: cut into pieces, whole again at the other end, and bounded where nobody reads them."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from hostile.memory import MIB, resident
from support.broadcasting import PATIENCE_S, a_log, end, say, start, store

import agentic_backend
from agentic_backend.protocol.events import Activity
from agentic_backend.relay.zmq.messages import PIECE_BYTES, ReceivedEvents, event_messages
from tests.relay.test_zmq_broadcast import WORKERS, Site, directory, same, site

__all__ = ["directory", "site"]

TEXT = "ä€\n\U0001f600 word" * PIECE_BYTES
PUBLISHED_MIB, KEPT_MIB = 300, 140


def messages_of(text: str) -> list[list[bytes]]:
    """The messages with a short event and one of this text."""
    log = a_log()
    start(log)
    say(log, text)
    return list(event_messages("e", 0, log.read(0)))


@pytest.mark.parametrize("text", ["", "short", TEXT])
def test_what_is_cut_is_whole_again(text: str) -> None:
    log, received = a_log(), ReceivedEvents()
    start(log)
    say(log, text)
    messages = messages_of(text)
    assert len(messages) == 1 or all(sum(map(len, frames)) < PIECE_BYTES + 100 for frames in messages)
    *before, last = map(received.take, messages)
    assert before == [None] * (len(messages) - 1)
    assert last == [event.encode().encode() for event in log.read(0)]


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_what_misses_a_piece_is_dropped_and_the_next_is_not(lost: int) -> None:
    received, messages = ReceivedEvents(), messages_of(TEXT)
    [short] = messages_of("short")
    del messages[lost]
    assert {received.take(frames) for frames in messages} == {None}
    assert received.take(short) == short[3:]
    assert {received.take(frames) for frames in messages} == {None}
    *_, last = map(received.take, messages_of(TEXT))
    assert last is not None and len(last) == 2


async def test_long_events_arrive_among_short_ones(site: Site) -> None:
    here, there = await site.two()
    log = here.publish(a_log())
    start(log)
    early = there.follow("e")
    await same(early.log, log)
    for rank in range(3):
        say(log, "short", block=2 * rank)
        here.broadcast.flush()
        say(log, TEXT, block=2 * rank + 1)
        store(log, rank, TEXT * 4, 2 * rank + 1)
    late = (await site.worker(2)).follow("e")
    end(log)
    for client in (early, late):
        await same(client.log, log)
        client.catch_up()
        assert client.resets == 0 and len(client.messages) == 3


@asynccontextmanager
async def mirroring(directory: Path) -> AsyncIterator[Process]:
    """Another worker, in a process of its own."""
    root = Path(agentic_backend.__file__).parents[1]
    arguments = ["-m", "support.mirroring_worker", str(directory), "1", str(WORKERS)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=PIPE, cwd=root / "tests", env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line(process: Process) -> bytes:
    assert process.stdout is not None
    async with asyncio.timeout(2 * PATIENCE_S):
        return (await process.stdout.readline()).strip()


async def test_what_waits_for_a_worker_that_stands_still_has_a_bound(
    site: Site, directory: Path, opened: AsyncExitStack
) -> None:
    here = await site.worker(0)
    # Else the log would keep what it publishes.
    log = here.publish(a_log(compact_after=8))
    start(log)
    frozen = await opened.enter_async_context(mirroring(directory))
    assert await line(frozen) == b"follows"
    frozen.send_signal(signal.SIGSTOP)
    before = resident(os.getpid())
    for _ in range(PUBLISHED_MIB):
        log.append(Activity(**log.next_place(), kind="progress", data={"text": "x" * MIB}))
        here.broadcast.flush()
        await asyncio.sleep(0)
    assert resident(os.getpid()) - before < KEPT_MIB * MIB
    # What it has missed is told to it anew.
    store(log, 0, "said")
    frozen.send_signal(signal.SIGCONT)
    assert await line(frozen) == b"has the message"
