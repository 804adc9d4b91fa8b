"""The standard tools, as models call them: each user's own data, on each store, within the user's permissions."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool
from support.recorded_agents import entry_of
from support.session_fixtures import Serve
from support.sessions import USER, Sessions
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.entry_parts import STANDARD_TOOLS
from agentic_backend.auth.user import User
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.protocol.parts import LinkPart, ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery

BOB = User(id="bob", name="Bob")
NAMES = list(STANDARD_TOOLS)


class Asking(TurnModel):
    """Calls the tool that the last message names, as `create_todo {"title": "Read"}`; then it is done."""

    async def _astream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.turns, self._said = [_answer(messages)], 0
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


def _answer(messages: Sequence[BaseMessage]) -> Turn:
    if messages[-1].type == "tool":
        return Turn("done")
    name, _, args = messages[-1].text.partition(" ")
    return Turn(calls=[call(name, f"c{len(messages)}", **json.loads(args or "{}"))])


def build(model: BaseChatModel, tools: list[BaseTool]) -> CompiledGraph:
    return create_agent(Asking(turns=[]), tools=tools)


def agent() -> CatalogAgent:
    return entry_of(build, "agent", tools=NAMES)


async def use(sessions: Sessions, name: str, *, user: User = USER, **args: Any) -> tuple[ExchangeLog, ToolResultPart]:
    """Let the agent call a tool; the exchange, and the tool's result."""
    begun = await sessions.begin(f"{name} {json.dumps(args)}", user=user)
    await begun.wait_ended()
    assert begun.final is not None and begun.final.error is None, begun.final
    [result] = [part for message in begun.messages for part in message.parts if isinstance(part, ToolResultPart)]
    return begun, result


async def told(sessions: Sessions, name: str, **args: Any) -> Any:
    _, result = await use(sessions, name, **args)
    assert result.ok, result.content
    return json.loads(result.content)


async def test_the_catalog_names_exactly_these(serve: Serve) -> None:
    async with serve({"agent": agent()}) as sessions:
        assert list(sessions.factory._services.standard_tools) == NAMES


async def test_the_time_of_a_zone(serve: Serve) -> None:
    async with serve({"agent": agent()}) as sessions:
        now = await told(sessions, "current_time", timezone="Asia/Tokyo")
        assert now["iso"].endswith("+09:00") and "JST" in now["formatted"]
        _, wrong = await use(sessions, "current_time", timezone="../../etc/passwd")
        assert not wrong.ok and "no time zone" in wrong.content


@pytest.mark.parametrize(
    ("create", "listing", "given", "kept"),
    [
        ("create_todo", "list_todos", {"title": " Read ", "due": "2030-01-31"}, {"title": "Read", "due": "2030-01-31"}),
        ("create_note", "list_notes", {"text": "Light is a wave."}, {"text": "Light is a wave."}),
    ],
)
async def test_what_a_user_keeps_is_the_user_s_own(
    serve: Serve, create: str, listing: str, given: dict[str, str], kept: dict[str, str]
) -> None:
    async with serve({"agent": agent()}) as sessions:
        made = await told(sessions, create, **given)
        assert kept.items() <= made.items()
        assert await told(sessions, listing) == {listing.removeprefix("list_"): [made]}
        _, of_another = await use(sessions, listing, user=BOB)
        assert json.loads(of_another.content) == {listing.removeprefix("list_"): []}


@pytest.mark.parametrize(
    ("name", "args", "why"),
    [
        ("create_todo", {"title": "  "}, "The title is empty"),
        ("create_todo", {"title": "x" * 501}, "more than 500"),
        ("create_todo", {"title": "Read", "due": "tomorrow"}, "2026-01-31"),
        ("create_note", {"text": "x" * 10_001}, "more than 10000"),
        ("search_sessions", {"query": " "}, "The query is empty"),
    ],
)
async def test_what_is_wrong_is_told_to_the_model(serve: Serve, name: str, args: dict[str, str], why: str) -> None:
    async with serve({"agent": agent()}) as sessions:
        _, refused = await use(sessions, name, **args)
        assert refused.ok is False and why in refused.content


async def test_a_query_keeps_nothing(serve: Serve) -> None:
    async with serve({"agent": agent()}) as sessions:
        begun = await sessions.begin('create_note {"text": "Remember"}', mode="query")
        await begun.wait_ended()
        assert await told(sessions, "list_notes") == {"notes": []}


async def test_earlier_sessions_are_found_and_cited(serve: Serve) -> None:
    async with serve({"agent": agent()}) as sessions:
        earlier, _ = await use(sessions, "create_note", text="Leaves turn light into sugar.")
        await use(sessions, "create_note", user=BOB, text="Leaves turn light into sugar.")
        log, result = await use(sessions, "search_sessions", query="LIGHT leaves")
        [hit] = json.loads(result.content)["found"]
        assert (hit["session_id"], hit["rank"], hit["role"]) == (earlier.session_id, 0, "user")
        assert "turn light into" in hit["snippet"]
        [link] = [part for message in log.messages for part in message.parts if isinstance(part, LinkPart)]
        assert (link.kind, link.href) == ("citation", f"#s={earlier.session_id}")


async def test_the_assignment_of_the_session(serve: Serve) -> None:
    async with serve({"agent": agent()}) as sessions:
        assert await told(sessions, "assignment_info") == {"assignment": None}
        student = replace(USER, scope={"assignment": "essay-3"})
        begun = await sessions.begin("assignment_info", user=student)
        await begun.wait_ended()
        [result] = [part for message in begun.messages for part in message.parts if isinstance(part, ToolResultPart)]
        assert json.loads(result.content) == {"assignment": {"id": "essay-3", "name": "assignment essay-3"}}


async def test_each_needs_its_permission(serve: Serve) -> None:
    granted = PermissionsSettings(roles={"student": ("todos:write:self",)})
    student = replace(USER, roles=frozenset({"student"}))
    async with serve({"agent": agent()}, permissions=granted) as sessions:
        _, made = await use(sessions, "create_todo", user=student, title="Read")
        assert made.ok
        log, refused = await use(sessions, "create_note", user=student, text="Read")
        assert refused.ok is False
        page = await sessions.store.real.trail(TrailQuery(ToolCallRecord, {"session_id": log.session_id or ""}))
        assert [record.state for record in page.records] == ["forbidden"]
