"""Permissions: whose graph it is, a tool that the user may not use isn't offered, and its call is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph_swarm import create_handoff_tool, create_swarm
from support.recorded_agents import context_of, entry_of
from support.sessions import USER, Sessions, open_sessions, until

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.agents.models.prepared_calls import with_prepared_calls
from agentic_backend.agents.permissions import Permissions, needs
from agentic_backend.agents.runtime_context import make_current
from agentic_backend.agents.tools.offered_tools import AllowedTools
from agentic_backend.agents.tools.tool_guard import guard_tools
from agentic_backend.auth.user import User
from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.permissions import PermissionsSettings
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.stores.protocol.trail import ToolCallRecord, TrailQuery
from agentic_backend.testing import Call, ScriptedModel, call

STUDENT = replace(USER, roles=frozenset({"student"}))
TEACHER = User(id="tess", name="Tess", roles=frozenset({"teacher"}))
ROLES = PermissionsSettings(roles={"*": ("notes:read:self",), "student": ("todos:*:self",), "teacher": ("*",)})

Graph = Callable[[Sequence[Any], ScriptedModel], Any]


class Ran(list[str]):
    """The tools that have run."""

    def tool(self, name: str, *needed: str) -> StructuredTool:
        async def run() -> str:
            self.append(name)
            return f"{name} is done"

        made = StructuredTool.from_function(coroutine=run, name=name, description=name)
        return needs(*needed)(made) if needed else made


def model(*names: str) -> ScriptedModel:
    """Calls the tools at once, whatever it is offered."""
    made = ScriptedModel([call(name) for name in names], "done")
    with_prepared_calls(made)
    return made


def offered(model: ScriptedModel) -> list[list[str]]:
    """The names of the tools that the model was offered, at each call of it."""
    return [ask.tools for ask in model.asks]


def of_create_agent(tools: Sequence[Any], said_by: ScriptedModel) -> CompiledGraph:
    return create_agent(said_by, tools=list(tools))


def of_tool_node(tools: Sequence[Any], said_by: ScriptedModel) -> CompiledGraph:
    """A loop of an author's own, whose model is bound when the graph is built."""
    bound = said_by.bind_tools(tools)

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer).add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "answer").add_edge("tools", "answer")
    graph.add_conditional_edges("answer", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__")
    return graph.compile()


def of_subgraph(tools: Sequence[Any], said_by: ScriptedModel) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node("inner", of_create_agent(tools, said_by)).add_edge(START, "inner")
    return graph.compile()


def of_swarm(tools: Sequence[Any], said_by: ScriptedModel) -> CompiledGraph:
    """The agent that is asked hands over to the one that has the tools."""
    hands_over = ScriptedModel(call("transfer_to_bob"))
    alice = create_agent(hands_over, [create_handoff_tool(agent_name="bob")], name="alice")
    bob = create_agent(said_by, list(tools), name="bob")
    return create_swarm([alice, bob], default_active_agent="alice").compile()


def of_crew(tools: Sequence[Any], said_by: ScriptedModel) -> CatalogAgent:
    """A leader whose expert has the tools."""

    class Leader(LeaderFlow):
        async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
            asks = ScriptedModel(Call("ask_expert", {"question": "?"}, "ask"), "done")
            self._graph = create_agent(asks, tools=self.delegation_tools(crew))

        def get_compiled_graph(self) -> CompiledGraph:
            return self._graph

    expert = entry_of(of_create_agent(tools, said_by), "expert")
    return replace(entry_of(Leader, "agent", type="leader", crew=["expert"]), crew=[expert])


async def records(sessions: Sessions, session_id: str | None) -> dict[str, ToolCallRecord]:
    page = await sessions.store.real.trail(TrailQuery(ToolCallRecord, {"session_id": session_id or ""}))
    return {record.name: record for record in page.records}


@pytest.mark.parametrize("graph", [of_create_agent, of_tool_node, of_subgraph, of_swarm, of_crew])
async def test_a_tool_that_the_user_may_not_use_is_neither_offered_nor_run(graph: Graph, tmp_path: Path) -> None:
    ran, said_by = Ran(), model("mine", "grade")
    tools = [ran.tool("mine", "todos:write:self"), ran.tool("grade", "grades:write:all")]
    async with open_sessions(tmp_path, {"agent": graph(tools, said_by)}, permissions=ROLES) as sessions:
        log = await sessions.begin("go", user=STUDENT)
        await log.wait_ended()
        assert ran == ["mine"]
        assert offered(said_by) == [["mine"], ["mine"]]
        found = await records(sessions, log.session_id)
        assert (found["mine"].state, found["grade"].state) == ("success", "forbidden")
        assert found["grade"].error is not None and "grades:write:all" in found["grade"].error
        refused = [part for message in log.messages for part in message.parts if part.type == "tool_result"][-1]
        assert refused.type == "tool_result"
        assert log.final is not None and log.final.status == "ok"


@pytest.mark.parametrize("graph", [of_create_agent, of_tool_node, of_subgraph, of_swarm, of_crew])
@pytest.mark.parametrize("permissions", [ROLES, PermissionsSettings()])
async def test_who_may_do_everything_gets_everything(
    graph: Graph, permissions: PermissionsSettings, tmp_path: Path
) -> None:
    ran, said_by = Ran(), model("mine", "grade")
    tools = [ran.tool("mine", "todos:write:self"), ran.tool("grade", "grades:write:all")]
    async with open_sessions(tmp_path, {"agent": graph(tools, said_by)}, permissions=permissions) as sessions:
        log = await sessions.begin("go", user=TEACHER)
        await log.wait_ended()
        assert sorted(ran) == ["grade", "mine"]
        assert offered(said_by)[0] == ["mine", "grade"]


async def test_users_of_one_graph_get_their_own_tools(tmp_path: Path) -> None:
    """All sessions share a compiled graph."""
    ran, said_by = Ran(), ScriptedModel("done", "done", "done")
    with_prepared_calls(said_by)
    graph = of_create_agent([ran.tool("grade", "grades:write:all")], said_by)
    async with open_sessions(tmp_path, {"agent": graph}, permissions=ROLES) as sessions:
        for user in (STUDENT, TEACHER, STUDENT):
            await (await sessions.begin("go", user=user)).wait_ended()
    assert offered(said_by) == [[], ["grade"], []]


async def test_the_catalog_says_what_tools_of_a_graph_need(tmp_path: Path) -> None:
    ran, said_by = Ran(), model("send_mail", "look")
    entry = entry_of(
        of_create_agent([ran.tool("send_mail"), ran.tool("look")], said_by),
        "agent",
        permissions={"send_*": ["mail:write:self"]},
    )
    async with open_sessions(tmp_path, {"agent": entry}, permissions=ROLES) as sessions:
        await (await sessions.begin("go", user=STUDENT)).wait_ended()
    assert (ran, offered(said_by)[0]) == (["look"], ["look"])


async def test_nobody_is_asked_to_approve_of_a_call_that_the_user_may_not_make(tmp_path: Path) -> None:
    ran = Ran()

    class Careful(AgentFlow):
        async def async_init(self) -> None:
            self._graph = create_agent(
                model("mine", "grade"),
                tools=[ran.tool("mine", "todos:write:self"), ran.tool("grade", "grades:write:all")],
                middleware=self.approval_middleware(),
            )

        def get_compiled_graph(self) -> CompiledGraph:
            return self._graph

    entry = entry_of(Careful, "agent", require_approval=["*"])
    async with open_sessions(tmp_path, {"agent": entry}, permissions=ROLES) as sessions:
        log = await sessions.begin("go", user=STUDENT)
        asked = await until(log, "awaiting_human")
        assert [request["name"] for request in asked["payload"]["requests"]] == ["mine"]
        await sessions.orchestrator.stop(STUDENT, log.session_id, None)
        await log.wait_ended()


async def test_a_node_that_calls_a_tool_itself_fails_where_the_user_may_not_use_it(tmp_path: Path) -> None:
    ran = Ran()
    grade = ran.tool("grade", "grades:write:all")

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(await grade.ainvoke({}))]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()
    async with open_sessions(tmp_path, {"agent": graph}, permissions=ROLES) as sessions:
        refused, allowed = [await sessions.begin("go", user=user) for user in (STUDENT, TEACHER)]
        await refused.wait_ended()
        await allowed.wait_ended()
        assert refused.final is not None and refused.final.error is not None
        assert refused.final.error.code == "forbidden"
        assert allowed.final is not None and allowed.final.status == "ok"
    assert ran == ["grade"]


