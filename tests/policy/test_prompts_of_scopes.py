"""What a scope adds to the system prompt reaches every kind of graph, once, first, and with each exchange anew."""

import json
import sqlite3
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from langgraph.warnings import LangGraphDeprecatedSinceV10
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_swarm
from pydantic import Field
from support.chat_client import check_exchange
from support.hostile_modules import entry, specs
from support.recorded_agents import entry_of
from support.sessions import USER, Sessions, events_of, open_sessions, until

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.config.topics.chat_profiles import ChatProfile, ChatProfiles
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.policy.scopes.policies_file import KnownNames, Policies, read_policies
from agentic_backend.protocol.frames import HumanDecisions
from agentic_backend.stores.protocol.trail import PromptRecord, TrailQuery

FILE = """
assignments:
  bees:
    prompts: {instructions: Write about bees., topics: [bees]}
  ants:
    prompts: {instructions: Write about ants.}
"""
ANTS = "## Assignment context\n\nWrite about ants."
OWN = "You are the author's."


class HearingModel(OfflineChatModel):
    """Says "Yes." and keeps what it is given at each call."""

    heard: list[list[BaseMessage]] = Field(default_factory=list)

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.heard.append(list(messages))
        yield ChatGenerationChunk(message=AIMessageChunk("Yes."))


def own_prompt(model: HearingModel) -> CompiledGraph:
    return create_agent(model, tools=[], system_prompt=OWN)


def plain(model: HearingModel) -> CompiledGraph:
    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


def replacing(model: HearingModel) -> CompiledGraph:
    """Its `messages` have no reducer: each run is given all of them."""

    class State(TypedDict):
        messages: list[BaseMessage]

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [*state["messages"], await model.ainvoke(state["messages"])]}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


def swarm(model: HearingModel) -> CompiledGraph:
    alice = create_agent(model, tools=[], name="alice", system_prompt=OWN)
    return create_swarm([alice], default_active_agent="alice").compile()


def supervisor(model: HearingModel) -> CompiledGraph:
    writer = create_agent(model, tools=[], name="writer")
    with warnings.catch_warnings():
        # The package still builds on LangGraph's former create_react_agent.
        warnings.simplefilter("ignore", LangGraphDeprecatedSinceV10)
        return create_supervisor([writer], model=model, prompt=OWN).compile()


GRAPHS = {
    "own_prompt": (own_prompt, [OWN]),
    "plain": (plain, []),
    "replacing": (replacing, []),
    "swarm": (swarm, [OWN]),
    "supervisor": (supervisor, [OWN]),
}


def policies(directory: Path) -> Policies:
    (directory / "policies.yaml").write_text(FILE)
    return read_policies(directory / "policies.yaml", KnownNames({"default"}, {"default"}, set()))


async def ask(sessions: Sessions, message: str, session_id: str | None = None, **fields: Any) -> str:
    events = await sessions.ask(message, session_id=session_id, **fields)
    check_exchange(events)
    assert events[-1]["status"] == "ok", events[-1]
    return str(events[0]["session_id"])


@pytest.mark.parametrize("cache_size", [1, 8])
@pytest.mark.parametrize("kind", GRAPHS)
async def test_a_graph_with_its_own_prompt_gets_it_as_a_message_in_front(
    tmp_path: Path, kind: str, cache_size: int
) -> None:
    model = HearingModel()
    build, own = GRAPHS[kind]
    scope: Mapping[str, str] = {"assignment": "ants"}
    async with open_sessions(
        tmp_path, {"own": build(model)}, policies=policies(tmp_path), cache_size=cache_size
    ) as sessions:
        session_id = await ask(sessions, "one", scope=scope)
        for message in ("two", "three"):
            await ask(sessions, "in another session")
            await ask(sessions, message, session_id)
        assert len(await sessions.stored(session_id)) == 6, "people do not see it"
    told = [(message.type, message.text) for message in model.heard[-1]]
    systems = [("system", text) for text in [*own, ANTS]]
    said = [one for asked in ("one", "two") for one in (("human", asked), ("ai", "Yes."))]
    assert told == [*systems, *said, ("human", "three")]
    other = [message.text for message in model.heard[1] if message.type == "system"]
    assert other == own, "nothing is added where nothing applies"


class Prompted(AgentFlow):
    async def async_init(self) -> None:
        self._graph = create_agent(self.chat_model(), tools=[], middleware=[self.prompt_middleware()])

    def system_prompt(self) -> str:
        return "You tutor."

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_an_agent_that_takes_the_runs_prompt_has_one_system_message(tmp_path: Path, mode: str) -> None:
    model = HearingModel()
    agents = {"tutor": entry_of(Prompted, "tutor", model="hearing")}
    async with open_sessions(tmp_path, agents, models={"hearing": model}, policies=policies(tmp_path)) as sessions:
        await ask(sessions, "Hi", scope={"assignment": "ants"}, mode=mode)
    assert [(one.type, one.text) for one in model.heard[-1]] == [
        ("system", f"## Core behaviour\n\nYou tutor.\n\n{ANTS}"),
        ("human", "Hi"),
    ]


