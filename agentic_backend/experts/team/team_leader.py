"""TeamLeader: hands questions to its crew through one tool per agent, several at a time if that helps."""

from collections.abc import Mapping

from langchain.agents import create_agent

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.experts.team.prompts import SYSTEM_PROMPT


class TeamLeader(LeaderFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(
            self.chat_model(),
            tools=self.delegation_tools(crew),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", SYSTEM_PROMPT)

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph
