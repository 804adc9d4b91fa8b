"""Compaction: what agents are given once a session is long, whatever happens to the summary, and what clients see."""

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.chat_client import check_exchange
from support.compacting import Given, activities, asked, begun, compacted, compacting, summaries, summariser, turns
from support.recorded_agents import eventually, metric
from support.sessions import USER, events_of, until

from agentic_backend.exchange.past import compactor
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.stores.protocol.trail import PromptRecord, TrailQuery, UsageRecord
from agentic_backend.stores.records import MessageRecord


@pytest.fixture
def given() -> Given:
    return Given()


async def test_the_older_turns_give_way_to_a_summary_which_the_next_exchange_tells_of(
    tmp_path: Path, given: Given
) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        session = await compacted(sessions, session_id)
        assert len(model.asked) == 1 and model.asked[0].splitlines()[0] == "user: q0"
        [summary] = await summaries(sessions, session_id)
        assert (summary.id, summary.from_rank, summary.to_rank) == (session.summary_id, 0, 6)
        assert (summary.text, summary.turns, summary.chat_profile) == ("They talk of cats.", 3, "default")
        events = await asked(sessions, session_id, "q5")
        heading, *kept = given.last
        assert "They talk of cats." in heading and kept == turns(3, 4)
        assert activities(events) == [
            {
                "from_rank": 0,
                "to_rank": 6,
                "turns": 3,
                "tokens_before": summary.tokens_before,
                "tokens_after": summary.tokens_after,
                "summary": True,
                "dropped": False,
            }
        ]
        kinds = [event["type"] for event in events]
        assert kinds.index("activity") == 2, "before the first token"
        assert activities(await asked(sessions, session_id, "q6")) == []
        assert given.last[1:] == turns(3, 5)
        assert len(await sessions.stored(session_id)) == 14, "the transcript stays whole"


async def test_a_long_conversation_is_summarised_again_and_again(tmp_path: Path, given: Given) -> None:
    model = summariser(*(f"summary {number}" for number in range(20)))
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 1)
        for number in range(1, 18):
            await asked(sessions, session_id, f"q{number}")
            await eventually(lambda: not sessions.compactor.is_busy(session_id))
            assert len(given.last) <= 9, "a summary, and at most four turns"
        found = await summaries(sessions, session_id)
        assert len(found) >= 4 and [one.from_rank for one in found] == [0] * len(found)
        assert [one.to_rank for one in found] == sorted({one.to_rank for one in found})
        assert [one.text for one in found] == [f"summary {number}" for number in range(len(found))]
        for number, text in enumerate(model.asked[1:]):
            assert text.startswith(f"Summary of what came before:\nsummary {number}\n")
        usage = await sessions.store.real.trail(TrailQuery(UsageRecord, {"session_id": session_id}))
        await eventually(lambda: metric(sessions.kpi, "chat_compactions_total", outcome="summarised") == len(found))
        assert {record.purpose for record in usage.records} <= {"summary", "answer"}


async def test_many_tokens_are_compacted_too(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 2, chat_profile="by_tokens")
        assert (await sessions.session(session_id)).summary_id is None
        await asked(sessions, session_id, "word " * 100)
        await compacted(sessions, session_id)
        [summary] = await summaries(sessions, session_id)
        assert summary.tokens_before > 200 and summary.chat_profile == "by_tokens"


