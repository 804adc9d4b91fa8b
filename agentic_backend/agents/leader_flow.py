"""LeaderFlow: an agent that leads others, its crew. An author overrides `async_init` and `get_compiled_graph`.

The AgentFactory builds the crew for this leader only: before the leader, and closes it afterwards. Crew and leader
share the runtime context. The leader's graph decides how to hand work over; `delegation_tools` is the simple way.
"""

from collections.abc import Mapping
from types import MappingProxyType

from langchain_core.tools import BaseTool

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.delegation import delegation_tool

NO_CREW: Mapping[str, AgentFlow] = MappingProxyType({})


class LeaderFlow(AgentFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        """Build the graph. `crew` holds the initialised agents by id, in the order of the entry.

        It is always passed; the default is for type checkers, because a leader is an AgentFlow too.
        """

    def delegation_tools(self, crew: Mapping[str, AgentFlow]) -> list[BaseTool]:
        """A tool for each agent of the crew, which asks it a question and returns its answer."""
        return [delegation_tool(self.settings.id, expert) for expert in crew.values()]
