"""StreamTurns: however many streams have chunks at hand, the event loop turns; and a call's first text never waits."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk

from agentic_backend.streaming.model import stream_turns
from agentic_backend.streaming.model.model_stream import ModelStream
from agentic_backend.streaming.model.stream_turns import StreamTurns

STREAMS, CHUNKS = 40, 25
CHUNK_S = 0.001
SLICE_S = stream_turns._SLICE_S


def work(seconds: float) -> None:
    """Occupy the event loop for so much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def waits(step: Coroutine[Any, Any, None] | None) -> bool:
    """Whether the coroutine waits, which then never goes on; a plain function has returned None."""
    if step is None:
        return False
    try:
        step.send(None)
    except StopIteration:
        return False
    step.close()
    return True


class Streams:
    """Streams that have all their chunks at hand."""

    def __init__(self) -> None:
        self.turns = StreamTurns()
        self.said: list[int] = []
        """The stream of each chunk so far."""

    async def run(self, stream: int) -> None:
        for _ in range(CHUNKS):
            work(CHUNK_S)
            self.said.append(stream)
            if self.turns.used_up():
                await self.turns.wait()


async def test_many_streams_share_one_slice_of_the_loop_s_turn() -> None:
    streams = Streams()
    tasks = [asyncio.create_task(streams.run(stream)) for stream in range(STREAMS)]
    await asyncio.sleep(0)
    per_turn, before = [], len(streams.said)
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        per_turn.append(len(streams.said) - before)
        before = len(streams.said)
    assert max(per_turn) <= SLICE_S / CHUNK_S + 1
    assert [streams.said.count(stream) for stream in range(STREAMS)] == [CHUNKS] * STREAMS


async def test_streams_have_their_share_where_others_never_rest() -> None:
    """Exchanges that keep beginning fill each turn of the loop: the streams of the others go on all the same."""
    streams, others_s = Streams(), 0.0

    async def begin_again_and_again() -> None:
        nonlocal others_s
        while True:
            work(CHUNK_S)
            others_s += CHUNK_S
            await asyncio.sleep(0)

    others = [asyncio.create_task(begin_again_and_again()) for _ in range(10)]
    async with asyncio.TaskGroup() as tasks:
        for stream in range(STREAMS):
            tasks.create_task(streams.run(stream))
    for task in others:
        task.cancel()
    streams_s = len(streams.said) * CHUNK_S
    assert 0.25 < streams_s / (streams_s + others_s) < 0.75


async def test_what_others_use_is_no_time_of_the_streams() -> None:
    turns = StreamTurns()

    async def chunk() -> bool:
        return turns.used_up()

    async def other() -> None:
        work(2 * SLICE_S)

    first, _, second = await asyncio.gather(chunk(), other(), chunk())
    assert not first
    assert not second


async def test_a_machine_that_lends_no_time_uses_up_no_slice() -> None:
    turns = StreamTurns()
    assert not turns.used_up()
    time.sleep(2 * SLICE_S)
    assert not turns.used_up()


async def test_how_long_the_first_in_line_has_waited() -> None:
    turns, waiting, began = StreamTurns(), [], []
    assert turns.longest_wait_s == 0
    for _ in range(2):
        began.append(time.monotonic())
        waiting.append(asyncio.create_task(turns.wait()))
        await asyncio.sleep(0)
        time.sleep(0.02)
    assert turns.longest_wait_s >= 0.04
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert 0.02 <= turns.longest_wait_s <= time.monotonic() - began[1]
    waiting[1].cancel()
    await asyncio.sleep(0)
    assert turns.longest_wait_s == 0


async def test_each_stream_has_its_turn_before_another_has_its_next_one() -> None:
    streams = Streams()
    async with asyncio.TaskGroup() as tasks:
        for stream in range(STREAMS):
            tasks.create_task(streams.run(stream))
    last = {stream: index for index, stream in enumerate(streams.said)}
    first = {stream: streams.said.index(stream) for stream in range(STREAMS)}
    assert max(first.values()) < min(last.values()), "none has ended before all have begun"


async def test_a_stream_alone_goes_on_in_the_next_turn() -> None:
    turns = StreamTurns()
    assert not any(turns.used_up() for _ in range(3))
    work(2 * SLICE_S)
    assert turns.used_up()
    async with asyncio.timeout(30):
        await turns.wait()
    assert not turns.used_up()


async def test_a_cancelled_stream_holds_up_none_of_the_others() -> None:
    streams = Streams()
    tasks = [asyncio.create_task(streams.run(stream)) for stream in range(STREAMS)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    async with asyncio.timeout(30):
        await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks[::2])
    assert all(streams.said.count(stream) == CHUNKS for stream in range(1, STREAMS, 2))


async def test_the_first_text_of_a_call_waits_for_no_other_stream() -> None:
    turns, given = StreamTurns(), []
    stream, run_id = ModelStream(given.append, turns=turns), uuid4()
    stream.on_chat_model_start({}, [[]], run_id=run_id, metadata={"langgraph_checkpoint_ns": ""})
    assert not turns.used_up()
    work(2 * SLICE_S)
    chunks = [ChatGenerationChunk(message=AIMessageChunk(text)) for text in ("", "Hello", " there")]
    assert [waits(stream.on_llm_new_token("", chunk=chunk, run_id=run_id)) for chunk in chunks] == [False, False, True]
    assert [part[2][0].content for part in given] == ["", "Hello", " there"]
