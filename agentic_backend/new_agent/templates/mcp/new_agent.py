"""New agent: its tools come from the MCP servers that its catalog entry names."""

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.mcp.mcp_runtime import MCPRuntime
from langchain.agents import create_agent

PROMPT = "You tell people where their parcels are. Ask your tools, and answer briefly."


class NewAgent(AgentFlow):
    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        self._graph = create_agent(
            self.chat_model(),
            tools=self.mcp.get_tools(),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", PROMPT)

    def get_compiled_graph(self):
        return self._graph
