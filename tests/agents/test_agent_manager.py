import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from langgraph.pregel import Pregel

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.auth.user import User
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.errors import AgentNotFound, AgentUnavailable, Forbidden

Load = Callable[..., AgentManager]
ANYBODY = User(id="ann", name="Ann")

AUTHOR_MODULE = """
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import LeaderFlow


def answer(state: MessagesState) -> dict[str, object]:
    return {"messages": []}


builder = StateGraph(MessagesState)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
graph = builder.compile()


class Flow(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return graph


class Tooled(Flow):
    tool_names = ("send", "drop")


class Leader(LeaderFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return graph


class TooledLeader(Leader):
    tool_names = ("send",)


class Unfinished(AgentFlow):
    pass


class Other:
    pass


def factory():
    return graph


async def async_factory(model):
    return graph


def optional_factory(model=None, *, style="plain"):
    return graph


def greedy_factory(model, wishes):
    return graph


def keyword_factory(*, model):
    return graph


def mistaken_factory(model, *, confg):
    return graph


constant = 5
"""


@pytest.fixture
def manager_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a catalog whose class paths may name what stands in AUTHOR_MODULE as `author_module`."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "author_module.py").write_text(AUTHOR_MODULE)

    def load(*entries: str) -> AgentManager:
        path = tmp_path / "agents.yaml"
        path.write_text("agents:\n" + "".join(f"- {{{entry}}}\n" for entry in entries) if entries else "agents: []")
        return AgentManager.load(path, ["default"], ["files"])

    return load


def entry(agent_id: str, name: str = "graph", more: str = "") -> str:
    return f"id: {agent_id}, class_path: 'author_module:{name}'{more and ', ' + more}"


def ids(manager: AgentManager) -> list[str]:
    return [agent.settings.id for agent in manager.served()]


def told(manager: AgentManager) -> list[str]:
    return [f"{p.line}: {p.where}: {p.message}" for p in manager.problems]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Flow", "flow"),
        ("graph", "graph"),
        ("factory", "factory"),
        ("async_factory", "factory"),
        ("optional_factory", "factory"),
    ],
)
def test_a_class_path_leads_to_a_flow_a_graph_or_a_factory(manager_of: Load, name: str, kind: str) -> None:
    manager = manager_of(entry("one", name))
    assert manager.problems == []
    agent = manager.get("one", ANYBODY)
    assert _kind(agent.target) == kind
    assert agent.target is vars(sys.modules["author_module"])[name]
    assert agent.settings.class_path == f"author_module:{name}"


def _kind(target: object) -> str:
    if isinstance(target, type):
        assert issubclass(target, AgentFlow)
        return "flow"
    return "graph" if isinstance(target, Pregel) else "factory"


def test_mcp_servers_are_for_flows(manager_of: Load) -> None:
    tuning = "tuning: {mcp_servers: [{id: files}]}"
    manager = manager_of(entry("flow", "Flow", tuning), entry("graph", "graph", tuning))
    assert ids(manager) == ["flow"]
    assert told(manager) == ["3: agents[1].class_path: only an AgentFlow class can use MCP servers"]


@pytest.mark.parametrize("name", ["graph", "factory", "async_factory"])
def test_only_a_flow_can_ask_for_approval_and_one_that_can_not_is_not_served(manager_of: Load, name: str) -> None:
    manager = manager_of(entry("one", name, "require_approval: all"), entry("other", name, "require_approval: []"))
    assert ids(manager) == ["other"]
    assert told(manager) == [
        "2: agents[0].require_approval: only an AgentFlow class can ask for approval; "
        "a graph asks by an interrupt() of its own"
    ]
    with pytest.raises(AgentUnavailable):
        manager.get("one", ANYBODY)


def test_approval_is_required_of_tools_that_the_agent_has(manager_of: Load) -> None:
    manager = manager_of(
        entry("good", "Tooled", "require_approval: [send, 'x*']"),
        entry("bad", "Tooled", "require_approval: [drop, sned]"),
        entry("unknown", "Flow", "require_approval: [sned]"),
        entry("served", "Tooled", "require_approval: [sned], tuning: {mcp_servers: [{id: files}]}"),
        entry("chief", "TooledLeader", "type: leader, crew: [good], require_approval: [send, ask_good]"),
        entry("boss", "TooledLeader", "type: leader, crew: [good], require_approval: [ask_god]"),
        entry("head", "TooledLeader", "type: leader, crew: [bad]"),
    )
    assert ids(manager) == ["good", "unknown", "served", "chief"]
    assert told(manager) == [
        "3: agents[1].require_approval[1]: the agent has no tool 'sned'; did you mean 'send'?",
        "7: agents[5].require_approval[0]: the agent has no tool 'ask_god'; did you mean 'ask_good'?",
        "8: agents[6].crew[0]: the agent 'bad' is not served: it is disabled or has a problem",
    ]


