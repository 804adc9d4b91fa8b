"""Every agent that ships asks before its tools run, where its catalog entry requires approval."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.shipped_agents import SHIPPED

from agentic_backend.experts.sentinel.operations import OPERATIONS, operations_settings
from agentic_backend.testing import Reject, User, open_agent

ADMIN = User("ann", "Ann", roles=frozenset(["admin"]))
HEALTHY = "Is the server healthy?"
SEARCH = "Search the documents for close codes"


@pytest.mark.parametrize(
    ("agent_id", "required", "question", "tool"),
    [
        ("assistant", {"assistant": ["calc*"]}, "What is 12*34?", "calculate"),
        ("documentation", {"documentation": ["search_documents"]}, SEARCH, "search_documents"),
        ("sentinel", {"sentinel": "all"}, HEALTHY, "server_health"),
        ("team", {"team": ["ask_sentinel"]}, HEALTHY, "ask_sentinel"),
        ("team", {"documentation": "all"}, SEARCH, "search_documents"),
    ],
)
async def test_it_asks_and_goes_on(
    tmp_path: Path, agent_id: str, required: dict[str, Any], question: str, tool: str
) -> None:
    path = tmp_path / "agents.yaml"
    entries = [{**entry, "tools": [], "require_approval": required.get(entry["id"], [])} for entry in SHIPPED]
    path.write_text(yaml.safe_dump({"agents": entries}))
    settings = {"mcp_servers": {OPERATIONS: operations_settings(None).model_dump(exclude_defaults=True)}}
    async with open_agent(agent_id, catalog=path, settings=settings, answer=Reject("Not now.")) as agent:
        assert agent.app.services.agents.problems == []
        run = await agent.ask(question, user=ADMIN)
    assert [request.name for request in run.requests] == [tool]
    assert run.status == "ok"
    [result] = [use.result for use in run.tool_uses if use.name == tool]
    assert result is not None and "Not now." in result
