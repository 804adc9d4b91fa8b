"""LeaderFlow: an agent that leads others, its crew. An author overrides `async_init` and `get_compiled_graph`.

The AgentFactory builds the crew's agents for this leader alone, before it, and closes them after it; they have the
leader's runtime context. How the leader hands work over is its graph's affair; `delegation_tools` is the plain way.
"""

from collections.abc import Mapping
from types import MappingProxyType

from langchain_core.tools import BaseTool

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.delegation import delegation_tool

NO_CREW: Mapping[str, AgentFlow] = MappingProxyType({})


class LeaderFlow(AgentFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        """Build the graph. `crew`: its agents by id, in the order of the catalog, initialised already.

        It is always given; the default is for type checkers, since a leader is an AgentFlow too.
        """

    def delegation_tools(self, crew: Mapping[str, AgentFlow]) -> list[BaseTool]:
        """A tool for each agent of the crew, which puts a question to it and gives its answer."""
        return [delegation_tool(self.settings.id, expert) for expert in crew.values()]
