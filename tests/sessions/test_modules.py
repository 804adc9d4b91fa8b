"""Modules in exchanges: what they change and block is what is stored, shown and given to models, and nothing else."""

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.chat_client import check_exchange, final_text
from support.further_cases import further
from support.held_agents import Hold, held_graph
from support.hostile_modules import FAILURES, MADE, Acting, entry, specs
from support.reciting import reciting_graph
from support.recorded_agents import entry_of, eventually, metric
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.auth.user import User
from agentic_backend.errors import StoreUnavailable
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.policy.hook_context import HookContext, Point
from agentic_backend.policy.hook_result import HookResult, blocked
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.protocol.trail import AuditRecord, ExtractionRecord, ModuleErrorRecord, TrailQuery
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

SECRET = "secret"
RUNS: list[list[str]] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    MADE.clear()
    RUNS.clear()


def serving(tmp_path: Path, *entries: Any, **options: Any) -> Any:
    return open_sessions(tmp_path, {"echo": reciting_graph(RUNS)}, modules=specs(tmp_path, *entries), **options)


async def records_of(sessions: Sessions, kind: type[Any]) -> list[Any]:
    return (await sessions.store.real.trail(TrailQuery(kind))).records


def status(events: list[dict[str, Any]]) -> str:
    return str(events[-1]["status"])


def first_text(events: list[dict[str, Any]]) -> str:
    return str(events[-1]["messages"][0]["parts"][0]["text"])


async def test_a_blocked_message_reaches_no_model_no_title_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(tmp_path, entry(settings={"before": "block_word"})) as sessions:
        events = await sessions.ask("my secret")
        check_exchange(events)
        assert (status(events), first_text(events)) == ("blocked", "[blocked]")
        assert final_text(events) == "That is not said here."
        session = await sessions.session(events[0]["session_id"])
        assert SECRET not in session.title
        assert SECRET not in str(await sessions.stored(session.id)) + str(events)
        [audit] = await records_of(sessions, AuditRecord)
        assert (audit.original, audit.action, audit.module) == ("my secret", "blocked", "acting")
        assert audit.exchange_id == events[0]["exchange_id"]
        assert metric(sessions.kpi, "chat_module_blocks_total", module="acting", point="chat:before_ai") == 1
    assert not RUNS
    assert not [record for record in caplog.records if SECRET in record.getMessage() and "aiosqlite" not in record.name]


async def test_a_blocked_query_stores_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"before": "block_word"})) as sessions:
        events = await sessions.ask("my secret", mode="query")
        assert (status(events), final_text(events)) == ("blocked", "That is not said here.")
        assert not await records_of(sessions, AuditRecord)
    assert not RUNS


async def test_a_redacted_message_is_stored_shown_and_given_redacted(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"before": "redact"})) as sessions:
        events = await sessions.ask("my secret")
        check_exchange(events)
        assert (status(events), first_text(events), RUNS) == ("ok", "my ***", [["my ***"]])
        assert (await sessions.session(events[0]["session_id"])).title == "my ***"
        [audit] = await records_of(sessions, AuditRecord)
        assert (audit.original, audit.action, audit.patterns) == ("my secret", "modified", ["w"])


async def test_models_are_given_other_words_and_people_their_own(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"before": "for_model", "after": "back"})) as sessions:
        events = await sessions.ask("my secret")
        assert (first_text(events), final_text(events)) == ("my secret", "I was told: my secret")
        session_id = events[0]["session_id"]
        await sessions.ask("more", session_id=session_id)
        await sessions.factory.teardown_session_agents(session_id)
        await sessions.ask("again", session_id=session_id)
    assert RUNS[0] == ["my <WORD>"]
    assert SECRET not in str(RUNS), "neither warm nor cold models are given what people see"
    assert RUNS[1][:2] == ["my <WORD>", "I was told: my <WORD>"]


