"""The ids of scripted calls: apart for each model of a test, and the same whichever tests ran before."""

from pathlib import Path

import pytest
import yaml
from langchain.agents import create_agent
from langchain_core.tools import tool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.testing import Call, ScriptedModel, ToolUse, call, open_agent


@tool
def depth(lake: str) -> str:
    """How deep a lake is."""
    return f"{lake}: 217 m"


class Scout(AgentFlow):
    tool_names = ("depth",)

    async def async_init(self) -> None:
        self.graph = create_agent(self.chat_model(), tools=[depth], middleware=self.approval_middleware())

    def get_compiled_graph(self) -> CompiledGraph:
        return self.graph


@pytest.fixture
def crew(tmp_path: Path) -> Path:
    team = "agentic_backend.experts.team.team_leader:TeamLeader"
    agents = [
        {"id": "scout", "model": "small", "class_path": f"{__name__}:Scout"},
        {"id": "chief", "type": "leader", "class_path": team, "crew": ["scout"]},
    ]
    file = tmp_path / "agents_catalog.yaml"
    file.write_text(yaml.safe_dump({"agents": agents}))
    return file


async def test_a_leader_and_its_expert_keep_their_calls_apart(crew: Path) -> None:
    leads = ScriptedModel(call("ask_scout", question="How deep?"), "217 m, says the scout.")
    knows = ScriptedModel(call("depth", lake="Thun"), "It is 217 m deep.")
    async with open_agent("chief", catalog=crew, model=leads, models={"small": knows}) as agent:
        run = await agent.ask("How deep is it?")
        records = (await agent.app.store.trail(TrailQuery(ToolCallRecord))).records
    assert run.tool_uses == [
        ToolUse("ask_scout", {"question": "How deep?"}, "It is 217 m deep.", True),
        ToolUse("depth", {"lake": "Thun"}, "Thun: 217 m", True),
    ]
    kept = {record.name: (record.call_id, record.state, record.result) for record in records}
    assert kept == {
        "ask_scout": ("call-1-1-1", "success", "It is 217 m deep."),
        "depth": ("call-2-1-1", "success", "Thun: 217 m"),
    }


@pytest.mark.parametrize("earlier", [0, 3])
async def test_ids_are_the_same_whichever_models_were_asked_before(earlier: int) -> None:
    models = [ScriptedModel([call("depth"), Call("depth", id="mine")]) for _ in range(earlier + 1)]
    ids = [[one["id"] for one in (await model.ainvoke("go")).tool_calls] for model in models]
    assert ids == [[f"call-{number}-1-1", "mine"] for number in range(1, earlier + 2)]