async def test_each_section_is_kept_with_its_source_and_its_size(tmp_path: Path) -> None:
    agents = {"tutor": entry_of(Prompted, "tutor")}
    async with open_sessions(tmp_path, agents, policies=policies(tmp_path)) as sessions:
        events = await sessions.ask("Hi", scope={"assignment": "bees"})
        store, exchange_id = sessions.store.real, str(events[0]["exchange_id"])
        [record] = (await store.trail(TrailQuery(PromptRecord, {"exchange_id": exchange_id}))).records
    with closing(sqlite3.connect(tmp_path / "chat.sqlite3")) as db:
        [(kpi,)] = db.execute("SELECT record FROM kpi_records").fetchall()
    assert json.loads(kpi)["prompt_tokens"] == {one.name: one.tokens for one in record.sections}
    assert [(one.name, one.source, one.text) for one in record.sections][:2] == [
        ("core", "agent:tutor", "You tutor."),
        ("assignment", "assignment:bees", "Write about bees."),
    ]
    [constraint] = record.sections[2:]
    assert (constraint.name, constraint.source) == ("constraints", "assignment:bees") and "bees" in constraint.text
    assert all(one.version and one.tokens for one in record.sections)


@pytest.mark.parametrize("mode", ["chat", "query"])
async def test_modules_and_the_chat_profile_add_their_sections_behind_the_scopes(tmp_path: Path, mode: str) -> None:
    model = HearingModel()
    agents = {"tutor": entry_of(Prompted, "tutor", model="hearing"), "own": own_prompt(model)}
    profiles = ChatProfiles({"default": ChatProfile(instructions="Keep it short.")})
    modules = specs(tmp_path, entry("kind", settings={"before": "guide"}))
    added = f"{ANTS}\n\n## Additional guidance\n\nBe kind.\n\n## Profile\n\nKeep it short."
    async with open_sessions(
        tmp_path,
        agents,
        models={"hearing": model},
        policies=policies(tmp_path),
        profiles=profiles,
        modules=modules,
    ) as sessions:
        for agent_id in agents:
            await ask(sessions, "Hi", agent_id=agent_id, scope={"assignment": "ants"}, mode=mode)
        records = (await sessions.store.real.trail(TrailQuery(PromptRecord))).records
    assert [[one.text for one in heard if one.type == "system"] for heard in model.heard] == [
        [f"## Core behaviour\n\nYou tutor.\n\n{added}"],
        [OWN, added],
    ]
    sources = ["assignment:ants", "module:kind", "profile:default"]
    expected = [sources, ["agent:tutor", *sources]] if mode == "chat" else []
    assert [[one.source for one in record.sections] for record in records] == expected


class Leader(LeaderFlow):
    """Asks its only expert."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        self._graph = create_agent(OfflineChatModel(words_per_second=0), tools=self.delegation_tools(crew))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


@pytest.mark.parametrize("is_prompted", [False, True])
async def test_the_expert_of_a_leader_gets_it_too(tmp_path: Path, is_prompted: bool) -> None:
    model = HearingModel()
    expert = entry_of(Prompted if is_prompted else own_prompt(model), "expert", model="hearing")
    leader = replace(entry_of(Leader, "leader", type="leader", crew=["expert"]), crew=[expert])
    async with open_sessions(
        tmp_path, {"leader": leader}, models={"hearing": model}, policies=policies(tmp_path)
    ) as sessions:
        await ask(sessions, 'call ask_expert(question="Well?")', scope={"assignment": "ants"})
    own = [f"## Core behaviour\n\nYou tutor.\n\n{ANTS}"] if is_prompted else [OWN, ANTS]
    assert [message.text for message in model.heard[-1]] == [*own, "Well?"]


async def test_a_run_that_goes_on_after_a_pause_has_it_once(tmp_path: Path) -> None:
    model = HearingModel()

    async def answer(state: MessagesState) -> dict[str, Any]:
        interrupt("Which one?")
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    async with open_sessions(tmp_path, {"asking": graph.compile()}, policies=policies(tmp_path)) as sessions:
        log = await sessions.begin("Hi", scope={"assignment": "ants"})
        [request] = (await until(log, "awaiting_human"))["payload"]["requests"]
        payload = HumanDecisions(answers={request["interrupt_id"]: "this one"})
        await sessions.orchestrator.human_resume(USER, log.session_id, log.exchange_id, payload, None)
        assert (await events_of(log))[-1]["status"] == "ok"
        query = TrailQuery(PromptRecord, {"exchange_id": log.exchange_id})
        assert len((await sessions.store.real.trail(query)).records) == 1
    assert [message.text for message in model.heard[-1]] == [ANTS, "Hi"]