class Strict(Acting):
    """Changes what people see, and blocks what an earlier module keeps for models alone."""

    async def after_ai(self, context: HookContext) -> HookResult:
        assert context.response is not None
        if "<WORD>" in context.response.text:
            return await self._act("block_word", context, f"{self.settings.word}: {context.response.text}")
        return await self._act("redact", context, context.response.text)


async def test_a_module_blocks_what_only_models_would_be_given(tmp_path: Path) -> None:
    keeping = entry("keeping", settings={"before": "for_model", "after": "back"}, priority=1)
    strict = entry("strict", class_path=f"{__name__}:Strict", priority=2)
    async with serving(tmp_path, keeping, strict) as sessions:
        events = await sessions.ask("my secret")
        assert (status(events), final_text(events)) == ("blocked", "That is not said here.")
        await sessions.ask("more", session_id=events[0]["session_id"])
    assert "I was told: my" not in str(RUNS[1])


async def test_a_replaced_answer_is_not_given_to_models_later(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"after": "redact", "word": "told"})) as sessions:
        events = await sessions.ask("one")
        check_exchange(events)
        assert final_text(events) == "I was ***: one"
        session_id = events[0]["session_id"]
        assert "I was ***: one" in str(await sessions.stored(session_id))
        await sessions.ask("two", session_id=session_id)
        await sessions.factory.teardown_session_agents(session_id)
        await sessions.ask("three", session_id=session_id)
        audits = await records_of(sessions, AuditRecord)
        assert next(audit.original for audit in reversed(audits)) == "I was told: one"
        assert {audit.rank for audit in audits} == {1, 3, 5}
    assert RUNS[1] == ["one", "I was ***: one", "two"]
    assert "told" not in str(RUNS)


async def test_a_blocked_answer_is_replaced_by_the_direct_response(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"after": "block_word", "word": "told"})) as sessions:
        events = await sessions.ask("one")
        check_exchange(events)
        assert (status(events), final_text(events)) == ("blocked", "That is not said here.")
        session_id = events[0]["session_id"]
        assert "told" not in str(await sessions.stored(session_id))
        assert status(await sessions.ask("two", session_id=session_id)) == "blocked"
    assert RUNS[1] == ["one", "That is not said here.", "two"]


# After the model those that are wrong in a response; to the others both points are one.
IN_RESPONSES = ("raise", "hang", "huge", "surrogate", "longer_than_it_says", "unchecked_part", "other_part")


