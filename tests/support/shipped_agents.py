"""The agents of the shipped catalog, and two leaders: one that recites, and one whose graph contains its crew."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from langchain_core.language_models import BaseChatModel
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.delegation import Handoff
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.experts.team.team_leader import TeamLeader
from support.phrase_model import PhraseModel

CATALOG = Path(__file__).parents[2] / "agents_catalog.yaml"

SHIPPED: list[dict[str, Any]] = yaml.safe_load(CATALOG.read_text())["agents"]

BESIDE_THE_ASSISTANT = [entry for entry in SHIPPED if entry["id"] != "assistant"]
"""The agents to add to a running server, which already has the assistant."""


class RecitingLeader(TeamLeader):
    """Its model refuses histories that a provider would refuse, and recites the conversation."""

    def chat_model(self) -> BaseChatModel:
        return PhraseModel()


RECITING: dict[str, Any] = {
    "id": "reciting",
    "type": "leader",
    "crew": ["sentinel", "documentation"],
    "class_path": "support.shipped_agents:RecitingLeader",
}


class GraphLeader(LeaderFlow):
    """Its graph has its crew as nodes: the mentioned agent answers."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        def route(state: MessagesState) -> str:
            asked = state["messages"][-1].text
            target = next(agent_id for agent_id in crew if agent_id in asked)
            get_stream_writer()(Handoff(self.settings.id, target))
            return target

        graph = StateGraph(MessagesState)
        for agent_id, expert in crew.items():
            graph.add_node(agent_id, expert.get_compiled_graph())
        graph.add_conditional_edges(START, route, list(crew))
        self._graph = graph.compile()

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


GRAPH_LEADER: dict[str, Any] = {
    "id": "router",
    "type": "leader",
    "crew": ["plain-chat", "documentation"],
    "class_path": "support.shipped_agents:GraphLeader",
}
