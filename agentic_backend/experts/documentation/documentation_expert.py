"""DocumentationExpert: answers from the Markdown folder that its catalog entry names, and cites its sources."""

import asyncio
from pathlib import Path

from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.errors import AgentUnavailable
from agentic_backend.experts.documentation.document_index import SHIPPED, SHIPPED_LINKS
from agentic_backend.experts.documentation.numbers import Numbers
from agentic_backend.experts.documentation.prompts import SYSTEM_PROMPT
from agentic_backend.experts.documentation.search_tool import search_tool


class DocumentationExpert(AgentFlow):
    """Tuning: `folder`, relative to the working directory; `links`, the address of a document, with `{file}` for its
    path; `about`, the topic of its documents; `system_prompt`.
    """

    tool_names = ("search_documents",)

    async def async_init(self) -> None:
        folder = Path(self.tuned("folder", str(SHIPPED)))
        links = self.tuned("links", SHIPPED_LINKS if folder == SHIPPED else "")
        about = self.tuned("about", "this server")
        if not await asyncio.to_thread(folder.is_dir):
            raise AgentUnavailable(f"The agent '{self.settings.id}' has no folder of documents.")
        self._graph = create_agent(
            self.chat_model(),
            tools=[search_tool(folder, about, links, lambda: self.runtime_context.exchange_id, Numbers())],
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
            name=self.settings.id,
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", SYSTEM_PROMPT)

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