@pytest.mark.parametrize(
    ("point", "what"),
    [
        *(("before", what) for what in FAILURES),
        *(("after", what) if what in IN_RESPONSES else further("after", what) for what in FAILURES),
    ],
)
async def test_a_failing_module_holds_nobody_up(
    tmp_path: Path, what: str, point: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Only one that hangs is to come to its time limit.
    timeout_s = 0.5 if what.startswith("hang") else 30
    async with serving(tmp_path, entry(settings={point: what}, timeout_s=timeout_s)) as sessions:
        events = await sessions.ask("my secret")
        check_exchange(events)
        assert (status(events), final_text(events)) == ("ok", "I was told: my secret")
        [error] = await records_of(sessions, ModuleErrorRecord)
        assert (error.module, error.outcome, error.session_id) == ("acting", "continued", events[0]["session_id"])
    assert "secret of the module" not in caplog.text
    assert "module failed" in caplog.text


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_failing_module_blocks_if_its_entry_says_so(tmp_path: Path, point: str) -> None:
    async with serving(tmp_path, entry(settings={point: "raise"}, on_failure="block")) as sessions:
        for _ in range(7):
            # The last ones find the circuit open.
            events = await sessions.ask("my secret")
            check_exchange(events)
            assert status(events) == "blocked"
            assert SECRET not in str(events) or point == "after"
        errors = [record.error for record in await records_of(sessions, ModuleErrorRecord)]
        assert sorted(errors) == ["RuntimeError"] * 5 + ["circuit_open"] * 2
        assert metric(sessions.kpi, "chat_module_circuit_open", module="acting") == 1
    assert len([context for context in MADE[0].seen if str(context.request.hook) == f"chat:{point}_ai"]) == 5


@pytest.mark.parametrize("on_failure", ["block", "continue"])
async def test_what_one_person_says_changes_nothing_for_another(tmp_path: Path, on_failure: str) -> None:
    module = entry(class_path=f"{__name__}:Breakable", settings={"before": "redact"}, on_failure=on_failure)
    async with serving(tmp_path, module) as sessions:
        for number in range(8):
            await sessions.ask(f"poison {number}")
        errors = [record.error for record in await records_of(sessions, ModuleErrorRecord)]
        assert sorted(errors) == ["LookupError"] * 5 + ["circuit_open"] * 3
        events = await sessions.ask("my secret", user=User(id="bob", name="Bob"))
        assert (status(events), first_text(events)) == ("ok", "my ***")


async def test_a_dependency_that_is_away_opens_the_circuit_for_all(tmp_path: Path) -> None:
    module = entry(class_path=f"{__name__}:Breakable", settings={"before": "redact"})
    async with serving(tmp_path, module) as sessions:
        for _ in range(5):
            await sessions.ask("the service is down")
        events = await sessions.ask("my secret", user=User(id="bob", name="Bob"))
        assert first_text(events) == "my secret"
        errors = [record.error for record in await records_of(sessions, ModuleErrorRecord)]
        assert sorted(errors) == ["ConnectError"] * 5 + ["circuit_open"]


@pytest.mark.parametrize("what", ["mutate", "blank"])
async def test_what_a_module_was_given_is_a_copy(tmp_path: Path, what: str) -> None:
    later = entry("later", settings={"before": "block_word", "after": "block_word"}, priority=99)
    async with serving(tmp_path, entry(settings={"before": what, "after": what}), later) as sessions:
        events = await sessions.ask("mine")
        assert (status(events), first_text(events)) == ("ok", "mine")
    assert RUNS == [["mine"]]
    [told] = [module.seen for module in MADE if module.settings.after == "block_word"]
    assert {(one.user.id, one.tool.id, one.tool.definition["id"]) for one in told} == {(USER.id, "echo", "echo")}


async def test_modules_run_by_priority_and_see_what_earlier_ones_have_left(tmp_path: Path) -> None:
    late = entry("late", priority=90)
    same = entry("first-in-file", settings={"before": "guide"}, priority=40)
    early = entry("early", settings={"before": "redact"}, priority=1)
    async with serving(tmp_path, late, same, early) as sessions:
        events = await sessions.ask("my secret")
        record = await sessions.record(events[0]["exchange_id"])
        assert record.policy is None, "it can't go on"
    names = [spec.entry.name for spec in specs(tmp_path, late, same, early)]
    assert names == ["early", "first-in-file", "late"]
    told = [context.conversation.current for module in MADE for context in module.seen if _is_before(context)]
    assert [current.text for current in told if current is not None] == ["my secret", "my ***", "my ***"]


class Breakable(Acting):
    """Breaks at some texts: by itself, or because the service that it asks is away."""

    async def before_ai(self, context: HookContext) -> HookResult:
        assert context.conversation.current is not None
        text = context.conversation.current.text
        if "poison" in text:
            # As an author's error may quote what was said, also where it sounds like a service's.
            raise LookupError(f"503 rate limit, invalid api key, connection timed out: {text}")
        if "down" in text:
            try:
                raise OSError("no route to host")
            except OSError as error:
                raise httpx.ConnectError(text) from error
        return await super().before_ai(context)


def _is_before(context: HookContext) -> bool:
    return context.request.hook is Point.BEFORE_AI


async def test_modules_beside_are_told_of_sessions_and_messages(tmp_path: Path) -> None:
    async with serving(tmp_path, entry()) as sessions:
        events = await sessions.ask("hello")
        session_id = events[0]["session_id"]
        await sessions.service.complete(USER, session_id)
        hooks = {"session:start", "chat:on_message", "session:end"}
        await eventually(lambda: hooks <= {str(context.request.hook) for context in MADE[0].seen})

        async def found() -> set[str]:
            return {record.data["hook"] for record in await records_of(sessions, ExtractionRecord)}

        while await found() != hooks:
            await sessions.idle(session_id)


async def test_a_module_that_does_not_apply_is_not_called(tmp_path: Path) -> None:
    elsewhere = entry(settings={"before": "block_word"}, tags=["school"])
    async with serving(tmp_path, elsewhere, entry("off", settings={"before": "raise"}, enabled=False)) as sessions:
        assert status(await sessions.ask("my secret")) == "ok"
    assert not MADE[0].seen and len(MADE) == 1


async def test_the_context_tells_who_asks_and_what_was_said(tmp_path: Path) -> None:
    async with serving(tmp_path, entry()) as sessions:
        events = await sessions.ask("one")
        await sessions.ask("two", session_id=events[0]["session_id"])
    context = next(one for one in MADE[0].seen if one.conversation.current and one.conversation.current.text == "two")
    assert (context.user.id, context.user.name, context.tool.id) == ("alice", "Alice", "echo")
    assert (context.session.id, context.session.message_count) == (events[0]["session_id"], 2)
    assert [message.rank for message in context.conversation.messages] == [0, 1]


async def test_held_text_is_shown_only_when_modules_have_passed_it(tmp_path: Path) -> None:
    hold = Hold()
    held = entry(settings={"after": "redact", "word": "two"}, hold_output=True)
    async with open_sessions(tmp_path, {"echo": held_graph(hold)}, modules=specs(tmp_path, held)) as sessions:
        log = await sessions.begin("one")
        await eventually(lambda: hold.held)
        assert not log.partial and "one two" not in str([event.encode() for event in log.read(0)])
        hold.released.set()
        events = await events_of(log)
        check_exchange(events)
        assert final_text(events) == "one *** three"
        assert "delta" not in {event["type"] for event in events}


async def test_held_text_of_a_stopped_exchange_is_dropped(tmp_path: Path) -> None:
    hold = Hold()
    agents = {"echo": entry_of(held_graph(hold), "echo", hold_output=True)}
    async with open_sessions(tmp_path, agents) as sessions:
        log = await sessions.begin("hello")
        await eventually(lambda: hold.held)
        await sessions.orchestrator.stop(USER, log.session_id, log.exchange_id)
        events = await events_of(log)
        check_exchange(events)
        assert status(events) == "stopped"
        assert "two" not in str(events) + str(await sessions.stored(log.session_id))


async def test_text_that_was_shown_is_replaced(tmp_path: Path) -> None:
    hold = Hold()
    module = entry(settings={"after": "block_word", "word": "three"})
    async with open_sessions(tmp_path, {"echo": held_graph(hold)}, modules=specs(tmp_path, module)) as sessions:
        log = await sessions.begin("one")
        await eventually(lambda: log.partial)
        hold.released.set()
        events = await events_of(log)
        assert (status(events), final_text(events)) == ("blocked", "That is not said here.")
        assert "three" not in str(await sessions.stored(log.session_id))
        [block] = {event["block"] for event in events if event["type"] == "delta"}
        assert [event for event in events if event["type"] == "stream" and event.get("block") == block]


async def test_a_module_changes_the_results_of_tools(tmp_path: Path) -> None:
    async def look_up() -> str:
        """Look it up."""
        return "the secret result"

    tool = StructuredTool.from_function(coroutine=look_up)
    graph = create_agent(OfflineChatModel(words_per_second=0), tools=[tool])
    module = entry(settings={"tool": "redact"})
    async with open_sessions(tmp_path, {"echo": graph}, modules=specs(tmp_path, module)) as sessions:
        events = await sessions.ask("use the tool look_up with {}")
        check_exchange(events)
        assert "the *** result" in str(events[-1]["messages"])
        assert SECRET not in str(events)
        [audit] = await records_of(sessions, AuditRecord)
        assert (audit.point, audit.original) == ("chat:tool_result", "the secret result")


async def test_a_blocked_exchange_that_never_ran_is_not_given_to_its_agent(tmp_path: Path) -> None:
    async with serving(tmp_path, entry(settings={"before": "block_word"})) as sessions:
        sessions.store.lose_next_answer("begin_exchange")
        with pytest.raises(StoreUnavailable):
            await sessions.ask("my secret", client_exchange_id="once")
        events = await sessions.ask("my secret", client_exchange_id="once")
        assert (status(events), final_text(events)) == ("blocked", "That is not said here.")
    assert not RUNS


async def left_by_a_dead_server(tmp_path: Path, **policy: Any) -> ExchangeRecord:
    """An exchange that was cut while a text was being written."""
    store, now = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5), utc_now()
    session = SessionRecord(id="left", user_id=USER.id, agent_id="echo", title="Left", created_at=now, updated_at=now)
    exchange = ExchangeRecord(
        id="cut",
        session_id="left",
        user_id=USER.id,
        agent_id="echo",
        request_id="request",
        started_at=now,
        owner="dead",
        policy=ExchangePolicy(**policy),
    )
    message = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="hello")])
    await store.begin_exchange(exchange, message, session)
    await store.keep_partials("dead", {"cut": [PartialText(block=0, channel=Channel.FINAL, text="my secret is")]})
    await store.aclose()
    return exchange


