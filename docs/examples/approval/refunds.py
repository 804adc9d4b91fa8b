from langchain.agents import create_agent
from langchain_core.tools import tool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph


@tool
async def find_order(order: int) -> str:
    """Find an order by its number."""
    return f"Order {order}: a lamp, 40 francs."


@tool
async def refund(order: int, francs: int) -> str:
    """Pay money back for an order."""
    return f"Paid back {francs} francs for order {order}."


class Refunds(AgentFlow):
    tool_names = ("find_order", "refund")

    async def async_init(self) -> None:
        self._graph = create_agent(
            self.chat_model(),
            tools=[find_order, refund],
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return "You find orders and refund them."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
