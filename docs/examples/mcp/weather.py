from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.mcp.mcp_runtime import MCPRuntime


class Weather(AgentFlow):
    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        self._graph = create_agent(
            self.chat_model(),
            tools=self.mcp.get_tools(),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return "You tell the weather. Ask your tools."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
