"""Every agent that ships asks before its tools run, where its catalog entry requires approval."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.decisions import decide, requests_in, waiting_for
from support.pausing_graph import PausingGraph
from support.recorded_agents import agent_factory, agent_services, context_of
from support.shipped_agents import SHIPPED

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.experts.sentinel.operations import OPERATIONS, operations_settings

HEALTHY = "Is the server healthy?"
SEARCH = "Search the documents for close codes"
# On a busy machine the server of the sentinel's tools, a process of its own, takes its time to start.
BUILD_TIMEOUT_S = 50


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
    manager = AgentManager.load(path, ["default"], [OPERATIONS])
    assert manager.problems == []
    services = replace(agent_services(), mcp_servers={OPERATIONS: operations_settings(None)})
    factory = agent_factory(services=services, build_timeout_s=BUILD_TIMEOUT_S)
    async with factory.lease(manager.entry(agent_id), context_of("s1")) as warm:
        graph = PausingGraph(warm.flow.get_compiled_graph(), warm.flow.runtime_context)
        waiting = await graph.ask(question)
        assert [request.name for request in requests_in(waiting_for(waiting))] == [tool]
        assert await graph.settle(waiting, decide(waiting, ("reject", "Not now."))) == []
        [result] = await graph.results()
        assert "Not now." in result
    await factory.aclose()
