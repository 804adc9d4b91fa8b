"""PromptAssembly: builds the system prompts of a run, and the message that it answers. Pure.

A system prompt consists of sections. An agent whose graph has its own prompt gets none from here: nothing is added to
the input of its models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.stores.records import MessageRecord
from agentic_backend.streaming.content import to_langchain


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a system prompt. The section named `core` is the agent's own prompt."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PromptAssembly:
    """`agents` are the answering agent and, if it is a leader, its crew."""

    agents: Sequence[AgentFlow]
    opening: MessageRecord = field(repr=False)

    @property
    def system_prompts(self) -> Mapping[str, str]:
        """The run's system prompts by agent id; agents without one are left out."""
        sections = {agent.settings.id: _sections_of(agent) for agent in self.agents}
        return {agent_id: "\n\n".join(one.text for one in own) for agent_id, own in sections.items() if own}

    @property
    def question(self) -> BaseMessage:
        """The user's message; its id is the same in every run of the exchange and in the session's later ones."""
        return to_langchain(self.opening)


def _sections_of(agent: AgentFlow) -> list[Section]:
    core = agent.system_prompt()
    return [] if core is None else [Section("core", core)]
