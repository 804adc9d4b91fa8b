"""Modules and what people say in decisions: answers, edited arguments and reasons of rejections pass as asks do."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from services.mongodb import further_on_mongodb
from support.chat_client import check_exchange, final_text
from support.hostile_modules import MADE, entry, failures, specs
from support.session_fixtures import Serve
from support.sessions import USER, Sessions, events_of, until
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.errors import BadFrame, Blocked
from agentic_backend.modules.placeholders import has_placeholder
from agentic_backend.policy.hook_context import Point
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.reading.trust_reports import TrustReports
from agentic_backend.stores.protocol.trail import AuditRecord, ModuleErrorRecord, TrailQuery
from agentic_backend.stores.records import HumanDecision

SECRET, MAIL = "secret", "ada@example.org"
SENT: list[dict[str, Any]] = []
ANSWERED: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    MADE.clear()
    SENT.clear()
    ANSWERED.clear()


def asking(*questions: Any) -> CompiledGraph:
    """Asks all questions at once, and says what it was answered."""

    graph = StateGraph(MessagesState)
    for number, question in enumerate(questions or ("Which one?",)):

        def ask(state: MessagesState, question: Any = question) -> dict[str, Any]:
            ANSWERED.append(interrupt(question))
            return {"messages": [AIMessage(f"You said {ANSWERED[-1]}")]}

        graph.add_node(f"ask {number}", ask)
        graph.add_edge(START, f"ask {number}")
    return graph.compile()


def mailing(*mails: Mapping[str, str], mode: Literal["per_call", "batched"] = "per_call") -> CompiledGraph:
    """Wants to send the mails, which a person has to approve of; in a batch, requests don't name their calls."""

    async def send(to: str, body: str) -> str:
        """Send a mail."""
        SENT.append({"to": to, "body": body})
        return f"sent to {to}"

    calls = [call("send", f"c{number}", **mail) for number, mail in enumerate(mails)]
    asks = HumanInTheLoopMiddleware[Any, Any, Any]({"send": True}, interrupt_mode=mode)
    tools = [StructuredTool.from_function(coroutine=send)]
    return create_agent(TurnModel(turns=[Turn(calls=calls), Turn("done")]), tools=tools, middleware=[asks])


LETTER = {"to": "bob@example.org", "body": "Hello"}


class Waiting:
    """An exchange that waits for a person."""

    def __init__(self, sessions: Sessions, log: ExchangeLog, requests: list[dict[str, Any]]) -> None:
        self.sessions = sessions
        self.log = log
        self.requests = requests

    @classmethod
    async def of(cls, sessions: Sessions, message: str = "hello", **ask: Any) -> "Waiting":
        log = await sessions.begin(message, **ask)
        return cls(sessions, log, (await until(log, "awaiting_human"))["payload"]["requests"])

    async def answer(self, *answers: Any) -> list[dict[str, Any]]:
        given = {request["interrupt_id"]: answer for request, answer in zip(self.requests, answers, strict=True)}
        return await self._send(HumanDecisions(answers=given))

    async def decide(self, *decisions: Mapping[str, Any]) -> list[dict[str, Any]]:
        names = [{name: request[name] for name in ("call_id", "args_sha256")} for request in self.requests]
        made = [name | dict(one) for name, one in zip(names, decisions, strict=True)]
        return await self._send(HumanDecisions.model_validate({"decisions": made}))

    async def _send(self, payload: HumanDecisions) -> list[dict[str, Any]]:
        log = await self.sessions.orchestrator.human_resume(
            USER, self.log.session_id, self.log.exchange_id, payload, None
        )
        return await events_of(log)

    async def kept(self) -> list[HumanDecision]:
        return (await self.sessions.record(self.log.exchange_id)).decisions

    async def still_waits(self) -> bool:
        record = await self.sessions.store.real.get_exchange(self.log.exchange_id)
        assert record is not None
        return record.status is ExchangeStatus.AWAITING_HUMAN and not record.decisions


async def audits(sessions: Sessions) -> list[AuditRecord]:
    return (await sessions.store.real.trail(TrailQuery(AuditRecord))).records


def looks() -> list[str]:
    """The texts that the module's `before_ai` was given after the ask."""
    told = [context.conversation.current for context in MADE[0].seen if context.request.hook is Point.BEFORE_AI]
    return [current.text for current in told[1:] if current is not None]


def pii(strategy: str, **fields: Any) -> dict[str, Any]:
    path = "agentic_backend.modules.pii:PiiRedaction"
    return {"name": "pii", "class_path": path, "settings": {"strategy": strategy}, **fields}


