"""Recovery: what a process that died has left is ended at the next start, whatever state it was in."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from support.chat_client import check_calls, check_exchange, final_text
from support.failing_store import FailingStore
from support.phrase_model import check_history
from support.sessions import USER, Sessions, only_final, open_sessions

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.errors import StoreUnavailable
from agentic_backend.exchange.end.orphan_closing import OrphanClosing
from agentic_backend.kpi import Kpi
from agentic_backend.protocol.events import HumanRequest, HumanRequests, PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, FinishReason, Role, TokenUsage, utc_now
from agentic_backend.protocol.parts import TextPart, ToolCallPart, ToolResultPart, text_of
from agentic_backend.relay.broadcast import Alone
from agentic_backend.relay.relay import Relay
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.upkeep.recovery import Recovery
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, Fence, FencedOut, Pause, Store
from agentic_backend.stores.records import CheckpointKind, CheckpointRecord, ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

DEAD = "the instance that died"
MANY = 1_000_000_000
"""More events than any exchange gives."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """The database as the dead process has left it; closed before it is opened again."""
    store = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5)
    yield store
    await store.aclose()


def text(role: Role, channel: Channel, words: str) -> MessageDraft:
    return MessageDraft(role=role, channel=channel, parts=[TextPart(text=words)])


def calls(*call_ids: str) -> MessageDraft:
    parts = [ToolCallPart(call_id=call_id, name="slow_task", args={}) for call_id in call_ids]
    return MessageDraft(role=Role.ASSISTANT, channel=Channel.TOOL_CALL, parts=parts)


def result(call_id: str) -> MessageDraft:
    part = ToolResultPart(call_id=call_id, ok=True, content="done")
    return MessageDraft(role=Role.TOOL, channel=Channel.TOOL_RESULT, parts=[part])


async def leave(
    store: SqliteStore,
    name: str,
    *drafts: MessageDraft,
    waiting: bool = False,
    partial: Sequence[PartialText] = (),
    last_seq: int = 7,
) -> None:
    """A session and an exchange of this name, running or waiting, with these messages after the user's.

    `last_seq` is that of its pause.
    """
    now = utc_now()
    session = SessionRecord(id=name, user_id=USER.id, agent_id="echo", title=name, created_at=now, updated_at=now)
    record = ExchangeRecord(
        id=f"exchange of {name}",
        session_id=name,
        user_id=USER.id,
        agent_id="echo",
        client_exchange_id=f"client's {name}",
        request_id=f"request of {name}",
        started_at=now,
        owner=DEAD,
    )
    written = await store.begin_exchange(record, text(Role.USER, Channel.FINAL, "hello"), session)
    written = await store.append(Fence(name, record.id, written.session.next_rank, DEAD), drafts)
    if partial:
        await store.keep_partials(DEAD, {record.id: partial})
    if waiting:
        kept = CheckpointRecord(
            kind=CheckpointKind.APPROVAL_PENDING, at=now, exchange_id=record.id, request_id=record.request_id
        )
        pause = Pause(
            pending=HumanRequests(requests=[HumanRequest(interrupt_id="i", question="Which one?", allowed=["answer"])]),
            checkpoint=Checkpoint(kept, b"state"),
            deadline=None,
            usage=TokenUsage(),
            last_seq=last_seq,
            ran_ms=1,
            first_token_ms=None,
        )
        await store.set_waiting(Fence(name, record.id, written.session.next_rank, DEAD), pause)


async def unended(store: Store) -> list[ExchangeRecord]:
    return await store.running_exchanges()


async def recover_all(store: Store) -> int:
    """End what is left; how many there were."""
    relay = Relay(
        broadcast=Alone(),
        keep_ended_bytes=0,
        max_running=1,
        running_per_user=None,
        grace_s=0,
    )

    async def leave_it(record: ExchangeRecord) -> None:
        pass

    recovery = Recovery(OrphanClosing(store, relay, Kpi(), lambda *_: None), leave_it, leave_it)
    return sum([await recovery.recover(record) for record in await unended(store)])


def echoing_graph() -> CompiledGraph:
    def answer(state: MessagesState) -> dict[str, Any]:
        check_history(state["messages"])
        heard = [message.text for message in state["messages"] if isinstance(message, HumanMessage)]
        return {"messages": [AIMessage("|".join(heard))]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


async def final_of(sessions: Sessions, name: str) -> dict[str, Any]:
    """What a client that follows the exchange is given."""
    return (await sessions.stored_final(f"exchange of {name}", name)).model_dump(mode="json")


async def test_every_exchange_that_was_left_is_interrupted(store: SqliteStore) -> None:
    for number in range(5):
        await leave(store, f"s{number}")
    assert await recover_all(store) == 5
    assert await unended(store) == []
    assert await recover_all(store) == 0
    for number in range(5):
        record = await store.get_exchange(f"exchange of s{number}")
        assert record is not None and record.error is not None and record.ended_at is not None
        assert record.status is ExchangeStatus.INTERRUPTED
        assert (record.error.code, record.error.retryable) == ("interrupted", True)
        assert record.error.request_id == f"request of s{number}"
        assert (record.owner, record.partial) == (None, [])
        session = await store.get_session(f"s{number}")
        assert session is not None and session.active_exchange_id is None


async def test_an_exchange_that_waits_for_a_person_is_left_waiting(tmp_path: Path, store: SqliteStore) -> None:
    await leave(store, "s", waiting=True)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        _, log = await sessions.orchestrator.running_in(USER, "s")
        assert log is not None and log.final is None
        shown = [event.type for event in log.read(0)]
        assert shown == ["reset", "awaiting_human"]
    record = await store.get_exchange("exchange of s")
    assert record is not None and record.status is ExchangeStatus.AWAITING_HUMAN


@pytest.mark.parametrize(
    ("stored", "partial", "kept"),
    [
        ([], [("final", "The answer is forty")], [("final", "The answer is forty")]),
        ([], [("thought", "Hm"), ("final", "Forty")], [("thought", "Hm"), ("final", "Forty")]),
        ([], [("final", "First"), ("observation", "Second")], [("observation", "First"), ("final", "Second")]),
        ([], [("thought", "Hm")], [("thought", "Hm")]),
        (["The answer is forty-two."], [("final", "The answer is forty")], [("final", "The answer is forty")]),
        (["Let me see."], [("final", "Forty")], [("final", "Forty")]),
        ([], [("final", "")], []),
    ],
)
async def test_the_text_that_was_being_written_is_kept(
    store: SqliteStore, stored: list[str], partial: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    """Also where it begins like a message before it."""
    texts = [
        PartialText(block=block, channel=Channel(channel), text=words) for block, (channel, words) in enumerate(partial)
    ]
    drafts = [text(Role.ASSISTANT, Channel.OBSERVATION, words) for words in stored]
    await leave(store, "s", *drafts, partial=texts)
    assert await recover_all(store) == 1
    rows = (await store.exchange_messages("exchange of s"))[1 + len(stored) :]
    assert [(row.channel, text_of(row.parts)) for row in rows[:-1]] == kept
    assert rows[-1].channel is Channel.ERROR
    finals = [row for row in rows if row.channel is Channel.FINAL]
    assert all(row.metadata.finish_reason is FinishReason.OTHER for row in finals)


async def test_a_text_is_kept_once_whose_message_was_stored_since(store: SqliteStore) -> None:
    """Its message is known by its block; of the text after it, which begins alike, nothing is lost."""
    texts = [PartialText(block=block, channel=Channel.FINAL, text="Let me see") for block in range(2)]
    await leave(store, "s")
    await store.append(
        Fence("s", "exchange of s", 1, DEAD), [text(Role.ASSISTANT, Channel.OBSERVATION, "Let me see it.")], blocks=[0]
    )
    await store.keep_partials(DEAD, {"exchange of s": texts})
    assert await recover_all(store) == 1
    rows = await store.exchange_messages("exchange of s")
    assert [text_of(row.parts) for row in rows[1:-1]] == ["Let me see it.", "Let me see"]


@pytest.mark.parametrize(
    ("left", "settled"),
    [
        ([], []),
        ([text(Role.ASSISTANT, Channel.OBSERVATION, "let me see"), calls("a")], ["a"]),
        ([calls("a", "b", "c"), result("b")], ["a", "c"]),
        ([calls("a"), result("a")], []),
        ([calls("a"), result("a"), calls("b")], ["b"]),
        ([text(Role.ASSISTANT, Channel.FINAL, "the answer")], []),
    ],
)
async def test_calls_are_settled_and_the_session_goes_on(
    tmp_path: Path, store: SqliteStore, left: list[MessageDraft], settled: list[str]
) -> None:
    await leave(store, "s", *left)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        final = await final_of(sessions, "s")
        assert final["status"] == "interrupted"
        assert final["messages"] == await sessions.stored("s")
        check_calls(final["messages"])
        added = final["messages"][1 + len(left) :]
        assert [part["call_id"] for message in added for part in message["parts"] if "call_id" in part] == settled
        assert all(not part["ok"] for message in added[:-1] for part in message["parts"])
        assert (added[-1]["role"], added[-1]["channel"]) == ("system", "error")
        ranks = [message["rank"] for message in final["messages"]]
        assert ranks == list(range(len(ranks)))
        events = await sessions.ask("again", session_id="s")
        check_exchange(events)
        assert final_text(events) == "hello|again"
        assert events[-1]["messages"][0]["rank"] == len(ranks)


async def test_the_final_of_an_interrupted_exchange_is_far_above_what_was_seen(
    tmp_path: Path, store: SqliteStore
) -> None:
    await leave(store, "s")
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        assert (await final_of(sessions, "s"))["seq"] > MANY


async def test_what_had_paused_after_very_many_events_goes_on_above_them(tmp_path: Path, store: SqliteStore) -> None:
    """Also of an older version, whose seqs were counted otherwise."""
    await leave(store, "s", waiting=True, last_seq=MANY)
    waiting = await store.get_exchange("exchange of s")
    assert waiting is not None
    await store.decide(waiting, [], DEAD)
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        assert (await final_of(sessions, "s"))["seq"] > 2 * MANY


async def test_an_ask_that_is_sent_again_starts_nothing(tmp_path: Path, store: SqliteStore) -> None:
    """The client has lost its answer with the process, and sends its ask once more."""
    await leave(store, "s")
    async with open_sessions(tmp_path, {"echo": echoing_graph()}) as sessions:
        turn = Turn(parts=[TextPart(text="hello")], session_id="s", client_exchange_id="client's s")
        ended = await sessions.orchestrator.ask(USER, turn, None, "another request")
        assert only_final(ended).status is ExchangeStatus.INTERRUPTED
        assert len(await sessions.stored("s")) == 2


async def test_what_has_ended_is_left_alone(store: SqliteStore) -> None:
    await leave(store, "s")
    session = await store.get_session("s")
    assert session is not None
    end = ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=7)
    await store.append(Fence("s", "exchange of s", session.next_rank, DEAD), [], end)
    assert await recover_all(store) == 0
    record = await store.get_exchange("exchange of s")
    assert record is not None
    assert (record.status, record.last_seq) == (ExchangeStatus.OK, 7)


async def test_who_was_fenced_out_by_the_recovery_writes_nothing_more(store: SqliteStore) -> None:
    """The process was not dead but slow."""
    await leave(store, "s")
    session = await store.get_session("s")
    assert session is not None
    slow = Fence("s", "exchange of s", session.next_rank, DEAD)
    await recover_all(store)
    before = await store.messages_after("s", -1, 100)
    with pytest.raises(FencedOut):
        await store.append(slow, [text(Role.ASSISTANT, Channel.FINAL, "too late")])
    assert await store.messages_after("s", -1, 100) == before


async def test_the_recovery_overwrites_nothing_of_a_process_that_lives(store: SqliteStore) -> None:
    """Between its look and its write, the exchange goes on, or its session is deleted."""
    for name in ("writes on", "is deleted", "is left"):
        await leave(store, name)

    class Racing(FailingStore):
        async def exchange_messages(self, exchange_id: str) -> Any:
            rows = await store.exchange_messages(exchange_id)
            if "writes on" in exchange_id:
                await store.append(
                    Fence("writes on", exchange_id, 1, DEAD), [text(Role.ASSISTANT, Channel.FINAL, "alive")]
                )
            if "is deleted" in exchange_id:
                await store.delete_session("is deleted")
            return rows

    await recover_all(Racing(store).as_store)
    [alive] = await unended(store)
    assert alive.session_id == "writes on"
    assert [message.rank for message in await store.messages_after("writes on", -1, 10)] == [0, 1]
    record = await store.get_exchange("exchange of is left")
    assert record is not None and record.status is ExchangeStatus.INTERRUPTED


async def test_a_store_that_is_away_is_told(store: SqliteStore) -> None:
    await leave(store, "s")
    failing = FailingStore(store)
    failing.go_away("append")
    with pytest.raises(StoreUnavailable):
        await recover_all(failing.as_store)
    failing.come_back()
    assert await recover_all(failing.as_store) == 1


async def test_many_exchanges_are_recovered_in_good_time(store: SqliteStore) -> None:
    for number in range(200):
        await leave(store, f"s{number}", calls("a", "b"))
    # Less than a second on an idle machine.
    async with asyncio.timeout(45):
        assert await recover_all(store) == 200
