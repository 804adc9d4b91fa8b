"""What a model is given: the run's system prompt as one message, then the history; with an agent cold and warm."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.types import interrupt
from pydantic import Field
from support.chat_client import check_exchange
from support.recorded_agents import agent_services, context_of, entry_of, one_node
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.experts.assistant.assistant import Assistant
from agentic_backend.experts.assistant.prompts import SYSTEM_PROMPT
from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.protocol.frames import HumanDecisions

Heard = list[tuple[str, str]]
"""The messages of one call of a model: their types and texts."""


class HearingModel(OfflineChatModel):
    """Says "Yes." and keeps what it is given at each call."""

    heard: list[Heard] = Field(default_factory=list)

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.heard.append([(message.type, message.text) for message in messages])
        yield ChatGenerationChunk(message=AIMessageChunk("Yes."))

    @property
    def systems(self) -> list[list[str]]:
        """The system messages of each call."""
        return [[text for kind, text in heard if kind == "system"] for heard in self.heard]


class Prompted(AgentFlow):
    """Says in its prompt in which exchange it is."""

    async def async_init(self) -> None:
        self.asked = 0
        self._graph = create_agent(self.chat_model(), tools=[], middleware=[self.prompt_middleware()])

    def system_prompt(self) -> str:
        self.asked += 1
        return f"You are {self.settings.id}, asked {self.asked} times."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Leader(LeaderFlow):
    """Asks its only expert, and has a prompt of its own."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(
            OfflineChatModel(words_per_second=0),
            tools=self.delegation_tools(crew),
            middleware=[self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return "You lead."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def hearing(target: object, agent_id: str, **settings: Any) -> CatalogAgent:
    """An entry with the model `hearing`; the default one names sessions too."""
    return entry_of(target, agent_id, model="hearing", **settings)


async def ask(sessions: Sessions, message: str, session_id: str | None = None, **fields: Any) -> str:
    events = await sessions.ask(message, session_id=session_id, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "ok"
    return str(events[0]["session_id"])


async def test_the_prompt_of_a_warm_agent_is_decided_at_each_run(tmp_path: Path) -> None:
    model = HearingModel()
    async with open_sessions(tmp_path, {"one": hearing(Prompted, "one")}, models={"hearing": model}) as sessions:
        session_id = await ask(sessions, "Hi")
        await ask(sessions, "And now?", session_id)
    assert model.heard == [
        [("system", "You are one, asked 1 times."), ("human", "Hi")],
        [
            ("system", "You are one, asked 2 times."),
            ("human", "Hi"),
            ("ai", "Yes."),
            ("human", "And now?"),
        ],
    ]


async def test_a_cold_agent_gets_what_a_warm_one_gets(tmp_path: Path) -> None:
    model = HearingModel()
    async with open_sessions(
        tmp_path, {"one": hearing(Prompted, "one")}, models={"hearing": model}, cache_size=1
    ) as sessions:
        session_id = await ask(sessions, "Hi")
        await ask(sessions, "in another session")
        await ask(sessions, "And now?", session_id)
    prompt = ("system", "You are one, asked 1 times.")
    assert model.heard[-1] == [prompt, ("human", "Hi"), ("ai", "Yes."), ("human", "And now?")]


async def test_a_query_has_its_prompt_too(tmp_path: Path) -> None:
    model = HearingModel()
    async with open_sessions(tmp_path, {"one": hearing(Prompted, "one")}, models={"hearing": model}) as sessions:
        await sessions.ask("Hi", mode="query")
    assert model.systems == [["You are one, asked 1 times."]]


async def test_a_shipped_expert_has_its_own_prompt_or_the_one_that_its_entry_names(tmp_path: Path) -> None:
    model = HearingModel()
    tuned = hearing(Assistant, "tuned", tuning={"fields": {"system_prompt": "You are tuned."}})
    agents = {"plain": hearing(Assistant, "plain"), "tuned": tuned}
    async with open_sessions(tmp_path, agents, models={"hearing": model}) as sessions:
        await ask(sessions, "Hi", agent_id="plain")
        await ask(sessions, "Hi", agent_id="tuned")
    assert model.systems == [[SYSTEM_PROMPT], ["You are tuned."]]


@pytest.mark.parametrize("prompt", [None, "You are the author's."])
async def test_an_authors_own_graph_gets_nothing_but_what_it_has(tmp_path: Path, prompt: str | None) -> None:
    model = HearingModel()
    graph = build(model) if prompt is None else create_agent(model, tools=[], system_prompt=prompt)
    async with open_sessions(tmp_path, {"own": graph}) as sessions:
        session_id = await ask(sessions, "Hi")
        await ask(sessions, "And now?", session_id)
    assert model.systems == [[] if prompt is None else [prompt]] * 2


async def test_a_leader_and_its_expert_each_have_their_own(tmp_path: Path) -> None:
    expert = HearingModel()
    crew = [hearing(Prompted, "expert")]
    leader = replace(entry_of(Leader, "leader", type="leader", crew=["expert"]), crew=crew)
    async with open_sessions(tmp_path, {"leader": leader}, models={"hearing": expert}) as sessions:
        await ask(sessions, 'call ask_expert(question="Well?")')
    assert expert.heard == [[("system", "You are expert, asked 1 times."), ("human", "Well?")]]


async def test_a_run_that_goes_on_after_a_pause_has_its_prompt(tmp_path: Path) -> None:
    model = HearingModel()

    class Asking(Prompted):
        async def async_init(self) -> None:
            await super().async_init()
            agent = self._graph

            async def answer(state: Any) -> dict[str, Any]:
                interrupt("Which one?")
                return {"messages": [(await agent.ainvoke(state, context=self.runtime_context))["messages"][-1]]}

            self._graph = one_node(answer)

    async with open_sessions(tmp_path, {"asking": hearing(Asking, "asking")}, models={"hearing": model}) as sessions:
        log = await sessions.begin("Hi")
        waiting = await until(log, "awaiting_human")
        [request] = waiting["payload"]["requests"]
        payload = HumanDecisions(answers={request["interrupt_id"]: "this one"})
        await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)
        assert (await events_of(log))[-1]["status"] == "ok"
    assert model.systems == [["You are asking, asked 2 times."]]


async def test_without_a_context_of_the_server_the_prompt_is_the_agents_own() -> None:
    model = HearingModel()
    agent = Prompted(entry_of(Prompted, "one").settings, agent_services(default=model), context_of(None))
    await agent.async_init()
    await agent.get_compiled_graph().ainvoke({"messages": [("human", "Hi")]})
    assert model.systems == [["You are one, asked 1 times."]]