def test_an_agent_that_somebody_was_allowed_before_is_found_whoever_asks(manager_of: Load) -> None:
    manager = manager_of(entry("one", more="access: {roles: [admin]}"), entry("bad", "constant"))
    assert manager.entry("one").settings.id == "one"
    with pytest.raises(AgentUnavailable):
        manager.entry("bad")
    with pytest.raises(AgentNotFound):
        manager.entry("two")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("builder", "is a graph that is not compiled; give what its compile() returns"),
        ("Other", "the class 'Other' is no subclass of AgentFlow"),
        ("Unfinished", "the class 'Unfinished' does not implement get_compiled_graph()"),
        ("AgentFlow", "the class 'AgentFlow' does not implement get_compiled_graph()"),
        (
            "greedy_factory",
            "the function needs 'wishes', which nothing is known for: it can have 'model', 'config', 'runtime', "
            "'fields' and 'tools'",
        ),
        (
            "mistaken_factory",
            "the function needs 'confg', which nothing is known for: it can have 'model', 'config', 'runtime', "
            "'fields' and 'tools'; did you mean 'config'?",
        ),
        (
            "constant",
            "expected an AgentFlow class, a compiled graph or a function that returns one, found a value of type int",
        ),
        ("grap", "module 'author_module' has no 'grap'; did you mean 'graph'?"),
    ],
)
def test_a_class_path_that_cannot_be_served_is_a_problem_of_its_agent_alone(
    manager_of: Load, name: str, message: str
) -> None:
    manager = manager_of(entry("good"), entry("bad", name))
    assert ids(manager) == ["good"]
    assert told(manager) == [f"3: agents[1].class_path: {message}"]
    (problem,) = manager.problems
    assert problem.column == len("- {id: bad, class_path: '")
    with pytest.raises(AgentUnavailable):
        manager.get("bad", ANYBODY)


def test_problems_are_in_the_order_of_the_lines(manager_of: Load) -> None:
    bad = "id: four, class_path: m"
    manager = manager_of(entry("one", "nothing"), entry("two", more="nmae: x"), entry("three"), bad)
    assert ids(manager) == ["three"]
    assert [problem.line for problem in manager.problems] == [2, 3, 5]


@pytest.mark.parametrize("bad", ["id: bad, class_path: m", "id: bad, class_path: 'author_module:graph', model: none"])
def test_a_bad_entry_is_unavailable(manager_of: Load, bad: str) -> None:
    manager = manager_of(bad, entry("good"))
    with pytest.raises(AgentUnavailable, match="The agent 'bad' is not available"):
        manager.get("bad", ANYBODY)
    assert manager.get(None, ANYBODY).settings.id == "good"


def test_unknown_and_disabled_agents_are_not_found(manager_of: Load) -> None:
    manager = manager_of(entry("assistant"), entry("asleep", "nothing", "enabled: false"))
    assert manager.problems == []
    for asked, text in [
        ("asistant", "There is no agent 'asistant'; did you mean 'assistant'?"),
        ("asleep", "There is no agent 'asleep'."),
        ("", "There is no agent ''."),
        ("x" * 5000, f"There is no agent '{'x' * 64}'."),
    ]:
        with pytest.raises(AgentNotFound) as caught:
            manager.get(asked, ANYBODY)
        assert caught.value.content == text


def test_the_first_served_agent_is_the_default_unless_another_says_so(manager_of: Load) -> None:
    off = "enabled: false, default: true"
    assert (
        manager_of(entry("off", more=off), "id: bad, class_path: m", entry("a"), entry("b"))
        .get(None, ANYBODY)
        .settings.id
        == "a"
    )
    assert manager_of(entry("a"), entry("b", more="default: true")).get(None, ANYBODY).settings.id == "b"


def test_an_agent_is_for_those_who_have_one_of_its_roles(manager_of: Load) -> None:
    manager = manager_of(entry("vault", more="access: {roles: [keeper, auditor]}, default: true"), entry("open"))
    for roles, usable in [({"keeper"}, ["vault", "open"]), ({"auditor", "x"}, ["vault", "open"]), ({"x"}, ["open"])]:
        user = User(id="ann", name="Ann", roles=frozenset(roles))
        assert [agent.settings.id for agent in manager.served_for(user)] == usable
        assert manager.get(None, user).settings.id == usable[0]
    with pytest.raises(Forbidden, match="no access to the agent 'vault'"):
        manager.get("vault", ANYBODY)
    with pytest.raises(AgentNotFound, match=r"no agent 'vualt'\.$"):
        manager.get("vualt", ANYBODY)
    with pytest.raises(Forbidden, match="no access to any agent"):
        manager_of(entry("vault", more="access: {roles: [keeper]}")).get(None, ANYBODY)


