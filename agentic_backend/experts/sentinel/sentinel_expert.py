"""SentinelExpert: an operations expert. Its tools come from the MCP servers that its catalog entry names."""

from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.experts.sentinel.prompts import SYSTEM_PROMPT
from agentic_backend.mcp.mcp_runtime import MCPRuntime


class SentinelExpert(AgentFlow):
    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        self._graph = create_agent(
            self.chat_model(),
            tools=self.mcp.get_tools(),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
            name=self.settings.id,
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", SYSTEM_PROMPT)

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
