"""A run that another instance goes on with has the permissions of the roles that are stored with the exchange."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from support.driven_run import ReadingModel
from support.held_agents import Hold
from support.recorded_agents import entry_of, eventually
from support.sessions import PATIENCE_S, USER, open_sessions
from support.turn_model import Turn, call

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.permissions import needs
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery

ROLES = PermissionsSettings(roles={"student": ("todos:*:self",), "teacher": ("*",)})


def agent(hold: Hold) -> CatalogAgent:
    """It adds a todo, which is held, then grades."""

    @needs("todos:write:self")
    @tool
    async def add_todo() -> str:
        """Add a todo."""
        await hold.wait()
        return "added"

    @needs("grades:write:all")
    @tool
    async def grade() -> str:
        """Grade."""
        return "graded"

    turns = [Turn(calls=[call("add_todo", "c1")]), Turn(calls=[call("grade", "c2")]), Turn("done")]
    return entry_of(create_agent(ReadingModel(turns=turns), [add_todo, grade]), "agent", auto_resume=True)


@pytest.mark.parametrize(("role", "state"), [("student", "forbidden"), ("teacher", "success")])
async def test_a_recovered_run_keeps_the_permissions_of_its_user(role: str, state: str, tmp_path: Path) -> None:
    user, held, free = replace(USER, roles=frozenset({role})), Hold(), Hold()
    free.released.set()
    async with open_sessions(tmp_path, {"agent": agent(held)}, permissions=ROLES) as dying:
        log = await dying.begin("go", user=user)
        await eventually(lambda: held.held and log.messages[-1].channel == "tool_call")
        async with open_sessions(tmp_path, {"agent": agent(free)}, permissions=ROLES) as other:
            query = TrailQuery(ToolCallRecord, {"session_id": log.session_id or ""})
            states: list[tuple[str, str]] = []
            async with asyncio.timeout(PATIENCE_S):
                while ("grade", state) not in states:
                    records = (await other.store.real.trail(query)).records
                    states = [(one.name, one.state) for one in reversed(records)]
                    await asyncio.sleep(0.02)
            # The first one was cut.
            assert states == [("add_todo", "error"), ("add_todo", "success"), ("grade", state)]
