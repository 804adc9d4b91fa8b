"""What guardrails objected to, in trust summaries: by whom and where, and never the text itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from services.mongodb import further_on_mongodb
from support.held_agents import Hold
from support.hostile_modules import entry, specs
from support.recorded_agents import eventually
from support.session_fixtures import Serve
from support.sessions import USER, Sessions
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.errors import ContentFiltered
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.trust import Objection, TrustSummary
from agentic_backend.sessions.reading.trust_reports import TrustReports

SECRET = "secret"


def agent(said: str = "done", **turn: Any) -> CompiledGraph:
    """Calls a tool whose result has the secret, and then says something."""

    async def look() -> str:
        """Look."""
        return f"the {SECRET} plan of Quentin Blake"

    model = TurnModel(turns=[Turn(calls=[call("look", "c1")]), Turn(said, **turn)])
    return create_agent(model, tools=[StructuredTool.from_function(coroutine=look)])


async def trust(sessions: Sessions, message: str = "go") -> TrustSummary:
    log = await sessions.begin(message)
    await log.wait_ended()
    return await TrustReports(sessions.store.real).of(USER, log.exchange_id)


def module(stage: str, action: str, name: str = "acting") -> Objection:
    return Objection.model_validate({"by": "module", "module": name, "stage": stage, "action": action})


@pytest.mark.parametrize(
    ("settings", "message", "said", "objections"),
    [
        ({"before": "block_word"}, "my secret", "done", [module("input", "blocked")]),
        ({"before": "redact"}, "my secret", "done", [module("input", "modified")]),
        ({"after": "block_word"}, "go", "a secret", [module("output", "blocked")]),
        ({"after": "redact"}, "go", "a secret", [module("output", "modified")]),
        ({"tool": "redact"}, "go", "done", [module("tool_result", "modified")]),
        ({"tool": "block_word"}, "go", "done", [module("tool_result", "blocked")]),
        ({"before": "raise"}, "go", "done", [module("input", "failed")]),
        (
            {"before": "guide", "after": "block_word", "tool": "block_word"},
            "go",
            "done",
            [module("tool_result", "blocked")],
        ),
    ],
)
@further_on_mongodb("mongodb")
async def test_a_module_objects(
    serve: Serve, tmp_path: Path, settings: dict[str, str], message: str, said: str, objections: list[Objection]
) -> None:
    async with serve({"agent": agent(said)}, modules=specs(tmp_path, entry(settings=settings))) as own:
        found = await trust(own, message)
    assert found.objections == objections
    is_blocked = ExchangeStatus.BLOCKED is found.status
    assert is_blocked == ("block_word" in (settings.get("before"), settings.get("after")) and SECRET in message + said)
    if is_blocked:
        assert (found.statements, found.answer_rank) == ([], None)


@pytest.mark.parametrize(
    "settings", [{"before": "redact"}, {"after": "redact"}, {"tool": "redact"}, {"after": "block_word"}]
)
@further_on_mongodb("mongodb")
async def test_no_original_and_no_reason_is_in_a_summary(
    serve: Serve, tmp_path: Path, settings: dict[str, str]
) -> None:
    async with serve({"agent": agent("A secret plan.")}, modules=specs(tmp_path, entry(settings=settings))) as own:
        found = (await trust(own, "my secret")).model_dump_json()
    hidden = {"before": "my secret", "after": "A secret", "tool": "the secret"}[next(iter(settings))]
    assert hidden not in found
    assert "the word" not in found


@further_on_mongodb("mongodb")
async def test_a_change_that_a_module_gives_no_reason_for_is_no_objection(serve: Serve, tmp_path: Path) -> None:
    async with serve({"agent": agent()}, modules=specs(tmp_path, entry(settings={"after": "back"}))) as own:
        assert (await trust(own)).objections == []


async def test_an_exchange_that_is_blocked_while_its_rows_are_read_has_no_statements(
    serve: Serve, tmp_path: Path, hold: Hold
) -> None:
    blocking = specs(tmp_path, entry(settings={"after": "block_word"}))

    async def wait() -> str:
        """Wait."""
        await hold.wait()
        return "waited"

    model = TurnModel(turns=[Turn(calls=[call("wait", "c1")]), Turn(f"a {SECRET}")])
    graph = create_agent(model, tools=[StructuredTool.from_function(coroutine=wait)])
    async with serve({"agent": graph}, modules=blocking) as own:
        log = await own.begin("go")
        await eventually(lambda: hold.held == 1)
        released = own.store.hold("exchange_messages")
        reading = asyncio.create_task(TrustReports(own.store.as_store).of(USER, log.exchange_id))
        await eventually(lambda: "exchange_messages" in own.store.waiting)
        hold.released.set()
        await log.wait_ended()
        released.set()
        found = await reading
    assert (found.status, found.statements) == (ExchangeStatus.BLOCKED, [])
    assert found.objections == [module("output", "blocked")]


@pytest.mark.parametrize(("after", "changed_by"), [("redact", ["acting"]), ("back", None)])
async def test_the_final_names_the_modules_that_have_changed_it_for_a_reason(
    serve: Serve, tmp_path: Path, after: str, changed_by: list[str] | None
) -> None:
    changing = specs(tmp_path, entry(settings={"after": after}))
    async with serve({"agent": agent("a secret <WORD>")}, modules=changing) as own:
        log = await own.begin("go")
        await log.wait_ended()
        [*_, stored] = await own.stored(log.session_id)
    assert stored["parts"][0]["text"] == {"redact": "a *** <WORD>", "back": "a secret secret"}[after]
    assert stored["metadata"]["extras"].get("changed_by") == changed_by


async def test_a_module_that_fails_and_blocks_is_told_as_both(serve: Serve, tmp_path: Path) -> None:
    blocking = entry(settings={"after": "raise"}, on_failure="block")
    async with serve({"agent": agent()}, modules=specs(tmp_path, blocking)) as own:
        found = await trust(own)
    assert found.status is ExchangeStatus.BLOCKED
    assert found.objections == [module("output", "blocked"), module("output", "failed")]


@further_on_mongodb("mongodb")
async def test_the_filter_of_a_provider_objects_to_what_it_is_sent(serve: Serve) -> None:
    async with serve({"agent": agent("", error=ContentFiltered("filtered"))}) as own:
        found = await trust(own)
    assert found.status is ExchangeStatus.ERROR
    assert found.objections == [Objection(by="provider", stage="input", action="blocked")]


@further_on_mongodb("mongodb")
async def test_the_filter_of_a_provider_objects_to_what_its_model_says(serve: Serve) -> None:
    async with serve({"agent": agent("No.", finish_reason="content_filter")}) as own:
        found = await trust(own)
    assert found.objections == [Objection(by="provider", stage="output", action="blocked")]


@pytest.mark.parametrize(
    ("settings", "stage"), [({"before": "block_word"}, "input"), ({"after": "block_word"}, "output")]
)
@pytest.mark.parametrize("mode", ["chat", "query"])
@further_on_mongodb("mongodb")
async def test_the_final_of_a_blocked_exchange_names_the_module_and_what_it_has_blocked(
    serve: Serve, tmp_path: Path, settings: dict[str, str], stage: str, mode: Any
) -> None:
    async with serve({"agent": agent("a secret")}, modules=specs(tmp_path, entry(settings=settings))) as own:
        log = await own.begin("my secret", mode=mode)
        await log.wait_ended()
        assert log.final is not None and log.final.status is ExchangeStatus.BLOCKED
        *others, shown = log.final.messages
        assert shown.metadata.extras == {"blocked": {"module": "acting", "stage": stage}}
        assert not any("blocked" in other.metadata.extras for other in others)
        if mode == "chat":
            [*_, stored] = await own.stored(log.session_id)
            assert stored["metadata"]["extras"] == shown.metadata.extras
