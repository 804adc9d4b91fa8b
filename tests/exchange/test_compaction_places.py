"""Compaction on each store, on several instances, before the first token, and with tools in between."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.compacting import (
    Given,
    activities,
    asked,
    begun,
    compacted,
    compacting,
    summaries,
    summariser,
    turns,
)
from support.further_cases import further
from support.recorded_agents import eventually, metric
from support.sessions import USER, Sessions

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.exchange.past.compactor import Compactor
from agentic_backend.policy.usage.usage_ledger import Payer
from agentic_backend.stores.mongo import MongoStore

WORDS = "word " * 80


async def idle(sessions: Sessions, session_id: str) -> None:
    """Wait until the session is not being compacted."""
    await eventually(lambda: not sessions.compactor.is_busy(session_id))


@pytest.fixture
def given() -> Given:
    return Given()


@pytest.mark.parametrize("kind", ON_MONGODB)
async def test_another_instance_goes_on_with_the_summary(
    tmp_path: Path, given: Given, kind: str, request: pytest.FixtureRequest
) -> None:
    model = summariser()
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database(server_url(kind, request)))
        one, other = [
            await stack.enter_async_context(
                compacting(tmp_path, model, given, database=await MongoStore.open(url, timeout_s=20), alone=False)
            )
            for _ in range(2)
        ]
        session_id = await begun(one, 5)
        await compacted(one, session_id)
        events = await asked(other, session_id, "q5")
        assert "They talk of cats." in given.last[0] and given.last[1:] == turns(3, 4)
        assert len(activities(events)) == 1 and len(model.asked) == 1
        assert activities(await asked(one, session_id, "q6")) == []
        assert given.last[1:] == turns(3, 5)


async def test_of_two_compactions_at_once_one_counts(tmp_path: Path, given: Given) -> None:
    model = summariser("one", "two")
    model.go_on.clear()
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        await eventually(lambda: model.asked)
        session = await sessions.session(session_id)
        twice = asyncio.create_task(sessions.compactor.compact(session, "default", Payer(USER.id), must=True))
        await eventually(lambda: len(model.asked) == 2)
        model.go_on.set()
        await twice
        await eventually(lambda: not sessions.compactor.is_busy(session_id))
        [summary] = await summaries(sessions, session_id)
        assert summary.id == (await sessions.session(session_id)).summary_id
        assert metric(sessions.kpi, "chat_compactions_total", outcome="abandoned") == 1


async def test_what_does_not_fit_the_models_window_is_summarised_before_the_first_token(
    tmp_path: Path, given: Given
) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given, window=1_000) as sessions:
        # Half of the window is for the response: two turns of some 200 tokens fit.
        events = await asked(sessions, None, f"0 {WORDS}", f"1 {WORDS}", chat_profile="roomy")
        session_id = str(events[0]["session_id"])
        assert model.asked == []
        events = await asked(sessions, session_id, f"2 {WORDS}")
        assert len(model.asked) == 1 and model.asked[0].startswith("user: 0 word")
        [told] = activities(events)
        assert (told["turns"], told["summary"], told["to_rank"]) == (1, True, 2)
        assert "They talk of cats." in given.last[0] and given.last[1].startswith("1 word")
        assert (await sessions.session(session_id)).summary_id is not None
        assert activities(await asked(sessions, session_id, "3")) == []


@pytest.mark.parametrize("failure", [RuntimeError(), "slow"])
async def test_a_failing_model_holds_no_answer_up_for_long(tmp_path: Path, given: Given, failure: Any) -> None:
    model = summariser(failure)
    if failure == "slow":
        model.go_on.clear()
    async with compacting(tmp_path, model, given, window=1_000, summary_timeout_s=0.1) as sessions:
        events = await asked(sessions, None, *(f"{number} {WORDS}" for number in range(3)), chat_profile="roomy")
        [told] = activities(events)
        assert (told["dropped"], told["summary"]) == (True, False)
        assert [text.split()[0] for text in given.last] == ["1", "re:"]
        assert len(model.asked) == 1


async def test_a_summary_that_can_not_be_stored_fails_no_answer(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given, window=1_000) as sessions:
        events = await asked(sessions, None, f"0 {WORDS}", f"1 {WORDS}", chat_profile="roomy")
        with sessions.store.away("keep_summary"):
            events = await asked(sessions, str(events[0]["session_id"]), f"2 {WORDS}")
        assert activities(events) == [] and given.last[0].startswith("1 word")


@pytest.mark.parametrize("seed", [*range(2), *map(further, range(2, 6))])
async def test_a_call_and_its_result_are_never_separated(tmp_path: Path, given: Given, seed: int) -> None:
    """The agent checks the order of what it is given, as providers do."""
    chance = random.Random(seed)
    model = summariser(*chance.choices([RuntimeError(), "", "a summary"], k=30))
    async with compacting(tmp_path, model, given) as sessions:
        session_id = None
        for number in range(24):
            message = chance.choice(["look", "q"]) + str(number)
            events = await asked(sessions, session_id, message)
            session_id = str(events[0]["session_id"])
            if chance.random() < 0.3:
                await sessions.factory.teardown_session_agents(session_id)
            if chance.random() < 0.7:
                await idle(sessions, session_id)
        assert session_id is not None
        found = await summaries(sessions, session_id)
        assert found and [one.from_rank for one in found] == [0] * len(found)
        ranks = [one.to_rank for one in found]
        assert ranks == sorted(set(ranks))
        begins = {row["rank"] for row in await sessions.stored(session_id) if row["role"] == "user"}
        assert set(ranks) <= begins, "a summary ends where a turn begins"


async def test_who_leaves_is_forgotten(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser(), given) as sessions:
        session_id = await begun(sessions, 5)
        await compacted(sessions, session_id)
        assert "cats" in _held(sessions.compactor)
        sessions.compactor.forget(USER.id)
        assert "cats" not in _held(sessions.compactor)
        await asked(sessions, session_id, "q5")
        assert "cats" in _held(sessions.compactor)
        await sessions.service.delete(USER, session_id)
        assert "cats" not in _held(sessions.compactor)


def _held(compactor: Compactor) -> str:
    return " ".join(summary.text for summary in compactor._summaries.values())


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_summary_may_have_any_characters_and_any_length(tmp_path: Path, given: Given, where: str) -> None:
    async with compacting(tmp_path, summariser("\ud800 " + "cats " * 2_000_000), given, window=1_000) as sessions:
        if where == "before":
            events = await asked(sessions, None, *(f"{number} {WORDS}" for number in range(3)), chat_profile="roomy")
        else:
            session_id = await begun(sessions, 5)
            await compacted(sessions, session_id)
            events = await asked(sessions, session_id, "q5")
        assert events[-1]["status"] == "ok"
        [summary] = await summaries(sessions, str(events[0]["session_id"]))
        assert summary.text.startswith("\ufffd cats") and 400 < summary.tokens <= 500


async def test_an_answer_waits_for_its_summary_longer_than_agents_take_to_start(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given, window=1_000) as sessions:
        events = await asked(sessions, None, f"0 {WORDS}", f"1 {WORDS}", chat_profile="roomy")
        sessions.factory.build_timeout_s = 0.05
        model.go_on.clear()
        asking = asyncio.create_task(asked(sessions, str(events[0]["session_id"]), f"2 {WORDS}"))
        await eventually(lambda: model.asked)
        await asyncio.sleep(0.3)
        model.go_on.set()
        events = await asking
        assert events[-1]["status"] == "ok" and len(activities(events)) == 1


async def test_a_summary_in_the_system_prompt_takes_no_message_its_room(tmp_path: Path, given: Given) -> None:
    async with compacting(tmp_path, summariser("cats " * 240), given, window=1_000) as sessions:
        session_id = await begun(sessions, 5, chat_profile="in_prompt")
        await compacted(sessions, session_id)
        events = await asked(sessions, session_id, "word " * 360)
        assert events[-1]["status"] == "ok" and given.last == turns(3, 4)


async def test_a_profile_without_summaries_takes_no_summary_from_other_asks(tmp_path: Path, given: Given) -> None:
    model = summariser("They talk of cats.", "They still talk of cats.")
    async with compacting(tmp_path, model, given) as sessions:
        session_id = await begun(sessions, 5)
        first = await compacted(sessions, session_id)
        await asked(sessions, session_id, "q5", "q6")
        await asked(sessions, session_id, "q7", chat_profile="without")
        second = await compacted(sessions, session_id, not_to=first.summary_id)
        assert given.last == turns(3, 6) and len(model.asked) == 1
        await asked(sessions, session_id, "q8", "q9", "q10")
        assert "They talk of cats." in given.last[0] and given.last[1:] == turns(6, 9)
        await compacted(sessions, session_id, not_to=second.summary_id)
        assert model.asked[-1].startswith("Summary of what came before:\nThey talk of cats.\n\n")
        assert "user: q3" in model.asked[-1], "nobody has summarised it yet"


async def test_no_summary_is_made_for_an_agent_without_a_history(tmp_path: Path, given: Given) -> None:
    model = summariser()
    async with compacting(tmp_path, model, given, limits=LimitsSettings(history_exchanges=0)) as sessions:
        session_id = await begun(sessions, 6)
        await idle(sessions, session_id)
        assert model.asked == [] and (await sessions.session(session_id)).summary_id is None