async def test_modules_look_at_the_text_that_a_crash_has_cut(tmp_path: Path) -> None:
    exchange = await left_by_a_dead_server(tmp_path)
    async with serving(tmp_path, entry(settings={"after": "redact"})) as sessions:
        assert (await sessions.record(exchange.id)).status is ExchangeStatus.INTERRUPTED
        assert [message["parts"][0]["text"] for message in await sessions.stored("left")][1] == "my *** is"
        [audit] = await records_of(sessions, AuditRecord)
        assert (audit.original, audit.rank) == ("my secret is", 1)


async def test_a_blocked_message_stays_blocked_after_a_crash(tmp_path: Path) -> None:
    exchange = await left_by_a_dead_server(tmp_path, blocked_response="No.")
    async with serving(tmp_path, entry()) as sessions:
        assert (await sessions.record(exchange.id)).status is ExchangeStatus.BLOCKED
        assert [message["parts"][0]["text"] for message in await sessions.stored("left")] == ["hello", "No."]


async def test_an_exchange_that_goes_on_after_a_pause_has_its_modules(tmp_path: Path) -> None:
    def ask_back(state: MessagesState) -> dict[str, Any]:
        answer = interrupt({"question": "Which one?"})
        return {"messages": [AIMessage(f"my secret is {answer}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", ask_back)
    graph.add_edge(START, "answer")
    module = entry(settings={"after": "redact"})
    async with open_sessions(tmp_path, {"echo": graph.compile()}, modules=specs(tmp_path, module)) as sessions:
        log = await sessions.begin("hello")
        asked = await until(log, "awaiting_human")
        decisions = HumanDecisions(answers={asked["payload"]["requests"][0]["interrupt_id"]: "left"})
        log = await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, decisions, None)
        assert final_text(await events_of(log)) == "my *** is left"
    assert MADE[0].seen[-1].user.name == "Alice"


class Reader(Acting):
    reads_messages = False

    async def before_ai(self, context: HookContext) -> HookResult:
        self.seen.append(context)
        return blocked("read", str(len(context.conversation.messages)))


async def test_messages_are_read_only_for_modules_that_say_so(tmp_path: Path) -> None:
    """A module that reads them all the same is told by the name of its error, on its first call."""
    async with serving(tmp_path, entry("reader", class_path=f"{__name__}:Reader")) as sessions:
        first = await sessions.ask("one")
        with sessions.store.away("last_exchanges"):
            assert status(await sessions.ask("two", session_id=first[0]["session_id"])) == "ok"
        assert not sessions.store.refused
        errors = await records_of(sessions, ModuleErrorRecord)
        assert [error.error for error in errors] == ["MessagesNotRead"] * 2