def test_what_a_reload_found_wrong_is_told_to_developers_and_admins_until_one_is_served(manager_of: Load) -> None:
    manager = manager_of(entry("open"))
    admin, developer = replace(ANYBODY, is_admin=True), replace(ANYBODY, is_developer=True)
    manager.reload_ended(["agents_catalog.yaml:6:5: wrong"])
    # As agents of the database do when they change.
    manager.become(manager_of(entry("open")))
    assert [list(manager.reload_problems(user)) for user in (ANYBODY, admin, developer)] == [
        [],
        ["agents_catalog.yaml:6:5: wrong"],
        ["agents_catalog.yaml:6:5: wrong"],
    ]
    manager.reload_ended()
    assert not manager.reload_problems(admin)


def test_a_second_default_is_told_and_served(manager_of: Load) -> None:
    manager = manager_of(entry("a"), entry("b", more="default: true"), entry("c", more="default: true"))
    assert ids(manager) == ["a", "b", "c"]
    assert manager.get(None, ANYBODY).settings.id == "b"
    assert told(manager) == ["4: agents[2].default: the default is the agent 'b' already"]


def test_a_duplicate_id_leaves_the_first(manager_of: Load) -> None:
    manager = manager_of(entry("twin", "graph"), entry("twin", "Flow"))
    assert _kind(manager.get("twin", ANYBODY).target) == "graph"
    assert told(manager) == ["3: agents[1].id: the id 'twin' is taken by the agent on line 2"]


def test_a_leader_needs_every_member_of_its_crew(manager_of: Load) -> None:
    leader = "type: leader, crew: "
    manager = manager_of(
        entry("good", "Leader", leader + "[scout, writer]"),
        entry("lost", "Leader", leader + "[scuot]"),
        entry("short", "Leader", leader + "[scout, asleep, broken]"),
        entry("chief", "Leader", leader + "[good]"),
        entry("self", "Leader", leader + "[self]"),
        entry("alone", "Leader", "type: leader"),
        entry("scout"),
        entry("writer"),
        entry("asleep", more="enabled: false"),
        entry("broken", "nothing"),
    )
    assert ids(manager) == ["good", "scout", "writer"]
    assert told(manager) == [
        "3: agents[1].crew[0]: there is no agent 'scuot'; did you mean 'scout'?",
        "4: agents[2].crew[1]: the agent 'asleep' is not served: it is disabled or has a problem",
        "4: agents[2].crew[2]: the agent 'broken' is not served: it is disabled or has a problem",
        "5: agents[3].crew[0]: 'good' is a leader; a crew is made of agents",
        "6: agents[4].crew[0]: 'self' is a leader; a crew is made of agents",
        "7: agents[5].type: a leader leads a crew: name agents of this catalog in 'crew'",
        "11: agents[9].class_path: module 'author_module' has no 'nothing'",
    ]
    assert [member.settings.id for member in manager.get("good", ANYBODY).crew] == ["scout", "writer"]
    with pytest.raises(AgentUnavailable):
        manager.get("lost", ANYBODY)


def test_a_leader_has_a_class_that_leads_and_nobody_else_has(manager_of: Load) -> None:
    manager = manager_of(
        entry("flow", "Flow", "type: leader, crew: [scout]"),
        entry("graph", "graph", "type: leader, crew: [scout]"),
        entry("plain", "Leader"),
        entry("scout"),
    )
    assert ids(manager) == ["scout"]
    assert told(manager) == [
        "2: agents[0].class_path: an agent of type 'leader' needs a class derived from LeaderFlow",
        "3: agents[1].class_path: an agent of type 'leader' needs a class derived from LeaderFlow",
        "4: agents[2].class_path: is a LeaderFlow class, which leads a crew; the agent needs 'type: leader'",
    ]


@pytest.mark.parametrize("entries", [[], ["id: bad, class_path: m"], ["id: off, class_path: 'm:n', enabled: false"]])
def test_a_catalog_without_an_agent_to_serve_stops_the_start(manager_of: Load, entries: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        manager_of(*entries)
    assert "agents: no agent can be served; enable or repair one" in str(caught.value)


def test_a_catalog_that_is_not_yaml_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    path.write_text("agents: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        AgentManager.load(path, [])
