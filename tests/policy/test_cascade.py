"""The cascade: the most specific level wins, and every value has its source."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import MessagesState, StateGraph

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.auth.user import User
from agentic_backend.errors import Forbidden
from agentic_backend.policy.hook_context import ScopeOf
from agentic_backend.policy.scopes.cascade import Cascade
from agentic_backend.policy.scopes.policies_file import KnownNames, read_policies
from agentic_backend.policy.scopes.scopes import Scopes

KNOWN = KnownNames({"default", "small", "large"}, {"default", "compact", "long_context"}, {"words", "pii"})
EVERYWHERE = {"organisation": "o", "class": "c", "task": "t", "assignment": "a"}
FILE = """
organisations:
  o:
    name: Omega
    model: small
    chat_profile: compact
    limits: {max_messages: 10, run_s: 60}
    modules: {words: true, pii: true}
    prompts: {guidance: Be brief., topics: [Rome, Carthage]}
    path: /schools/omega
classes:
  c: {organisation: o, access: {groups: [/teachers], roles: [tutor]}}
  d: {organisation: o}
tasks:
  t:
    limits: {max_duration_s: 600}
    prompts: {instructions: Write an essay., no_direct_answers: true}
assignments:
  a:
    class: c
    task: t
    name: Essay 3
    closes_at: 2026-03-01T08:00:00Z
    model: large
    limits: {max_messages: null, steps: 5}
    modules: {pii: false}
    prompts: {instructions: Write about Hannibal.}
