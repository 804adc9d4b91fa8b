"""Agents that go on from a tool's result, after a pause or after a crash."""

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from support.held_agents import Hold
from support.recorded_agents import entry_of


class Steps(list[int | None]):
    """The limits with which agents were built."""

    def agent(self, hold: Hold, *, asks: bool = False, auto_resume: bool = False) -> CatalogAgent:
        built = self

        async def first(state: MessagesState) -> dict[str, Any]:
            # A tool's call and its result are where a crashed exchange can go on.
            calling = AIMessage("first", tool_calls=[{"id": "c1", "name": "look", "args": {}}])
            return {"messages": [calling, ToolMessage("seen", tool_call_id="c1")]}

        async def second(state: MessagesState) -> dict[str, Any]:
            answer = interrupt({"question": "Which one?"}) if asks else await hold.wait()
            return {"messages": [AIMessage(f"second {answer}")]}

        graph = StateGraph(MessagesState).add_node("first", first).add_node("second", second)
        graph.add_edge(START, "first").add_edge("first", "second")

        class Recorded(AgentFlow):
            async def async_init(self) -> None:
                built.append(self.settings.limits.steps)

            def get_compiled_graph(self) -> CompiledGraph:
                return graph.compile()

        return entry_of(Recorded, "agent", auto_resume=auto_resume)
