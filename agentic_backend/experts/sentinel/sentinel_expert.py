"""SentinelExpert: an operations expert. Its tools are those of the MCP servers that its catalog entry names."""

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
            system_prompt=self.tuned("system_prompt", SYSTEM_PROMPT),
            middleware=self.approval_middleware(),
            name=self.settings.id,
        )

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
