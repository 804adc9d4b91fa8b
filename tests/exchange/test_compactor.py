"""Compaction: what agents are given once a session is long, whatever happens to the summary, and what clients see."""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import MessagesState
from langgraph.types import interrupt
from support.chat_client import check_exchange
from support.recorded_agents import eventually, metric, one_node
from support.sessions import USER, Event, Sessions, events_of, open_sessions, until

from agentic_backend.config.chat_profiles import ChatProfile, ChatProfiles
from agentic_backend.config.titles import TitlesSettings
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.stores.records import SessionRecord
from agentic_backend.stores.trail import SummaryRecord, TrailQuery, UsageRecord

NO_TITLES = TitlesSettings(enabled=False)
SHORT = ChatProfile(max_history_turns=4, compaction_threshold_tokens=100_000)
PROFILES = ChatProfiles(
    {
        "default": SHORT,
        "by_tokens": ChatProfile(compaction_threshold_tokens=200),
        "in_prompt": SHORT.model_copy(update={"summary_position": "system_prompt"}),
        "without": SHORT.model_copy(update={"include_summary_in_context": False}),
        "roomy": ChatProfile(max_history_turns=100, compaction_threshold_tokens=100_000),
    }
)


class Summariser(BaseChatModel):
    """Summarises with `texts`, the last one for good, once `go_on` is set, which it is at first."""

    texts: list[str | Exception]
    asked: list[str]
    go_on: asyncio.Event

    @property
    def _llm_type(self) -> str:
        return "summariser"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.asked.append(messages[-1].text)
        await self.go_on.wait()
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        if isinstance(text, Exception):
            raise text
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


def summariser(*texts: str | Exception) -> Summariser:
    go_on = asyncio.Event()
    go_on.set()
    return Summariser(texts=list(texts) or ["They talk of cats."], asked=[], go_on=go_on)


class Given:
    """An agent that answers each question, and notes what it was given before it."""

    def __init__(self) -> None:
        self.histories: list[list[str]] = []

        def answer(state: MessagesState) -> dict[str, Any]:
            *before, question = state["messages"]
            self.histories.append([message.text for message in before])
            if question.text == "ask me":
                return {"messages": [AIMessage(f"You said {interrupt('What?')}")]}
            return {"messages": [AIMessage(f"re: {question.text}")]}

        self.graph = one_node(answer)

    @property
    def last(self) -> list[str]:
        return self.histories[-1]


def compacting(
    directory: Path, model: BaseChatModel, agent: Given, **options: Any
) -> AbstractAsyncContextManager[Sessions]:
    return open_sessions(
        directory, {"agent": agent.graph}, models={"default": model}, profiles=PROFILES, titles=NO_TITLES, **options
    )


@pytest.fixture
def given() -> Given:
    return Given()


async def asked(sessions: Sessions, session_id: str | None, *messages: str, **fields: Any) -> list[Event]:
    """Ask all of it, one after the other; the events of the last one."""
    events: list[Event] = []
    for message in messages:
        events = await sessions.ask(message, session_id=session_id, **fields)
        check_exchange(events)
        session_id = events[0]["session_id"]
    return events


async def begun(sessions: Sessions, count: int, **fields: Any) -> str:
    """A session of `count` turns; its id."""
    events = await asked(sessions, None, "q0", **fields)
    session_id: str = events[0]["session_id"]
    await asked(sessions, session_id, *(f"q{number}" for number in range(1, count)))
    return session_id


async def compacted(sessions: Sessions, session_id: str, *, not_to: str | None = None) -> SessionRecord:
    """Wait until the session has a summary, another one than `not_to`."""
    async with asyncio.timeout(10):
        while (session := await sessions.session(session_id)).summary_id in (None, not_to):
            await asyncio.sleep(0.01)
    return session


async def summaries(sessions: Sessions, session_id: str) -> list[SummaryRecord]:
    """The session's summaries, the oldest first."""
    page = await sessions.store.real.trail(TrailQuery(SummaryRecord, {"session_id": session_id}))
    return page.records[::-1]


def activities(events: list[Event]) -> list[dict[str, Any]]:
    return [event["data"] for event in events if event["type"] == "activity" and event["kind"] == "compacted"]


def turns(first: int, last: int) -> list[str]:
    return [text for number in range(first, last + 1) for text in (f"q{number}", f"re: q{number}")]


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