"""


def agent_with(**entry: Any) -> CatalogAgent:
    entry = {"id": "e", "class_path": "m:n", **entry}
    return CatalogAgent(AgentSettings.model_validate(entry), StateGraph(MessagesState))


def cascade_of(directory: Path, text: str = FILE) -> tuple[Cascade, Scopes]:
    path = directory / "policies.yaml"
    path.write_text(text)
    policies = read_policies(path, KNOWN)
    return Cascade(policies, lambda: {"model": "default", "limits.run_s": 3600.0}), Scopes(policies)


def test_the_most_specific_level_wins(tmp_path: Path) -> None:
    cascade, _ = cascade_of(tmp_path)
    applied = cascade.applied(agent_with(limits={"run_s": 30.0, "steps": 7}), EVERYWHERE)
    effective, limits = applied.effective, applied.agent.settings.limits
    assert (effective.model, applied.agent.settings.model, effective.chat_profile) == ("large", "large", "compact")
    assert (effective.max_messages, effective.max_duration_s) == (None, 600)
    assert (limits.run_s, limits.steps, limits.tokens) == (30.0, 5, None)
    assert effective.modules == {"words": True, "pii": False}
    sections = [(text.name, text.source, text.text) for text in effective.prompts]
    assert [(name, source) for name, source, _ in sections] == [
        ("assignment", "assignment:a"),
        ("constraints", "organisation:o"),
        ("constraints", "task:t"),
        ("guidance", "organisation:o"),
    ]
    assert sections[0][2] == "Write about Hannibal." and "Rome, Carthage" in sections[1][2]


def test_each_value_tells_which_level_and_line_it_comes_from(tmp_path: Path) -> None:
    cascade, _ = cascade_of(tmp_path)
    effective = cascade.applied(agent_with(limits={"run_s": 30.0}), EVERYWHERE).effective
    told = [(one.level, one.id, one.value, one.file, one.line) for one in effective.levels["limits.run_s"]]
    assert told == [
        ("server", None, 3600.0, None, None),
        ("organisation", "o", 60, "policies.yaml", 7),
        ("agent", "e", 30.0, None, None),
    ]


def test_the_agents_own_model_goes_before_the_organisations(tmp_path: Path) -> None:
    cascade, _ = cascade_of(tmp_path)
    scope = {"organisation": "o"}
    assert cascade.applied(agent_with(), scope).agent.settings.model == "small"
    own = agent_with(id="own", model="large", session_limits={"max_messages": 3}, chat={"profile": "long_context"})
    applied = cascade.applied(own, scope)
    assert applied.agent.settings.model == "large"
    assert (applied.effective.model, applied.effective.max_messages) == ("large", 3)
    assert applied.effective.chat_profile == "long_context"


def test_a_leaders_crew_gets_the_model_that_applies_to_it(tmp_path: Path) -> None:
    cascade, _ = cascade_of(tmp_path)
    member, other = agent_with(id="m"), agent_with(id="x", model="default")
    leader = CatalogAgent(AgentSettings(id="l", class_path="m:n", type="leader"), object(), [member, other])
    led = cascade.applied(leader, {"organisation": "o"}).agent
    assert [one.settings.model for one in led.crew] == ["small", "default"]


def test_a_scope_that_the_file_does_not_know_changes_nothing(tmp_path: Path) -> None:
    cascade, _ = cascade_of(tmp_path)
    agent = agent_with()
    assert cascade.applied(agent, {"organisation": "unknown"}) is cascade.applied(agent, {})
    assert cascade.applied(agent, {}).agent is agent


LEVELS = ["organisation", "class", "task", "assignment"]


@given(limits=st.dictionaries(st.sampled_from([*LEVELS, "agent"]), st.integers(1, 1000)))
def test_whatever_levels_set_a_limit_the_last_of_them_applies(
    limits: Mapping[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = {"organisation": "organisations", "class": "classes", "task": "tasks", "assignment": "assignments"}
    lines = [
        f"{key}: {{x: {{limits: {{max_messages: {limits[kind]}}}}}}}" for kind, key in keys.items() if kind in limits
    ]
    cascade, _ = cascade_of(tmp_path_factory.mktemp("policies"), "\n".join(lines))
    agent = agent_with(session_limits={"max_messages": limits.get("agent")})
    effective = cascade.applied(agent, dict.fromkeys(LEVELS, "x")).effective
    order = ["organisation", "agent", "class", "task", "assignment"]
    assert effective.max_messages == next((limits[one] for one in reversed(order) if one in limits), None)


def user_with(**what: Any) -> User:
    return User(id="u", name="u", **what)


def test_an_assignment_brings_its_class_task_and_organisation(tmp_path: Path) -> None:
    _, scopes = cascade_of(tmp_path)
    assert scopes.of(user_with(roles=frozenset({"tutor"})), {"assignment": "a"}) == EVERYWHERE
    facts = scopes.facts(EVERYWHERE)
    assert facts.assignment is not None and facts.group is not None
    assert (facts.assignment.name, facts.group.name, facts.group.path) == ("Essay 3", "Omega", "/schools/omega")
    assert facts.assignment.path is None
    for organisation, path in (("none", "/none"), ("/schools/none", "/schools/none")):
        assert scopes.facts({"organisation": organisation}).group == ScopeOf(organisation, organisation, path=path)
    assert json.loads(json.dumps(facts.assignment.settings))["closes_at"] == "2026-03-01T08:00:00Z"
    assert facts.assignment.settings["prompts"] == {"instructions": "Write about Hannibal."}


def test_a_client_cannot_leave_the_task_of_its_assignment(tmp_path: Path) -> None:
    _, scopes = cascade_of(tmp_path)
    named = {"assignment": "a", "class": "d"}
    assert scopes.of(user_with(roles=frozenset({"tutor"})), named)["class"] == "c"


@pytest.mark.parametrize(
    "user",
    [
        user_with(groups=frozenset({"/teachers"})),
        user_with(roles=frozenset({"tutor"})),
        user_with(scope_choices={"class": frozenset({"c", "x"})}),
    ],
)
def test_a_client_names_what_its_user_may_use(tmp_path: Path, user: User) -> None:
    _, scopes = cascade_of(tmp_path)
    assert scopes.of(user, {"class": "c"}) == {"class": "c", "organisation": "o"}


@pytest.mark.parametrize("named", [{"class": "c"}, {"class": "unknown"}, {"planet": "mars"}])
def test_a_client_cannot_name_what_its_user_may_not_use(tmp_path: Path, named: Mapping[str, str]) -> None:
    _, scopes = cascade_of(tmp_path)
    with pytest.raises(Forbidden, match="You have no access to the"):
        scopes.of(user_with(groups=frozenset({"/pupils"})), named)


def test_the_token_goes_before_what_a_client_names(tmp_path: Path) -> None:
    _, scopes = cascade_of(tmp_path)
    user = user_with(scope={"class": "d", "organisation": "elsewhere", "assignment": "a"})
    assert scopes.of(user, {"class": "c", "assignment": "b"}) == {**EVERYWHERE, **user.scope}


OPEN = """
organisations: {o: {}, p: {}}
classes:
  c: {organisation: o, access: {groups: [/c]}}
  d: {organisation: o}
assignments:
  of_o: {organisation: o}
  of_c: {class: c}
  of_d: {class: d}
  listed: {class: d, organisation: o, access: {groups: [/guests]}}
  nobodys: {access: {roles: []}}
  free: {}
"""


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        (user_with(), {"of_o", "of_d", "free"}),
        (user_with(groups=frozenset({"/c"})), {"of_o", "of_c", "of_d", "free"}),
        (user_with(groups=frozenset({"/guests"}), scope={"organisation": "p"}), {"listed", "free"}),
        (user_with(groups=frozenset({"/c"}), scope={"organisation": "p"}), {"of_c", "free"}),
        (user_with(scope={"organisation": "o", "class": "d"}), {"of_o", "of_d", "free"}),
        (user_with(scope_choices={"class": frozenset({"c", "x"})}), {"of_o", "of_c", "free"}),
    ],
)
def test_an_entry_without_lists_is_for_the_people_of_what_it_is_in(
    tmp_path: Path, user: User, allowed: set[str]
) -> None:
    _, scopes = cascade_of(tmp_path, OPEN)
    every = {"of_o", "of_c", "of_d", "listed", "nobodys", "free"}
    assert {name for name in every if may_name(scopes, user, name)} == allowed


def may_name(scopes: Scopes, user: User, assignment: str) -> bool:
    try:
        scopes.of(user, {"assignment": assignment})
    except Forbidden:
        return False
    return True
