"""Outbox: stored, then shown; in the order in which it was given; nothing lost and nothing twice."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.failing_store import FailingStore

from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.instance import Instance
from agentic_backend.exchange.lifecycle import Lifecycle, Phase
from agentic_backend.exchange.write.boundary_events import show_end
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.exchange.write.writer import ExchangeWriter, QueryWriter, StoreWriter
from agentic_backend.kpi import Kpi
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.protocol.events import Activity, Delta, ErrorInfo, ExchangeError, ExchangeEvent, Final, Stream
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, ToolResultPart, text_of
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import ExchangeEnd, FencedOut
from agentic_backend.stores.protocol.trail import PromptRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft

NOW = utc_now()
ME = Instance(lease_s=15)


async def no_checkpoint(result: ToolResultPart) -> None:
    return None


def message(text: str, block: int | None = None) -> CompleteDraft:
    parts = [TextPart(text=text)]
    return CompleteDraft(MessageDraft(role=Role.ASSISTANT, channel=Channel.OBSERVATION, parts=parts), block)


def delta(text: str) -> TextDraft:
    return TextDraft(0, Channel.FINAL, text)


def progress(step: str) -> ActivityDraft:
    return ActivityDraft("progress", {"step": step})


def an_end(**fields: Any) -> ExchangeEnd:
    return ExchangeEnd(**{"status": ExchangeStatus.OK, "usage": TokenUsage(), "last_seq": 9, **fields})


def shown(log: ExchangeLog) -> list[str]:
    """What each event of the log shows; merged deltas are told apart by their brackets."""
    return [in_short(event) for event in log.read(0)]


def in_short(event: ExchangeEvent) -> str:
    match event:
        case Delta(text=text):
            return f"delta {text}"
        case Stream(message=stored):
            return f"stream {stored.rank} {text_of(stored.parts)}"
        case Activity(data=data):
            return f"activity {data['step']}"
    return event.type


class Delivered:
    """An outbox into the store, behind which the store may go away."""

    def __init__(
        self, store: SqliteStore, writer: ExchangeWriter, failing: FailingStore, session: SessionRecord
    ) -> None:
        self.store, self.failing, self.session = store, failing, session
        self.log = ExchangeLog(session.id, "e")
        self.lifecycle = Lifecycle()
        self.outbox = Outbox(writer, self.log, self.lifecycle, no_checkpoint)

    async def stored(self) -> list[str]:
        """The texts in the store, in order, after the question."""
        return [text_of(row.parts) for row in await self.store.messages_after(self.session.id, 0, 1000)]

    async def records(self) -> list[str]:
        """The ids of the records of prompts in the store."""
        page = await self.store.trail(TrailQuery(PromptRecord, {"exchange_id": "e"}))
        return sorted(record.id for record in page.records)

    async def end(self, last: list[CompleteDraft], end: ExchangeEnd) -> None:
        """End as an exchange does: nothing more is accepted, the end is stored, then shown."""
        self.lifecycle.enter(Phase.ENDING)
        self.outbox.accept_last(last)
        await self.outbox.write(end)
        show_end(self.log, end, self.log.messages, self.outbox.writer.session)

    async def aclose(self) -> None:
        await self.store.delete_session(self.session.id)
        await self.store.aclose()


async def delivered(directory: Path) -> Delivered:
    store = await SqliteStore.open(directory / "store.db", timeout_s=10)
    failing = FailingStore(store)
    session = SessionRecord(id="s", user_id="u", agent_id="a", title="t", created_at=NOW, updated_at=NOW)
    record = ExchangeRecord(
        id="e", session_id="s", user_id="u", agent_id="a", request_id="r", started_at=NOW, owner=ME.id
    )
    opening = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="Hi")])
    begun = await store.begin_exchange(record, opening, session)
    return Delivered(store, StoreWriter(failing.as_store, begun.session, "e", ME), failing, session)


async def test_what_needs_no_store_is_shown_at_once(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        it.outbox.accept([delta("a"), progress("1")])
        assert shown(it.log) == ["delta a", "activity 1"]
        assert not it.lifecycle.wakeup.is_set()


async def test_a_message_is_shown_only_when_it_is_stored_and_what_follows_waits_for_it(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        it.outbox.accept([delta("a"), message("a", block=0), delta("b"), progress("1")])
        assert shown(it.log) == ["delta a"]
        assert it.lifecycle.wakeup.is_set()
        await it.outbox.write()
        assert await it.stored() == ["a"]
        assert shown(it.log) == ["delta a", "stream 1 a", "delta b", "activity 1"]


async def test_what_comes_while_it_is_stored_keeps_its_place(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        storing = it.failing.hold("append")
        it.outbox.accept([message("one")])
        writing = asyncio.create_task(it.outbox.write())
        await asyncio.sleep(0)
        it.outbox.accept([delta("x"), message("two"), delta("y")])
        assert shown(it.log) == []
        storing.set()
        await writing
        assert shown(it.log) == ["stream 1 one", "delta x", "stream 2 two", "delta y"]


@pytest.mark.parametrize("answer_lost", [False, True])
async def test_a_record_goes_along_with_the_next_message_once(tmp_path: Path, answer_lost: bool) -> None:
    def a_record(number: int) -> PromptRecord:
        ids = {"session_id": "s", "exchange_id": "e", "user_id": "u", "agent_id": "a"}
        return PromptRecord(id=f"{number}", at=NOW, sections=[], **ids)

    async with aclosing(await delivered(tmp_path)) as it:
        it.outbox.record([a_record(1)])
        await it.outbox.write()
        assert await it.records() == [], "nothing is written for a record alone"
        it.outbox.accept([message("one")])
        if answer_lost:
            it.failing.lose_next_answer("append")
            with pytest.raises(StoreUnavailable):
                await it.outbox.write()
            it.outbox.record([a_record(2)])
        await it.outbox.write()
        assert await it.records() == (["1", "2"] if answer_lost else ["1"])
        await it.end([], an_end())
        assert await it.records() == (["1", "2"] if answer_lost else ["1"])


async def test_an_outage_loses_nothing(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        it.outbox.accept([message("one"), delta("x")])
        with it.failing.away("append"), pytest.raises(StoreUnavailable):
            await it.outbox.write()
        assert shown(it.log) == []
        assert [text_of(one.parts) for one in it.outbox.unwritten] == ["one"]
        it.outbox.accept([message("two")])
        await it.outbox.write()
        assert await it.stored() == ["one", "two"]
        assert shown(it.log) == ["stream 1 one", "delta x", "stream 2 two"]


async def test_a_session_that_is_gone_shows_nothing_more(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        await it.store.delete_session("s")
        it.outbox.accept([message("one")])
        with pytest.raises(FencedOut):
            await it.outbox.write()
        assert shown(it.log) == []


async def test_after_the_last_messages_nothing_is_accepted(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        it.lifecycle.enter(Phase.ENDING)
        it.outbox.accept_last([message("last")])
        it.outbox.accept([delta("late"), message("late")])
        assert it.outbox.seq_after_all == 1
        end = an_end()
        await it.outbox.write(end)
        show_end(it.log, end, it.log.messages, None)
        it.lifecycle.enter(Phase.ENDED)
        it.outbox.accept([delta("later")])
        assert shown(it.log) == ["stream 1 last", "final"]
        stored = await it.store.get_exchange("e")
        assert stored is not None and stored.status is ExchangeStatus.OK


async def test_the_final_has_all_messages_and_comes_behind_the_error(tmp_path: Path) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        error = ErrorInfo(code="internal", content="Oh.", retryable=True, request_id="r")
        await it.end([message("one"), message("two")], an_end(status=ExchangeStatus.ERROR, error=error))
        [*_, told, final] = it.log.read(0)
        assert isinstance(told, ExchangeError) and (told.code, told.request_id) == ("internal", "r")
        assert isinstance(final, Final) and final.error == error
        assert [text_of(row.parts) for row in final.messages] == ["one", "two"]
        assert final.session is not None and final.session.next_rank == 3


async def test_a_query_is_placed_from_rank_0_and_stored_nowhere(tmp_path: Path) -> None:
    async with aclosing(await SqliteStore.open(tmp_path / "store.db", timeout_s=10)) as store:
        log = ExchangeLog(None, "q")
        outbox = Outbox(QueryWriter(store, UsageLedger(store, Prices(), Kpi()), "q"), log, Lifecycle(), no_checkpoint)
        outbox.accept([message("one"), delta("x")])
        await outbox.write()
        outbox.accept_last([message("two")])
        end = an_end()
        await outbox.write(end)
        show_end(log, end, log.messages, None)
        assert shown(log) == ["stream 0 one", "delta x", "stream 1 two", "final"]
        assert await store.exchange_messages("q") == []
        assert await store.get_exchange("q") is None


DRAFTS = st.lists(st.sampled_from("dam"), max_size=4)


def drafts_of(kinds: Sequence[str], number: int) -> list[Draft]:
    """Drafts by their kind, each with a text of its own."""
    makers = {"d": delta, "a": progress, "m": message}
    return [makers[kind](f"[{number}.{place}]") for place, kind in enumerate(kinds)]


@given(st.lists(st.tuples(DRAFTS, st.sampled_from(["no write", "write", "outage"])), max_size=8))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_all_is_shown_in_order_whenever_it_is_written(tmp_path: Path, steps: list[tuple[list[str], str]]) -> None:
    async with aclosing(await delivered(tmp_path)) as it:
        expected: list[str] = []
        for number, (kinds, then) in enumerate(steps):
            drafts = drafts_of(kinds, number)
            it.outbox.accept(drafts)
            expected += [f"[{number}.{place}]" for place in range(len(drafts))]
            if then == "write":
                await it.outbox.write()
            elif then == "outage" and it.outbox.unwritten:
                with it.failing.away("append"), pytest.raises(StoreUnavailable):
                    await it.outbox.write()
        will_reach = it.outbox.seq_after_all
        await it.outbox.write()
        assert it.log.last_seq == will_reach
        assert [text for event in shown(it.log) for text in texts_in(event)] == expected
        assert await it.stored() == [text_of(row.parts) for row in it.log.messages]


def texts_in(event: str) -> list[str]:
    return [f"[{text}" for text in event.split("[")[1:]]
