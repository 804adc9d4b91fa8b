"""ConfiguredLeader: a leader that its catalog entry makes, with a tool for each agent of its crew."""

from collections.abc import Mapping

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.experts.configured.configured_agent import ConfiguredAgent


class ConfiguredLeader(ConfiguredAgent, LeaderFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        await self.build(self.delegation_tools(crew))
