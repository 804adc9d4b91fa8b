"""Tools that require approval: asked about whoever brings them, by whatever path; none runs unasked."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import AfterValidator, BaseModel
from support.decisions import decide, requests_in, waiting_for
from support.pausing_graph import PausingGraph
from support.recorded_agents import agent_factory, agent_services, context_of, entry_of, use
from support.turn_model import Turn, TurnModel, call

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.errors import AgentUnavailable, BadFrame


class Ran(list[tuple[str, Mapping[str, Any]]]):
    """What tools have run, with what."""

    def tool(self, name: str, schema: Any = None) -> BaseTool:
        async def run(**arguments: Any) -> str:
            self.append((name, arguments))
            return f"{name} is done"

        async def run_to(to: str, times: int = 1) -> str:
            return await run(to=to, times=times)

        if schema is None:
            return StructuredTool.from_function(coroutine=run_to, name=name, description=name)
        return StructuredTool.from_function(coroutine=run, name=name, description=name, args_schema=schema)


class Brought(AgentMiddleware[Any, Any, Any]):
    """Brings a tool of its own."""

    def __init__(self, tool: BaseTool) -> None:
        super().__init__()
        self.tools = [tool]


def agent(
    turns: Sequence[Turn], tools: Sequence[BaseTool], *, gated: bool = True, brought: BaseTool | None = None
) -> type[AgentFlow]:
    class Agent(AgentFlow):
        async def async_init(self) -> None:
            middleware = [*(self.approval_middleware() if gated else ()), *([Brought(brought)] if brought else ())]
            model = TurnModel(turns=list(turns))
            self._graph = create_agent(model, tools=list(tools), middleware=middleware, name=self.settings.id)

        def get_compiled_graph(self) -> CompiledGraph:
            return self._graph

    return Agent


async def built(entry: CatalogAgent) -> PausingGraph:
    flow = await use(agent_factory(), entry, "s1")
    return PausingGraph(flow.get_compiled_graph(), flow.runtime_context)


def asks_about(turn: Sequence[Any]) -> list[Turn]:
    return [Turn(calls=turn), Turn("all done")]


CALLS = [call("send", "c1", to="ann"), call("drop", "c2", to="bob"), call("look", "c3", to="eve")]


async def test_only_what_the_entry_names_is_asked_about_and_runs_once_it_is_approved() -> None:
    ran = Ran()
    tools = [ran.tool("send"), ran.tool("drop"), ran.tool("look")]
    graph = await built(entry_of(agent(asks_about(CALLS), tools), require_approval=["send", "dr*"]))
    waiting = await graph.ask()
    assert ran == [("look", {"to": "eve", "times": 1})]
    requests = requests_in(waiting_for(waiting))
    assert [(request.call_id, request.name, request.args) for request in requests] == [
        ("c1", "send", {"to": "ann"}),
        ("c2", "drop", {"to": "bob"}),
    ]
    assert {tuple(request.allowed) for request in requests} == {("approve", "reject", "edit")}
    assert await graph.settle(waiting, decide(waiting, "approve", ("reject", "Not bob."))) == []
    assert ran == [("look", {"to": "eve", "times": 1}), ("send", {"to": "ann", "times": 1})]
    sent, dropped, looked = await graph.results()
    assert (sent, looked) == ("send is done", "look is done")
    assert dropped == "User rejected the tool call for `drop` with reason: Not bob."
    assert (await graph.messages())[-1].text == "all done"


async def test_a_tool_runs_with_the_arguments_that_a_person_has_put_in() -> None:
    ran = Ran()
    graph = await built(entry_of(agent(asks_about(CALLS[:1]), [ran.tool("send")]), require_approval="all"))
    waiting = await graph.ask()
    with pytest.raises(BadFrame, match=r"payload\.decisions\.0\.args\.times: expected integer"):
        decide(waiting, ("edit", {"to": "zoe", "times": "secret"}))
    with pytest.raises(BadFrame, match=r"payload\.decisions\.0\.args: to is missing"):
        decide(waiting, ("edit", {"times": 2}))
    assert await graph.settle(waiting, decide(waiting, ("edit", {"to": "zoe", "times": 2}))) == []
    assert ran == [("send", {"to": "zoe", "times": 2})]


async def test_all_is_all_also_what_other_middleware_brings() -> None:
    ran = Ran()
    entry = entry_of(agent(asks_about(CALLS[:2]), [ran.tool("send")], brought=ran.tool("drop")), require_approval="all")
    assert len(await (await built(entry)).ask()) == 2
    assert ran == []


async def test_without_anything_to_ask_there_is_no_middleware() -> None:
    ran = Ran()
    flow = await use(agent_factory(), entry_of(agent(asks_about(CALLS[:1]), [ran.tool("send")])), "s1")
    assert flow.approval_middleware() == []
    assert set(flow.get_compiled_graph().nodes) == {"__start__", "model", "tools"}


def test_a_run_that_is_not_asynchronous_asks_too() -> None:
    ran: list[str] = []
    send = StructuredTool.from_function(lambda to: ran.append(to), name="send", description="send")
    entry = entry_of(agent([], []), require_approval="all")
    flow = entry.target(entry.settings, agent_services(), context_of("s1"))  # type: ignore[operator]
    graph = create_agent(TurnModel(turns=asks_about(CALLS[:1])), [send], middleware=flow.approval_middleware())
    assert "__interrupt__" in graph.invoke({"messages": [HumanMessage("go")]})
    assert ran == []


REFERRING = {
    "type": "object",
    "properties": {"to": {"$ref": "#/$defs/Person"}, "cc": {"type": "array", "items": {"$ref": "#/$defs/Person"}}},
    "required": ["to"],
    "$defs": {"Person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
CYCLIC = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/Tree"}},
    "$defs": {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}},
}


@pytest.mark.parametrize(
    "schema",
    [
        REFERRING,
        CYCLIC,
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Lost"}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
        {"type": "object", "properties": {"$ref": {"type": "string"}, "a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
        {},
    ],
    ids=["referring", "cyclic", "lost", "elsewhere", "named so", "both", "empty"],
)
async def test_a_tool_whose_schema_refers_to_itself_is_asked_about_and_can_be_edited(schema: dict[str, Any]) -> None:
    """As most tools of MCP servers written in Python do."""
    ran = Ran()
    turns = asks_about([call("send", "c1")])
    graph = await built(entry_of(agent(turns, [ran.tool("send", schema)]), require_approval=["send"]))
    waiting = await graph.ask()
    edited = {"to": {"name": "zoe"}, "cc": []}
    assert await graph.settle(waiting, decide(waiting, ("edit", edited))) == []
    assert ran == [("send", edited)]


async def test_a_referring_schema_is_checked_before_anything_is_stored() -> None:
    ran = Ran()
    turns = asks_about([call("send", "c1")])
    graph = await built(entry_of(agent(turns, [ran.tool("send", REFERRING)]), require_approval=["send"]))
    waiting = await graph.ask()
    with pytest.raises(BadFrame, match=r"payload\.decisions\.0\.args\.cc\.0\.name: expected string"):
        decide(waiting, ("edit", {"to": {"name": "zoe"}, "cc": [{"name": 7}]}))
    [request] = requests_in(waiting_for(waiting))
    assert request.response_schema is not None and set(request.response_schema["properties"]) == {"to", "cc"}


def even(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number


class Even(BaseModel):
    number: Annotated[int, AfterValidator(even)]


class NoJson(BaseModel):
    number: int
    call: Callable[[], None] | None = None


@pytest.mark.parametrize(("schema", "edited", "works"), [(Even, 4, True), (Even, 3, False), (NoJson, 3, True)])
async def test_what_no_json_schema_says_the_tool_checks_and_its_siblings_run_on(
    schema: Any, edited: int, works: bool
) -> None:
    ran = Ran()
    turns = asks_about([call("count", "c1", number=2), call("send", "c2", to="ann")])
    graph = await built(entry_of(agent(turns, [ran.tool("count", schema), ran.tool("send")]), require_approval="all"))
    waiting = await graph.ask()
    assert await graph.settle(waiting, decide(waiting, ("edit", {"number": edited}), "approve")) == []
    assert sorted(name for name, _ in ran) == (["count", "send"] if works else ["send"])
    assert ("odd" in (await graph.results())[0]) is not works
    assert (await graph.messages())[-1].text == "all done"


class Unasked(AgentFlow):
    """Runs its tools in a node of its own, whose name says nothing."""

    def get_compiled_graph(self) -> CompiledGraph:
        graph = StateGraph(MessagesState)
        graph.add_node("work", ToolNode([Ran().tool("send")]))
        graph.add_edge(START, "work")
        return graph.compile()


class Half(AgentFlow):
    """One of its two agents asks."""

    def get_compiled_graph(self) -> CompiledGraph:
        tools, turns = [Ran().tool("send")], [Turn("done")]
        graph = StateGraph(MessagesState)
        asking = create_agent(TurnModel(turns=turns), tools, middleware=self.approval_middleware())
        graph.add_node("asking", asking)
        graph.add_node("silent", create_agent(TurnModel(turns=turns), tools))
        graph.add_edge(START, "asking")
        graph.add_edge("asking", "silent")
        return graph.compile()


@pytest.mark.parametrize("target", [agent([], [Ran().tool("send")], gated=False), Unasked, Half])
async def test_an_agent_that_would_run_them_unasked_is_not_served(target: type[AgentFlow]) -> None:
    with pytest.raises(AgentUnavailable, match="requires approval of tools, but its graph does not ask for it"):
        await use(agent_factory(), entry_of(target, require_approval=["send"]), "s1")
    await use(agent_factory(), entry_of(target), "s1")


async def test_a_misspelt_tool_would_run_unasked_so_the_agent_is_not_served() -> None:
    entry = entry_of(agent([], [Ran().tool("send")]), require_approval=["sned"])
    with pytest.raises(AgentUnavailable, match="of the tool 'sned', which it does not have; did you mean 'send'"):
        await use(agent_factory(), entry, "s1")
    await use(agent_factory(), entry_of(agent([], [Ran().tool("send")]), require_approval=["s?ed", "x*"]), "s1")


def leader(calls: Sequence[Any]) -> type[LeaderFlow]:
    class Leader(LeaderFlow):
        async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
            model = TurnModel(turns=[Turn(calls=calls), Turn("led")])
            middleware = self.approval_middleware()
            self._graph = create_agent(model, self.delegation_tools(crew), middleware=middleware)

        def get_compiled_graph(self) -> CompiledGraph:
            return self._graph

    return Leader


def led(calls: Sequence[Any], crew: Sequence[CatalogAgent], **settings: Any) -> CatalogAgent:
    ids = [member.settings.id for member in crew]
    entry = entry_of(leader(calls), "chief", type="leader", crew=ids, **settings)
    return CatalogAgent(entry.settings, entry.target, crew)


def expert(ran: Ran, agent_id: str) -> CatalogAgent:
    """Looks, then looks and sends at once; its model counts its calls, as some do."""
    turns = [
        Turn(calls=[call("look", "1", to=agent_id)]),
        Turn(calls=[call("look", "2", to=agent_id), call("send", "3", to=agent_id)]),
        Turn(f"{agent_id} has sent"),
    ]
    return entry_of(agent(turns, [ran.tool("look"), ran.tool("send")]), agent_id, require_approval=["send"])


async def test_an_expert_that_waits_pauses_its_leader_and_goes_on_without_doing_anything_twice() -> None:
    ran = Ran()
    entry = led([call("ask_scout", "c1", question="Well?")], [expert(ran, "scout")])
    graph = await built(entry)
    waiting = await graph.ask()
    assert [name for name, _ in ran] == ["look", "look"]
    assert [request.name for request in requests_in(waiting_for(waiting))] == ["send"]
    assert await graph.settle(waiting, decide(waiting, "approve")) == []
    assert [name for name, _ in ran] == ["look", "look", "send"]
    assert await graph.results() == ["scout has sent"]
    assert (await graph.messages())[-1] == AIMessage(
        "led", id=(await graph.messages())[-1].id, response_metadata={"model_name": "turns"}
    )


async def test_experts_that_work_at_once_are_each_decided_on_for_themselves() -> None:
    ran = Ran()
    names = ["scout", "guide"]
    calls = [call(f"ask_{name}", f"c{name}", question="Well?") for name in names]
    graph = await built(led(calls, [expert(ran, name) for name in names]))
    waiting = await graph.ask()
    assert sorted((name, arguments["to"]) for name, arguments in ran) == sorted(
        [("look", name) for name in names for _ in range(2)]
    )
    requests = requests_in(waiting_for(waiting))
    assert len({request.call_id for request in requests}) == 2
    of_guide = [request.args == {"to": "guide"} for request in requests]
    actions = ["approve" if is_guide else ("reject", "No.") for is_guide in of_guide]
    assert await graph.settle(waiting, decide(waiting, *actions)) == []
    assert [arguments["to"] for name, arguments in ran if name == "send"] == ["guide"]
    assert len(ran) == 5
    assert await graph.results() == ["scout has sent", "guide has sent"]


async def test_a_leader_is_asked_about_the_questions_that_it_puts_and_its_expert_about_its_own_tools() -> None:
    ran = Ran()
    entry = led([call("ask_scout", "c1", question="Well?")], [expert(ran, "scout")], require_approval=["ask_*"])
    graph = await built(entry)
    first = await graph.ask()
    assert ran == []
    assert [request.name for request in requests_in(waiting_for(first))] == ["ask_scout"]
    second = await graph.settle(first, decide(first, "approve"))
    assert [name for name, _ in ran] == ["look", "look"]
    assert [request.name for request in requests_in(waiting_for(second))] == ["send"]
    assert await graph.settle(second, [*decide(first, "approve"), *decide(second, "approve")]) == []
    assert [name for name, _ in ran] == ["look", "look", "send"]


class Nodes(LeaderFlow):
    """A graph of an agent of its own and of its crew's."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        graph = StateGraph(MessagesState)
        tools, middleware = [Ran().tool("send")], self.approval_middleware()
        graph.add_node("own", create_agent(TurnModel(turns=[]), tools, middleware=middleware))
        for agent_id, member in crew.items():
            graph.add_node(agent_id, member.get_compiled_graph())
            graph.add_edge("own", agent_id)
        graph.add_edge(START, "own")
        self._graph = graph.compile()

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


