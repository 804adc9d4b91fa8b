"""The assistant: a LangChain agent with the tools of this package. The catalog may tune its prompt."""

from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.experts.assistant.prompts import SYSTEM_PROMPT
from agentic_backend.experts.assistant.tools import TOOLS


class Assistant(AgentFlow):
    tool_names = tuple(tool.name for tool in TOOLS)

    async def async_init(self) -> None:
        self._graph = create_agent(
            self.chat_model(),
            # A standard tool of the same name replaces its own.
            tools=[*(tool for tool in TOOLS if tool.name not in self.settings.tools), *self.standard_tools()],
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", SYSTEM_PROMPT)

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
