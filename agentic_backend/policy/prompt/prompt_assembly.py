"""PromptAssembly: the system prompts of a run, made of sections that say where they come from. Pure.

An agent that has only its own prompt gets that, word for word. Otherwise each section stands under its heading, in the
order of SECTIONS. An agent whose graph has its own prompt gets the other sections as a system message in front of its
messages (see left_messages).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.policy.prompt.section import Section
from agentic_backend.policy.prompt.token_counts import TokenCounter
from agentic_backend.stores.protocol.trail import PromptSection
from agentic_backend.stores.records import PromptAddition
from agentic_backend.streaming.content.conversion import bounded

SECTIONS = {
    "core": "Core behaviour",
    "assignment": "Assignment context",
    "constraints": "Constraints",
    "guidance": "Additional guidance",
    "profile": "Profile",
    "summary": "Summary of the earlier conversation",
}
"""The headings of the sections, by name, in the order of the prompt."""

_ORDER = list(SECTIONS)


@dataclass(frozen=True, slots=True)
class AssembledPrompt:
    """The system prompt of one agent, with at least one section."""

    agent_id: str
    sections: Sequence[Section]
    is_message: bool
    """Whether the graph gets it as a message, because it does not take it with `prompt_middleware`."""

    @property
    def text(self) -> str:
        if [one.name for one in self.sections] == ["core"]:
            return self.sections[0].text
        return "\n\n".join(
            f"## {SECTIONS[name]}\n\n" + "\n\n".join(one.text for one in own)
            for name, own in groupby(self.sections, lambda one: one.name)
        )

    def sized(self, counter: TokenCounter) -> list[PromptSection]:
        """The sections with their tokens."""
        return [
            PromptSection(
                name=one.name,
                source=one.source,
                version=one.version,
                # A record is one document of the store.
                text=bounded(one.text),
                tokens=counter.of_text(one.text),
            )
            for one in self.sections
        ]


class PromptAssembly:
    """`prompts` are those of the answering agent and, if it is a leader, of its crew."""

    def __init__(self, agents: Sequence[AgentFlow], added: Sequence[Section] = ()) -> None:
        """`added` are the sections beside the agents' own. Calls `system_prompt()` of each agent once."""
        # A leader's crew knows nothing of the conversation.
        for_experts = [section for section in added if section.name != "summary"]
        self.prompts = [
            AssembledPrompt(agent.settings.id, sections, is_message)
            for agent in agents
            for sections, is_message in [_sections_of(agent, added if agent is agents[0] else for_experts)]
            if sections
        ]

    @property
    def system_prompts(self) -> Mapping[str, str]:
        """What `prompt_middleware` passes to the models, by agent id."""
        return {prompt.agent_id: prompt.text for prompt in self.prompts if not prompt.is_message}

    @property
    def prompt_messages(self) -> Mapping[str, str]:
        """What stands in front of the messages of graphs with their own prompt, by agent id."""
        return {prompt.agent_id: prompt.text for prompt in self.prompts if prompt.is_message}

    def text_of(self, agent_id: str) -> str:
        """All that the server adds to what the agent's graph has itself."""
        return next((prompt.text for prompt in self.prompts if prompt.agent_id == agent_id), "")

    def sized(self, counter: TokenCounter) -> Mapping[str, list[PromptSection]]:
        """The sections with their tokens, by agent id."""
        return {prompt.agent_id: prompt.sized(counter) for prompt in self.prompts}


def added_sections(
    texts: Sequence[Section], additions: Sequence[PromptAddition], profile: Sequence[Section] = ()
) -> list[Section]:
    """The sections beside an agent's own prompt, in their order: of scopes, of modules, of the chat profile."""
    sections = list(texts)
    sections += [Section.of("guidance", one.text, f"module:{one.module}") for one in additions]
    sections += profile
    return sorted((one for one in sections if one.text.strip()), key=lambda one: _ORDER.index(one.name))


def tokens_by_section(sections: Iterable[PromptSection]) -> dict[str, int]:
    """The tokens of a prompt by the name of the section, for the KPIs."""
    sizes: dict[str, int] = {}
    for section in sections:
        sizes[section.name] = sizes.get(section.name, 0) + section.tokens
    return sizes


def _sections_of(agent: AgentFlow, added: Sequence[Section]) -> tuple[list[Section], bool]:
    """The agent's sections, and whether it gets them as a message."""
    core = agent.system_prompt()
    if core is None or not agent.takes_run_prompt:
        return list(added), True
    return [Section.of("core", core, f"agent:{agent.settings.id}"), *added], False
