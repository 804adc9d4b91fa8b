"""The sections of a system prompt: their order, their headings, where they come from, and how an agent gets them."""

from typing import Any

import pytest
from langchain.agents import create_agent
from support.recorded_agents import agent_services, context_of, echoing_graph, entry_of

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph, GraphFlow
from agentic_backend.policy.prompt.prompt_assembly import PromptAssembly, added_sections, tokens_by_section
from agentic_backend.policy.prompt.section import Section
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.stores.records import PromptAddition

TEXTS = [
    Section("guidance", "Use the metric system.", "organisation:school", "v3"),
    Section("constraints", "Never solve the task.", "assignment:essay", "v2"),
    Section("assignment", "An essay about bees.", "assignment:essay", "v1"),
    Section("constraints", "No politics.", "organisation:school", "v4"),
]
ADDITIONS = [PromptAddition(module="language_note", text="Answer in German."), PromptAddition(module="mute", text=" ")]
PROFILE = Section.of("profile", "Keep it short.", "profile:compact")


class Prompted(AgentFlow):
    """Has a prompt, and takes the run's."""

    prompt: str | None = "You tutor."

    async def async_init(self) -> None:
        self._graph = create_agent(self.chat_model(), tools=[], middleware=[self.prompt_middleware()])

    def system_prompt(self) -> str | None:
        return self.prompt

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Promptless(Prompted):
    prompt = None


class Elsewhere(Prompted):
    """Has a prompt, which its graph gets in another way."""

    async def async_init(self) -> None:
        self._graph = create_agent(self.chat_model(), tools=[], system_prompt=self.prompt)


async def flow(target: type[AgentFlow]) -> AgentFlow:
    made = target(entry_of(target, "tutor").settings, agent_services(), context_of(None))
    await made.async_init()
    return made


def graph_flow() -> GraphFlow:
    graph = echoing_graph()
    return GraphFlow(entry_of(graph, "tutor").settings, agent_services(), context_of(None), graph)


async def test_an_agent_with_nothing_but_its_own_prompt_keeps_it_word_for_word() -> None:
    assembly = PromptAssembly([await flow(Prompted)])
    assert assembly.system_prompts == {"tutor": "You tutor."} and assembly.prompt_messages == {}


async def test_the_sections_stand_under_their_headings_in_order() -> None:
    assembly = PromptAssembly([await flow(Prompted)], added_sections(TEXTS, ADDITIONS, [PROFILE]))
    assert assembly.system_prompts["tutor"] == (
        "## Core behaviour\n\nYou tutor.\n\n"
        "## Assignment context\n\nAn essay about bees.\n\n"
        "## Constraints\n\nNever solve the task.\n\nNo politics.\n\n"
        "## Additional guidance\n\nUse the metric system.\n\nAnswer in German.\n\n"
        "## Profile\n\nKeep it short."
    )


async def test_each_section_tells_its_source_and_its_version() -> None:
    counter = TokenCounts().of(None)
    sized = PromptAssembly([await flow(Prompted)], added_sections(TEXTS, ADDITIONS, [PROFILE])).sized(counter)["tutor"]
    assert [(one.name, one.source) for one in sized] == [
        ("core", "agent:tutor"),
        ("assignment", "assignment:essay"),
        ("constraints", "assignment:essay"),
        ("constraints", "organisation:school"),
        ("guidance", "organisation:school"),
        ("guidance", "module:language_note"),
        ("profile", "profile:compact"),
    ]
    assert [one.version for one in sized[1:5]] == ["v1", "v2", "v4", "v3"]
    assert all(one.tokens == counter.of_text(one.text) > 0 for one in sized)
    assert tokens_by_section(sized)["constraints"] == sized[2].tokens + sized[3].tokens


def test_a_version_changes_with_the_text_and_only_with_it() -> None:
    versions = [Section.of("core", text, source).version for text, source in [("a", "x"), ("a", "y"), ("b", "x")]]
    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize("target", [Promptless, Elsewhere, None])
async def test_an_agent_with_a_prompt_of_its_graph_gets_the_others_as_a_message(target: Any) -> None:
    agent = graph_flow() if target is None else await flow(target)
    assert PromptAssembly([agent]).prompts == []
    assembly = PromptAssembly([agent], added_sections([], ADDITIONS))
    assert assembly.system_prompts == {}
    assert assembly.prompt_messages == {"tutor": "## Additional guidance\n\nAnswer in German."}


async def test_the_crew_of_a_leader_is_told_nothing_of_the_conversation() -> None:
    summary = Section.of("summary", "They talked of bees.", "summary:1")
    leader, expert = PromptAssembly([await flow(Prompted), await flow(Prompted)], [PROFILE, summary]).prompts
    assert [one.name for one in leader.sections] == ["core", "profile", "summary"]
    assert leader.text.endswith("## Summary of the earlier conversation\n\nThey talked of bees.")
    assert [one.name for one in expert.sections] == ["core", "profile"]
