from collections.abc import Mapping

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow


class Newsroom(LeaderFlow):
    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(
            self.chat_model(),
            tools=self.delegation_tools(crew),
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return "You lead a newsroom. Let the researcher find facts, then the writer write; give it all facts."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def writer(model: BaseChatModel):
    return create_agent(model, tools=[], system_prompt="You write a short text from the facts that you are given.")
