"""DocumentationExpert: answers from a folder of Markdown, which its catalog entry names, and gives its sources."""

import asyncio
from pathlib import Path

from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.errors import AgentUnavailable
from agentic_backend.experts.documentation.document_index import SHIPPED
from agentic_backend.experts.documentation.prompts import SYSTEM_PROMPT
from agentic_backend.experts.documentation.search_tool import search_tool


class DocumentationExpert(AgentFlow):
    """Tuning: `folder`, which is relative to the working directory; `about`, what stands there; `system_prompt`."""

    tool_names = ("search_documents",)

    async def async_init(self) -> None:
        folder = Path(self.tuned("folder", str(SHIPPED)))
        if not await asyncio.to_thread(folder.is_dir):
            raise AgentUnavailable(f"The agent '{self.settings.id}' has no folder of documents.")
        self._graph = create_agent(
            self.chat_model(),
            tools=[search_tool(folder, self.tuned("about", "this server"))],
            system_prompt=self.tuned("system_prompt", SYSTEM_PROMPT),
            middleware=self.approval_middleware(),
            name=self.settings.id,
        )

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
