"""ConfiguredAgent: an agent that its catalog entry makes: model, prompt, tools, APIs, middleware, output."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import BaseTool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.catalog.named_middleware import Middleware, made, middleware_at
from agentic_backend.agents.catalog.tools_of_middleware import UndecidableTool, with_final_names
from agentic_backend.apis.api_runtime import ApiRuntime
from agentic_backend.errors import AgentUnavailable
from agentic_backend.experts.configured.required_output import RequiredOutput
from agentic_backend.experts.configured.tool_errors import ToolErrors
from agentic_backend.inlined_schema import usable_schema

_OUTPUT = "answer"
"""What a model calls the output, if its schema has no title."""


class ConfiguredAgent(AgentFlow):
    is_configured = True

    async def async_init(self) -> None:
        await self.build([])

    async def build(self, more_tools: Sequence[BaseTool]) -> None:
        """Build the graph with the tools of the entry and `more_tools`."""
        # Closed by `aclose`.
        self.apis = ApiRuntime(self, self.settings.apis)
        tools = [*self.standard_tools(), *more_tools]
        tools += await self.apis.init([tool.name for tool in tools])
        tools += await self._mcp_tools()
        self._require_distinct(tools)
        output = self._output()
        middleware = [ToolErrors(), *self.approval_middleware(), self.prompt_middleware()]
        middleware += [*self.application_middleware(), *self._middleware(tools)]
        self._graph = create_agent(
            self.chat_model(),
            tools=tools,
            middleware=middleware if output is None else [RequiredOutput(output["title"]), *middleware],
            response_format=output,
            name=self.settings.id,
        )

    def system_prompt(self) -> str | None:
        return self.settings.prompt.text if self.settings.prompt is not None else None

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph

    async def aclose(self) -> None:
        await super().aclose()
        if hasattr(self, "apis"):
            await self.apis.aclose()

    async def _mcp_tools(self) -> list[BaseTool]:
        if not self.tuning.mcp_servers:
            return []
        # Importing MCP takes a quarter of a second.
        from agentic_backend.mcp.mcp_runtime import MCPRuntime

        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        return self.mcp.get_tools()

    def _require_distinct(self, tools: Sequence[BaseTool]) -> None:
        twice = [name for name, count in Counter(tool.name for tool in tools).items() if count > 1]
        if twice:
            names = ", ".join(twice)
            raise AgentUnavailable(f"The agent '{self.settings.id}' has more than one tool called {names}.")

    def _middleware(self, tools: Sequence[BaseTool]) -> list[Middleware]:
        named = [(middleware_at(use.name), use.args) for use in self.settings.middleware]
        try:
            return [
                made(target, with_final_names(target, args, tools), self.services.models.get) for target, args in named
            ]
        except UndecidableTool as error:
            raise AgentUnavailable(f"The agent '{self.settings.id}' {error}") from None

    def _output(self) -> dict[str, Any] | None:
        output = self.settings.output
        return None if output is None else {"title": _OUTPUT, **usable_schema(output)}