def careful(ran: Ran) -> CatalogAgent:
    """An agent that asks for approval of `mine`; `grade` it just calls."""

    class Careful(AgentFlow):
        async def async_init(self) -> None:
            self._graph = create_agent(
                model("mine", "grade"),
                tools=[ran.tool("mine", "todos:write:self"), ran.tool("grade", "grades:write:all")],
                middleware=self.approval_middleware(),
            )

        def get_compiled_graph(self) -> CompiledGraph:
            return self._graph

    return entry_of(Careful, "agent", require_approval=["mine"])


@pytest.mark.parametrize(
    ("roles", "states"),
    [
        ({"student"}, {"mine": "success", "grade": "forbidden"}),
        (set(), {"mine": "forbidden", "grade": "forbidden"}),
    ],
)
async def test_who_resumes_has_the_permissions_of_their_present_roles(
    roles: set[str], states: dict[str, str], tmp_path: Path
) -> None:
    """A role may have been withdrawn while the exchange waited; `grade` was refused before."""
    ran = Ran()
    async with open_sessions(tmp_path, {"agent": careful(ran)}, permissions=ROLES) as sessions:
        log = await sessions.begin("go", user=STUDENT)
        [request] = (await until(log, "awaiting_human"))["payload"]["requests"]
        approval = Decision(call_id=request["call_id"], args_sha256=request["args_sha256"], action="approve")
        log = await sessions.orchestrator.human_resume(
            replace(STUDENT, roles=frozenset(roles)),
            log.session_id,
            log.exchange_id,
            HumanDecisions(decisions=[approval]),
            None,
        )
        await log.wait_ended()
        found = await records(sessions, log.session_id)
        assert {name: record.state for name, record in found.items()} == states
    assert sorted(ran) == sorted(name for name, state in states.items() if state == "success")