async def test_the_tools_of_a_crew_are_its_own_entries_affair_also_where_its_graphs_are_nodes() -> None:
    member = entry_of(agent([], [Ran().tool("look")]), "scout")
    entry = entry_of(Nodes, "chief", type="leader", crew=["scout"], require_approval=["send"])
    await use(agent_factory(), CatalogAgent(entry.settings, entry.target, [member]), "s1")
    bare = entry_of(Nodes, "chief", type="leader", crew=["scout"], require_approval=["look"])
    with pytest.raises(AgentUnavailable, match="of the tool 'look', which it does not have"):
        await use(agent_factory(), CatalogAgent(bare.settings, bare.target, [member]), "s1")


@pytest.mark.parametrize("times", [math.nan, -math.inf, 2**63])
async def test_a_call_that_nobody_can_be_shown_is_refused_and_its_model_told_how_to_make_it(times: float) -> None:
    ran = Ran()
    calls = [call("send", "c1", to="ann", times=times), call("drop", "c2", to="bob")]
    tools = [ran.tool("send"), ran.tool("drop")]
    graph = await built(entry_of(agent(asks_about(calls), tools), require_approval=["send"]))
    assert await graph.ask() == []
    refused, dropped = await graph.results()
    assert "send has not run" in refused and "Send the number as a text" in refused
    assert dropped == "drop is done"
    assert ran == [("drop", {"to": "bob", "times": 1})]