REJECT, EDIT = {"action": "reject", "message": "my secret"}, {"action": "edit", "args": {**LETTER, "body": "my secret"}}


@pytest.mark.parametrize("what", ["answer", "form", "reject", "edit"])
@further_on_mongodb("mongodb")
async def test_blocked_words_are_refused_and_the_exchange_waits_on(
    serve: Serve, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    module = entry(settings={"before": "block_word"})
    async with serve({"asking": asking(), "mailing": mailing(LETTER)}, modules=specs(tmp_path, module)) as sessions:
        asks = what in ("answer", "form")
        waiting = await Waiting.of(sessions, agent_id="asking" if asks else "mailing")
        with pytest.raises(Blocked) as refused:
            if asks:
                await waiting.answer("my secret" if what == "answer" else {"a": [1, {"b": "my secret"}]})
            else:
                await waiting.decide(REJECT if what == "reject" else EDIT)
        assert refused.value.content == "That is not said here."
        assert await waiting.still_waits() and not SENT and not ANSWERED
        [audit] = await audits(sessions)
        said = "1\nmy secret\na\nb" if what == "form" else "my secret"
        assert (audit.original, audit.action, audit.point) == (said, "blocked", "chat:before_ai")
        assert (audit.exchange_id, audit.module, audit.patterns) == (waiting.log.exchange_id, "acting", ["w"])
        events = await (waiting.answer("left") if asks else waiting.decide({"action": "approve"}))
        check_exchange(events)
        assert events[-1]["status"] == "ok"
        assert SECRET not in str(events) + str(await waiting.kept())
    ours = [record for record in caplog.records if record.name.startswith("agentic_backend")]
    assert "decision blocked" in [record.getMessage() for record in ours]
    assert not [record for record in ours if SECRET in str(vars(record))]


@further_on_mongodb("mongodb")
async def test_one_blocked_text_refuses_all_decisions_of_its_frame(serve: Serve, tmp_path: Path) -> None:
    module = entry(settings={"before": "block_word"})
    async with serve({"asking": asking("Which?", "Why?")}, modules=specs(tmp_path, module)) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(Blocked):
            await waiting.answer("left", "my secret")
        assert await waiting.still_waits() and not ANSWERED
        assert looks() == ["left\nmy secret"], "all texts of a frame are one message"
        assert [audit.original for audit in await audits(sessions)] == ["left\nmy secret"]


CARD = 4111111111111111
CARD_FORMS = [CARD, {"a": [CARD]}, {str(CARD): ""}, {"": {str(CARD): None}}, [float(CARD)]]


@pytest.mark.parametrize("answer", CARD_FORMS, ids=str)
@further_on_mongodb("mongodb")
async def test_a_number_or_a_key_hides_nothing_from_modules(serve: Serve, tmp_path: Path, answer: Any) -> None:
    async with serve({"asking": asking()}, modules=specs(tmp_path, pii("block"))) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(Blocked):
            await waiting.answer(answer)
        assert await waiting.still_waits()
        await waiting.answer({"card": 12})
        assert ANSWERED == [{"card": 12}]


@further_on_mongodb("mongodb")
async def test_a_number_is_replaced_and_a_key_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve({"asking": asking()}, modules=specs(tmp_path, pii("redact"))) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(BadFrame) as refused:
            await waiting.answer({str(CARD): 1})
        assert "a key that was made up" in refused.value.content
        assert await waiting.still_waits()
        await waiting.answer({"card": CARD, "sum": 1.5})
        assert ANSWERED == [{"card": "[REDACTED_CREDIT_CARD]", "sum": 1.5}]


@further_on_mongodb("mongodb")
async def test_redacted_words_are_stored_and_given_redacted(serve: Serve, tmp_path: Path) -> None:
    module = entry(settings={"before": "redact"})
    async with serve({"asking": asking()}, modules=specs(tmp_path, module)) as sessions:
        waiting = await Waiting.of(sessions)
        events = await waiting.answer("my secret")
        assert (final_text(events), ANSWERED) == ("You said my ***", ["my ***"])
        [decision] = await waiting.kept()
        assert (decision.answer, decision.for_model) == ("my ***", None)
        [audit] = await audits(sessions)
        assert (audit.original, audit.action) == ("my secret", "modified")


async def test_edited_arguments_and_reasons_are_given_redacted(serve: Serve, tmp_path: Path) -> None:
    module = entry(settings={"before": "redact"})
    async with serve({"mailing": mailing(LETTER, LETTER)}, modules=specs(tmp_path, module)) as sessions:
        waiting = await Waiting.of(sessions)
        events = await waiting.decide(EDIT, REJECT)
        check_exchange(events)
        assert SENT == [{"to": "bob@example.org", "body": "my ***"}]
        assert "my ***" in str(await sessions.stored(waiting.log.session_id))
        assert SECRET not in str(events) + str(await waiting.kept())
        assert [(one.words or {}, one.action) for one in await waiting.kept()] == [
            (SENT[0], "edit"),
            ("my ***", "reject"),
        ]
        assert len(await audits(sessions)) == 1, "what was found in all texts is recorded once"


@pytest.mark.parametrize("answers", [("my secret",), ("my secret", {"a": ["b", "the secret"], "c": 1})])
@further_on_mongodb("mongodb")
async def test_a_text_that_replaces_several_is_put_where_each_belongs(
    serve: Serve, tmp_path: Path, answers: tuple[Any, ...]
) -> None:
    """The module answers with one text for all of them."""
    module = entry(settings={"before": "redact"})
    questions = ["Which?", "Why?"][: len(answers)]
    async with serve({"asking": asking(*questions)}, modules=specs(tmp_path, module)) as sessions:
        waiting = await Waiting.of(sessions)
        await waiting.answer(*answers)
        kept = [decision.answer for decision in await waiting.kept()]
    assert kept == ["my ***", {"a": ["b", "the ***"], "c": 1}][: len(answers)]


@further_on_mongodb("mongodb")
async def test_what_is_in_no_single_text_is_refused(serve: Serve, tmp_path: Path) -> None:
    module = entry(settings={"before": "redact", "word": "my\nsecret"})
    async with serve({"asking": asking("Which?", "Why?")}, modules=specs(tmp_path, module)) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(Blocked):
            await waiting.answer("my", "secret")
        assert await waiting.still_waits()
        assert len(await audits(sessions)) == 1


async def test_agents_are_given_placeholders_and_people_see_the_values(serve: Serve, tmp_path: Path) -> None:
    async with serve({"asking": asking()}, modules=specs(tmp_path, pii("round_trip"))) as sessions:
        waiting = await Waiting.of(sessions)
        events = await waiting.answer({"mail": MAIL, "copies": 1})
        [given] = ANSWERED
        assert MAIL not in given["mail"] and has_placeholder(given["mail"]) and given["copies"] == 1
        assert MAIL in final_text(events) and not has_placeholder(final_text(events))
        [decision] = await waiting.kept()
        assert (decision.answer["mail"], decision.given.answer) == (MAIL, given)


@further_on_mongodb("mongodb")
async def test_a_later_exchange_finds_the_values_of_decisions(serve: Serve, tmp_path: Path) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        if not ANSWERED:
            ANSWERED.append(interrupt("Which address?"))
            return {"messages": [AIMessage("Thank you.")]}
        return {"messages": [AIMessage(f"It was {ANSWERED[0]}.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    async with serve({"asking": graph.compile()}, modules=specs(tmp_path, pii("round_trip"))) as sessions:
        waiting = await Waiting.of(sessions)
        assert final_text(await waiting.answer(MAIL)) == "Thank you."
        later = await sessions.ask("Which one was it?", session_id=waiting.log.session_id)
        assert final_text(later) == f"It was {MAIL}."
    assert has_placeholder(ANSWERED[0])


@pytest.mark.parametrize("mode", ["per_call", "batched"])
async def test_an_edited_call_is_known_by_its_placeholders(
    serve: Serve, tmp_path: Path, mode: Literal["per_call", "batched"]
) -> None:
    async with serve({"mailing": mailing(LETTER, mode=mode)}, modules=specs(tmp_path, pii("round_trip"))) as sessions:
        waiting = await Waiting.of(sessions)
        await waiting.decide({"action": "edit", "args": {**LETTER, "body": f"Ask {MAIL}"}})
        [sent] = SENT
        assert sent["to"] == LETTER["to"], "what the person has left as it was shown is not theirs"
        assert MAIL not in sent["body"] and has_placeholder(sent["body"])
        trust = await TrustReports(sessions.store.real).of(USER, waiting.log.exchange_id)
        assert [(tool.approval, tool.decided_by) for tool in trust.tools] == [("edited", USER.id)]


@further_on_mongodb("mongodb")
async def test_choices_and_what_says_nothing_pass_no_module(serve: Serve, tmp_path: Path) -> None:
    choice = {"question": "Which?", "options": ["my secret", "left"]}
    module = entry(settings={"before": "block_word"})
    agents = {"choosing": asking(choice), "asking": asking(), "mailing": mailing(LETTER)}
    async with serve(agents, modules=specs(tmp_path, module)) as sessions:
        await (await Waiting.of(sessions)).answer("my secret")
        await (await Waiting.of(sessions, agent_id="asking")).answer([True, None, " "])
        assert ANSWERED == ["my secret", [True, None, " "]]
        await (await Waiting.of(sessions, agent_id="mailing")).decide({"action": "approve"})
        assert len(SENT) == 1
    assert looks() == ["hello"] * 2, "only the asks"


# `test_modules` has them all: what people decide is given to the same host.
@pytest.mark.parametrize("what", failures("raise", "hang", "rubbish"))
@further_on_mongodb("mongodb")
async def test_a_failing_module_lets_words_pass(serve: Serve, tmp_path: Path, what: str) -> None:
    fails = entry(settings={"before": what}, timeout_s=0.1)
    async with serve({"asking": asking()}, modules=specs(tmp_path, fails)) as sessions:
        assert final_text(await (await Waiting.of(sessions)).answer("left")) == "You said left"
        errors = (await sessions.store.real.trail(TrailQuery(ModuleErrorRecord))).records
        assert [error.outcome for error in errors] == ["continued"] * 2


@further_on_mongodb("mongodb")
async def test_what_a_failing_module_blocks_waits_until_it_works(serve: Serve, tmp_path: Path) -> None:
    failing = entry(settings={}, on_failure="block")
    async with serve({"asking": asking()}, modules=specs(tmp_path, failing)) as sessions:
        waiting = await Waiting.of(sessions)
        MADE[0].settings = MADE[0].settings.model_copy(update={"before": "raise"})
        for _ in range(2):
            with pytest.raises(Blocked):
                await waiting.answer("left")
        assert await waiting.still_waits()
        errors = (await sessions.store.real.trail(TrailQuery(ModuleErrorRecord))).records
        assert [(error.outcome, error.exchange_id) for error in errors] == [("blocked", waiting.log.exchange_id)] * 2
        MADE[0].settings = MADE[0].settings.model_copy(update={"before": ""})
        assert final_text(await waiting.answer("left")) == "You said left"


async def test_what_modules_leave_has_to_match_the_schema(serve: Serve, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"mail": {"type": "string", "pattern": "@"}}}
    graph = StateGraph(MessagesState)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{interrupt('Whom?', response_schema=schema)}")]}

    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    async with serve({"asking": graph.compile()}, modules=specs(tmp_path, pii("redact"))) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(BadFrame) as refused:
            await waiting.answer({"mail": MAIL})
        told = ".mail: does not meet the schema's 'pattern': \"@\", once modules have changed it"
        assert refused.value.content == f"payload.answers.{waiting.requests[0]['interrupt_id']}{told}"
        assert await waiting.still_waits()


async def test_more_texts_than_modules_can_look_at_are_refused(serve: Serve, tmp_path: Path) -> None:
    async with serve({"asking": asking()}, modules=specs(tmp_path, pii("redact"))) as sessions:
        waiting = await Waiting.of(sessions)
        with pytest.raises(BadFrame):
            await waiting.answer(["a"] * 101)
        await waiting.answer([MAIL] * 100)
        assert [ANSWERED] == [[["[REDACTED_EMAIL]"] * 100]]


async def test_what_modules_add_to_the_prompt_takes_the_place_of_what_they_had_added(
    serve: Serve, tmp_path: Path
) -> None:
    guides = entry(settings={"before": "guide"})
    async with serve({"asking": asking("Which?", "Why?")}, modules=specs(tmp_path, guides)) as sessions:
        waiting = await Waiting.of(sessions)
        first = HumanDecisions(answers={waiting.requests[0]["interrupt_id"]: "left"})
        await sessions.orchestrator.human_resume(USER, waiting.log.session_id, waiting.log.exchange_id, first, None)
        record = await sessions.record(waiting.log.exchange_id)
        assert record.policy is not None
        assert [addition.text for addition in record.policy.prompt_additions] == ["Be kind."]


async def test_without_modules_a_decision_reads_nothing_more(serve: Serve) -> None:
    async with serve({"asking": asking("Which?", "Why?")}) as sessions:
        waiting = await Waiting.of(sessions)
        first = HumanDecisions(answers={waiting.requests[0]["interrupt_id"]: "left"})
        with sessions.store.away("get_session", "add_trail"):
            # The other question stays open, so that nothing runs.
            await sessions.orchestrator.human_resume(USER, waiting.log.session_id, waiting.log.exchange_id, first, None)
        assert not sessions.store.refused
