"""What was asked in a scope goes on in it: after a pause, an interruption and a crash, and on another instance."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.held_agents import Hold
from support.hostile_modules import MADE, entry, specs
from support.recorded_agents import echoing_graph, eventually
from support.sessions import USER, Sessions, events_of, open_sessions, until
from support.step_agents import Steps

from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.scopes.policies_file import KnownNames, Policies, read_policies
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.protocol.messages import Channel, ExchangeStatus

ACME = """
organisations:
  acme: {modules: {noting: false}}
  other: {modules: {noting: true}}
classes:
  c: {organisation: other}
"""
ESSAY, STEPS = {"assignment": "essay"}, 9


def policies(directory: Path) -> Policies:
    file = directory / "policies.yaml"
    file.write_text(f"assignments:\n  essay: {{limits: {{steps: {STEPS}}}}}\n")
    return read_policies(file, KnownNames((), (), ()))


async def final_of(sessions: Sessions, exchange_id: str) -> Sequence[Any]:
    return await events_of(await sessions.orchestrator.view(USER, exchange_id))


async def test_after_a_pause_on_another_instance(tmp_path: Path) -> None:
    built, hold = Steps(), Hold()
    agents, kept = {"agent": built.agent(hold, asks=True)}, policies(tmp_path)
    async with open_sessions(tmp_path, agents, policies=kept) as sessions:
        log = await sessions.begin("hello", scope=ESSAY)
        waiting = await until(log, "awaiting_human")
    async with open_sessions(tmp_path, agents, policies=kept) as sessions:
        [request] = waiting["payload"]["requests"]
        answers = HumanDecisions(answers={request["interrupt_id"]: "left"})
        await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, answers, None)
        assert (await final_of(sessions, log.exchange_id))[-1]["status"] == "ok"
    assert built == [STEPS, STEPS]


async def test_after_an_interruption(tmp_path: Path) -> None:
    built, hold = Steps(), Hold()
    agents, kept = {"agent": built.agent(hold)}, policies(tmp_path)
    async with open_sessions(tmp_path, agents, policies=kept) as sessions:
        log = await sessions.begin("hello", scope=ESSAY)
        await eventually(lambda: hold.held)
    hold.released.set()
    async with open_sessions(tmp_path, agents, policies=kept) as sessions:
        assert (await sessions.record(log.exchange_id)).status is ExchangeStatus.INTERRUPTED
        resumed = await sessions.orchestrator.resume(USER, log.exchange_id, None, "again")
        assert (await events_of(resumed))[-1]["status"] == "ok"
    assert built == [STEPS, STEPS]


async def test_after_a_crash_when_it_goes_on_by_itself(tmp_path: Path) -> None:
    built, hold = Steps(), Hold()
    kept = policies(tmp_path)
    async with open_sessions(tmp_path, {"agent": built.agent(hold, auto_resume=True)}, policies=kept) as dying:
        log = await dying.begin("hello", scope=ESSAY)
        await eventually(lambda: hold.held and log.messages[-1].channel is Channel.TOOL_RESULT)
        again = Hold()
        again.released.set()
        agents = {"agent": built.agent(again, auto_resume=True)}
        async with open_sessions(tmp_path, agents, policies=kept) as sessions:
            await sessions.idle(log.session_id)
            finals = [one for one in await sessions.stored(log.session_id) if one["channel"] == "final"]
            assert finals[-1]["role"] == "assistant"
    assert built == [STEPS, STEPS]


async def test_each_exchange_of_a_session_has_the_scope_that_its_user_has_then(tmp_path: Path) -> None:
    built, hold = Steps(), Hold()
    hold.released.set()
    async with open_sessions(tmp_path, {"agent": built.agent(hold)}, policies=policies(tmp_path)) as sessions:
        plain = (await sessions.ask("hello"))[-1]["session_id"]
        scoped = (await sessions.ask("hello", scope=ESSAY))[-1]["session_id"]
        await sessions.ask("again", session_id=scoped)
        await sessions.ask("again", session_id=plain)
        assert built == [None, STEPS]
        record = await sessions.record((await sessions.ask("more", session_id=scoped))[-1]["exchange_id"])
        assert record.policy is None, "what has ended keeps nothing of who asked"


async def test_what_the_token_names_applies_when_a_session_begins_and_ends(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(ACME)
    kept, modules = read_policies(file, KnownNames((), (), ("noting",))), specs(tmp_path, entry("noting"))
    MADE.clear()
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, policies=kept, modules=modules) as sessions:
        [module] = MADE
        in_acme = replace(USER, scope={"organisation": "acme"})
        # What a client names beside its token's organisation is not kept.
        named = {"organisation": "other"}
        session = await sessions.service.open(in_acme, None, None, None, named)
        assert (await sessions.session(session.id)).scope == {}
        await sessions.service.complete(in_acme, session.id)
        session = await sessions.service.open(USER, None, None, None, {"class": "c"})
        await sessions.service.complete(USER, session.id)
        await eventually(lambda: len(module.seen) == 2)
        for context, hook in zip(module.seen, (Point.SESSION_START, Point.SESSION_END), strict=True):
            assert (context.session.id, context.request.hook, context.user.name) == (session.id, hook, USER.name)
            assert context.scope.group is not None and context.scope.group.id == "other"


async def test_a_session_that_the_word_quit_opens_begins_and_ends(tmp_path: Path) -> None:
    MADE.clear()
    modules = specs(tmp_path, entry("noting"))
    async with open_sessions(tmp_path, {"echo": echoing_graph()}, modules=modules) as sessions:
        [module] = MADE
        await sessions.ask("quit")
        hooks = {Point.SESSION_START, Point.SESSION_END}
        await eventually(lambda: hooks <= {context.request.hook for context in module.seen})
