"""New agent: leads a crew, which its catalog entry names, through one tool for each of its agents."""

from collections.abc import Mapping

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from langchain.agents import create_agent

PROMPT = """\
You lead a team of experts. Your tools put questions to them.
Hand each question to whoever can answer it, in full: they know nothing of this talk.
Answer briefly, from what they say.
"""


class NewAgent(LeaderFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(
            self.chat_model(),
            tools=self.delegation_tools(crew),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", PROMPT)

    def get_compiled_graph(self):
        return self._graph