async def test_what_expires_goes_on_with_the_last_known_roles(tmp_path: Path) -> None:
    ran = Ran()
    limits = LimitsSettings(human_timeout_s=1)
    async with open_sessions(tmp_path, {"agent": careful(ran)}, permissions=ROLES, limits=limits) as sessions:
        log = await sessions.begin("go", user=STUDENT)
        await until(log, "awaiting_human")
        await until(log, "final")
        found = await records(sessions, log.session_id)
        assert (found["mine"].state, found["grade"].state, ran) == ("rejected", "forbidden", [])


async def test_refused_calls_are_counted(tmp_path: Path) -> None:
    graph = of_create_agent([Ran().tool("mine"), Ran().tool("grade", "grades:write:all")], model("mine", "grade"))
    async with open_sessions(tmp_path, {"agent": graph}, permissions=ROLES) as sessions:
        await (await sessions.begin("go", user=STUDENT)).wait_ended()
        exposition = sessions.kpi.exposition("")[0].decode()
    counted = [line for line in exposition.splitlines() if line.startswith("chat_tool_refusals_total")]
    assert counted == ['chat_tool_refusals_total{tool="grade"} 1.0']


async def test_the_modules_see_what_a_tool_returns_before_the_model() -> None:
    ran = Ran()
    model = ScriptedModel(call("look"), "done")
    graph = create_agent(model, tools=[ran.tool("look")])

    async def marked(name: str, names: Sequence[str], text: str) -> str:
        return f"[{name}: {text}]"

    guard_tools(graph)
    guard_tools(graph)
    context = context_of("s")
    context.filter_tool_result = marked
    make_current(context)
    state = await graph.ainvoke({"messages": [("user", "go")]}, context=context)
    assert [message.text for message in state["messages"]] == ["go", "", "[look: look is done]", "done"]


def granted(*patterns: str) -> Permissions:
    return Permissions(frozenset(patterns))


@pytest.mark.parametrize(
    ("patterns", "lacking"),
    [
        ([], ["todos:write:self"]),
        (["todos:write:self"], []),
        (["todos:*:self"], []),
        (["*"], []),
        (["todos:read:*", "todos:write"], ["todos:write:self"]),
        (["Todos:*"], ["todos:write:self"]),
    ],
)
def test_patterns_grant_what_they_match(patterns: Sequence[str], lacking: Sequence[str]) -> None:
    assert granted(*patterns).lacking("a", "t", {"permissions": ["todos:write:self"]}) == lacking


def test_what_is_declared_wrongly_is_granted_to_no_pattern_of_less_than_everything() -> None:
    assert granted("todos:*").lacking("a", "t", {"permissions": "todos:write"}) == []
    assert granted("todos:*").lacking("a", "t", {"permissions": [1]}) == ["[1]"]


def test_a_decorated_tool_keeps_what_it_declares() -> None:
    @needs("todos:read:self")
    @needs("todos:write:self")
    @tool
    def add() -> str:
        """Add."""
        return ""

    assert add.metadata == {"permissions": ["todos:write:self", "todos:read:self"]}
    assert granted("todos:write:self").lacking("a", "add", add.metadata) == ["todos:read:self"]


FORMS: list[Any] = [
    {"type": "function", "function": {"name": "grade"}},
    {"type": "function", "name": "grade"},
    {"name": "grade", "input_schema": {}},
    {"toolSpec": {"name": "grade"}},
    {"function_declarations": [{"name": "grade"}]},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("choice", ["grade", {"type": "function", "function": {"name": "grade"}}, "auto"])
async def test_every_provider_s_form_is_understood(form: Any, choice: Any) -> None:
    seen: list[Mapping[str, Any]] = []

    class Sees(ScriptedModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super()._generate(*args, **kwargs)

    made: BaseChatModel = with_prepared_calls(Sees("a", "b", streams=False))
    context = context_of("s")
    context.withheld_tools = {context.agent_id: frozenset({"grade"})}
    make_current(context)
    other = {"type": "function", "function": {"name": "mine"}}
    made.invoke("go", tools=[form, other], tool_choice=choice)
    made.invoke("go", tools=[form], tool_choice=choice, temperature=0)
    assert seen[0]["tools"] == [other]
    assert ("tool_choice" in seen[0]) is (choice == "auto")
    assert {"tools", "tool_choice"} & seen[1].keys() == set()


async def test_the_middleware_leaves_out_tools_of_a_model_of_the_graph_s_own(tmp_path: Path) -> None:
    ran, own = Ran(), ScriptedModel("done")
    graph = create_agent(
        own, tools=[ran.tool("grade", "grades:write:all"), ran.tool("look")], middleware=[AllowedTools()]
    )
    async with open_sessions(tmp_path, {"agent": graph}, permissions=ROLES) as sessions:
        await (await sessions.begin("go", user=STUDENT)).wait_ended()
    assert offered(own) == [["look"]]