@pytest.mark.parametrize("failure", [RuntimeError("secret"), " \n", "slow"])
async def test_if_the_model_fails_the_older_turns_are_dropped_and_summarised_later(
    tmp_path: Path, given: Given, failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = summariser(failure, "all of it")
    if failure == "slow":
        model.go_on.clear()
    async with compacting(tmp_path, model, given, summary_timeout_s=0.1) as sessions:
        session_id = await begun(sessions, 5)
        session = await compacted(sessions, session_id)
        model.go_on.set()
        model.texts[:] = ["all of it"]
        events = await asked(sessions, session_id, "q5")
        assert given.last == turns(3, 4)
        [told] = activities(events)
        assert (told["dropped"], told["summary"], told["turns"]) == (True, False, 3)
        await asked(sessions, session_id, "q6", "q7")
        await compacted(sessions, session_id, not_to=session.summary_id)
        assert model.asked[-1].splitlines()[0] == "user: q0", "what was dropped is not lost for good"
        [again] = activities(await asked(sessions, session_id, "q8"))
        assert (again["dropped"], again["summary"]) == (False, True)
    assert "secret" not in caplog.text


async def test_after_a_restart_the_summary_stands_without_another_call(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        await compacted(sessions, session_id)
    async with compacting(tmp_path, model, given) as sessions:
        events = await asked(sessions, session_id, "q5")
        assert "They talk of cats." in given.last[0] and given.last[1:] == turns(3, 4)
        assert len(activities(events)) == 1
        await eventually(lambda: not sessions.compactor.is_busy(session_id))
        assert len(model.asked) == 1


async def test_a_cold_agent_is_given_what_a_warm_one_is(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 5)
        await compacted(sessions, session_id)
        await asked(sessions, session_id, "q5")
        warm = given.last
        await sessions.factory.teardown_session_agents(session_id)
        await asked(sessions, session_id, "q6")
        assert given.last == [*warm, *turns(5, 5)]


async def test_a_session_that_goes_on_is_compacted_later(tmp_path: Path, given: Given) -> None:
    model = summariser()
    model.go_on.clear()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        await eventually(lambda: model.asked)
        assert activities(await asked(sessions, session_id, "q5")) == []
        assert given.last == turns(0, 4)
        await eventually(lambda: len(model.asked) == 2)
        assert metric(sessions.kpi, "chat_compactions_total", outcome="abandoned") == 1
        assert await summaries(sessions, session_id) == []
        model.go_on.set()
        await compacted(sessions, session_id)


async def test_who_asks_again_at_once_costs_no_reading_of_a_long_history(
    tmp_path: Path, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once there is a summary, no more is read than it leaves out."""
    read: list[int] = []

    async def last_exchanges(session_id: str, count: int, max_bytes: int | None = None) -> list[MessageRecord]:
        read.append(count)
        return await real(session_id, count, max_bytes)

    monkeypatch.setattr(compactor, "_PAUSE_S", 1)
    async with compacting(tmp_path, summariser(), given) as sessions:
        real = sessions.store.real.last_exchanges
        monkeypatch.setattr(sessions.store.real, "last_exchanges", last_exchanges)
        session_id = await begun(sessions, 30)
        assert read == []
        session = await compacted(sessions, session_id)
        assert read == [60] and session.summary_id is not None
        await asked(sessions, session_id, "q30")
        await compacted(sessions, session_id, not_to=session.summary_id)
        assert read == [60, 32], "the newest 16 turns have two messages each"


@pytest.mark.parametrize("what", ["delete", "reset_state", "complete"])
async def test_a_session_that_ends_meanwhile_gets_no_summary(tmp_path: Path, given: Given, what: str) -> None:
    model = summariser()
    model.go_on.clear()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        await eventually(lambda: model.asked)
        await getattr(sessions.service, what)(USER, session_id)
        model.go_on.set()
        await eventually(lambda: not sessions.compactor.is_busy(session_id))
        assert await summaries(sessions, session_id) == []


async def test_a_reset_forgets_the_summary(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 5)
        await compacted(sessions, session_id)
        await sessions.service.reset_state(USER, session_id)
        assert activities(await asked(sessions, session_id, "q5")) == []
        assert given.last == []


async def test_a_server_that_stops_leaves_the_compaction(tmp_path: Path, given: Given) -> None:
    model = summariser()
    model.go_on.clear()
    async with compacting(tmp_path, model, given) as sessions:
        await begun(sessions, 5)
        await eventually(lambda: model.asked)


async def test_an_exchange_that_waits_for_a_person_is_not_compacted(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 4)
        log = await sessions.begin("ask me", session_id=session_id)
        waits = await until(log, "awaiting_human")
        assert not sessions.compactor.is_busy(session_id) and model.asked == []
        interrupt_id = waits["payload"]["requests"][0]["interrupt_id"]
        decisions = HumanDecisions(answers={interrupt_id: "yes"})
        resumed = await sessions.orchestrator.human_resume(USER, session_id, log.exchange_id, decisions, None)
        check_exchange(await events_of(resumed))
        await compacted(sessions, session_id)
        assert "ask me" not in model.asked[0], "the newest half has the question"
        await asked(sessions, session_id, "q5")
        assert given.last[-2:] == ["ask me", "You said yes"]


async def test_the_summary_can_stand_in_the_system_prompt(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 5, chat_profile="in_prompt")
        await compacted(sessions, session_id)
        await asked(sessions, session_id, "q5")
        prompt, *kept = given.last
        assert prompt.startswith("## Summary of the earlier conversation") and "cats" in prompt and kept == turns(3, 4)


async def test_a_profile_may_leave_the_older_turns_out(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5, chat_profile="without")
        await compacted(sessions, session_id)
        [told] = activities(await asked(sessions, session_id, "q5"))
        assert given.last == turns(3, 4) and model.asked == []
        assert (told["summary"], told["dropped"]) == (False, False)


async def test_a_profiles_instructions_are_a_section_of_the_prompt(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        events = await asked(sessions, None, "q0", chat_profile="tutor")
        assert given.last == ["## Profile\n\nAsk back."]
        store, exchange_id = sessions.store.real, str(events[0]["exchange_id"])
        [record] = (await store.trail(TrailQuery(PromptRecord, {"exchange_id": exchange_id}))).records
        assert [(section.name, section.source) for section in record.sections] == [("profile", "profile:tutor")]
        await asked(sessions, None, "q1", chat_profile="tutor", mode="query")
        assert given.last == ["## Profile\n\nAsk back."]


async def test_an_ask_may_name_a_profile_for_itself(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 4)
        await asked(sessions, session_id, "q4", "q5", chat_profile="roomy")
        assert not sessions.compactor.is_busy(session_id)
        assert (await sessions.session(session_id)).summary_id is None
        await asked(sessions, session_id, "q6")
        await compacted(sessions, session_id)


async def test_turns_are_numbered_in_the_kpis_and_the_log(
    tmp_path: Path, given: Given, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 5)
        await compacted(sessions, session_id)
        await asked(sessions, session_id, "q5")
        await sessions.service.complete(USER, session_id)
    with closing(sqlite3.connect(tmp_path / "chat.sqlite3")) as database:
        rows = database.execute("SELECT record FROM kpi_records ORDER BY started_at").fetchall()
    records = [json.loads(record) for (record,) in rows]
    assert [record["turn_number"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert [record["history_compacted"] for record in records] == [False] * 5 + [True]
    told = [record for record in caplog.records if record.getMessage().startswith("chat_")]
    assert [record.getMessage() for record in told] == [
        "chat_session_created",
        *["chat_turn_added"] * 5,
        "chat_compacted",
        "chat_turn_added",
        "chat_session_terminated",
    ]
    assert {vars(record)["session_id"] for record in told} == {session_id}
    numbers = [vars(record)["turn_number"] for record in told if record.getMessage() == "chat_turn_added"]
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert not any("q5" in str(vars(record)) for record in told)


async def test_an_exchange_that_ends_while_it_waits_has_its_number_too(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 2)
        log = await sessions.begin("ask me", session_id=session_id)
        await until(log, "awaiting_human")
        await sessions.orchestrator.stop(USER, session_id, None)
        check_exchange(await events_of(log))
    with closing(sqlite3.connect(tmp_path / "chat.sqlite3")) as database:
        [(number,)] = database.execute("SELECT record ->> 'turn_number' FROM kpi_records WHERE record LIKE '%stopped%'")
    assert number == 3
