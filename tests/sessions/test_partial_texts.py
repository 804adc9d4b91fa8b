"""What a crash must not lose of an answer is stored as it grows, at a cost that follows its growth."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.held_agents import Hold, held_graph
from support.recorded_agents import eventually
from support.sessions import open_sessions

from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel
from agentic_backend.stores.tables import PARTIAL_PIECES

LONG = "0123456789" * 7_000


def shown(texts: list[PartialText]) -> list[tuple[int, str]]:
    return [(text.block, text.text) for text in texts]


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(10):
        while not await is_so():
            await asyncio.sleep(0.02)


async def test_a_long_text_is_added_to_and_its_pieces_go_when_it_is_a_message(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        store, log = sessions.store.real, await sessions.begin("hello")

        async def is_kept() -> bool:
            return shown(await store.partial(log.exchange_id)) == shown(log.partial)

        await eventually(lambda: hold.held == 1)
        log.append_text(0, Channel.FINAL, "short ")
        await until(is_kept)
        assert await store.page(PARTIAL_PIECES, None, 99) == []
        for part in (LONG, "and ", "more 🙂\x00", LONG * 20):
            log.append_text(0, Channel.FINAL, part)
            log.append_text(9, Channel.THOUGHT, "a thought ")
            await until(is_kept)
        pieces = await store.page(PARTIAL_PIECES, None, 99)
        record = await store.get_exchange(log.exchange_id)
        assert record is not None and len(record.partial[0].text) < 100
        assert max(len(piece.text.text) for piece in pieces) == 1_000_000
        beginning = sum(len(text.text) for text in record.partial)
        assert beginning + sum(len(piece.text.text) for piece in pieces) == sum(log.partial_lengths.values())
        hold.released.set()
        await log.wait_ended()

        async def is_forgotten() -> bool:
            return await store.page(PARTIAL_PIECES, None, 99) == []

        await until(is_forgotten)


async def test_what_an_outage_keeps_from_being_added_is_added_after_it(tmp_path: Path) -> None:
    hold = Hold()
    async with open_sessions(tmp_path, {"held": held_graph(hold)}) as sessions:
        store, log = sessions.store.real, await sessions.begin("hello")
        await eventually(lambda: hold.held == 1)
        with sessions.store.away("add_partials", "forget_pieces"):
            log.append_text(0, Channel.FINAL, LONG)
            await eventually(lambda: sessions.store.refused.count("add_partials") > 1)
            log.append_text(0, Channel.FINAL, "later")

        async def is_kept() -> bool:
            return shown(await store.partial(log.exchange_id)) == shown(log.partial)

        await until(is_kept)
        hold.released.set()
        await log.wait_ended()
