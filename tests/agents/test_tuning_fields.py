"""Fields that an agent declares are checked at the start; keys without effect are found, each with its place."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.agent_manager import AgentManager

MODULE = """
from dataclasses import dataclass
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, ConfigDict, Field, field_validator
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from agentic_backend.agents.agent_flow import AgentFlow

def compiled(schema=None):
    builder = StateGraph(MessagesState, context_schema=schema)
    builder.add_node("answer", lambda state: {})
    builder.add_edge(START, "answer")
    return builder.compile()

@dataclass
class Context:
    language: str = "en"

graph, with_context = compiled(), compiled(Context)

class DeskFields(BaseModel):
    desk: str
    seats: int = Field(4, ge=1)
    sign: str = Field("", alias="sign_text")

class Lenient(BaseModel):
    model_config = ConfigDict(extra="allow")

class Odd(BaseModel):
    desk: str = ""
    @field_validator("desk")
    @classmethod
    def odd(cls, value):
        raise KeyError(value)

class Plain(AgentFlow):
    def get_compiled_graph(self):
        return graph

class Desk(Plain):
    Fields = DeskFields

class SubDesk(Desk):
    pass

class LenientDesk(Plain):
    Fields = Lenient

class OddDesk(Plain):
    Fields = Odd

class WrongDesk(Plain):
    Fields = {"desk": str}

def with_fields(model: BaseChatModel, fields: DeskFields):
    return graph

def with_config(config: RunnableConfig):
    return graph

def with_nothing():
    return graph
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], AgentManager]:
    def load(entry: str) -> AgentManager:
        (tmp_path / "tuning_desk.py").write_text(MODULE)
        catalog = tmp_path / "agents.yaml"
        catalog.write_text(
            "agents:\n- {id: other, class_path: 'agentic_backend.experts.plain_chat.graph:build'}\n"
            f"- {{id: desk, {entry}}}\n"
        )
        return AgentManager.load(catalog, ["default"])

    return load


@pytest.fixture(autouse=True)
def no_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test's module is beside its own catalog."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "tuning_desk", raising=False)


def entry(target: str, fields: str = "", more: str = "") -> str:
    tuning = f", tuning: {{fields: {{{fields}}}}}" if fields else ""
    return f"class_path: 'tuning_desk:{target}'{tuning}{more and ', ' + more}"


def told(manager: AgentManager) -> list[str]:
    return [f"{problem.line}: {problem.where}: {problem.message}" for problem in manager.problems]


@pytest.mark.parametrize("target", ["Desk", "SubDesk", "with_fields"])
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("desk: a, seatz: 3", "seatz: unknown field 'seatz'; did you mean 'seats'?"),
        ("desk: a, zzz: 3", "zzz: unknown field 'zzz'; the fields are desk, seats, sign_text"),
        ("desk: a, seats: 0", "seats: expected an integer of at least 1, found 0"),
        ("desk: off", "desk: expected text, found false; put it in quotes"),
        ("seats: 3", "desk: the key 'desk' is required"),
    ],
)
def test_wrong_fields_are_told_with_their_place_and_the_agent_is_not_served(
    load: Callable[[str], AgentManager], target: str, fields: str, problem: str
) -> None:
    manager = load(entry(target, fields))
    assert told(manager) == [f"3: agents[1].tuning.fields.{problem}"]
    assert [agent.settings.id for agent in manager.served()] == ["other"]


@pytest.mark.parametrize(
    "line",
    [
        entry("Desk", "desk: a, seats: 3, sign_text: open"),
        entry("with_fields", "desk: a"),
        entry("LenientDesk", "anything: 3"),
        entry("Plain", "anything: 3", "model: default"),
        entry("with_config", "anything: 3"),
        entry("with_context", "language: fr"),
        entry("graph"),
        entry("graph", "language: fr"),
        entry("with_nothing", "language: fr"),
    ],
)
def test_fields_that_fit_or_that_nobody_declares_are_no_problem(load: Callable[[str], AgentManager], line: str) -> None:
    manager = load(line)
    assert told(manager) == []
    assert len(manager.served()) == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (entry("graph", more="model: default"), "model: has no effect on a compiled graph; give a function"),
        (entry("with_nothing", more="model: default"), "model: has no effect on a function that does not take it"),
        (entry("with_config", more="model: default"), "model: has no effect on a function that does not take it"),
        (
            entry("with_context", "langage: fr"),
            "tuning.fields.langage: unknown field 'langage'; did you mean 'language'?",
        ),
    ],
)
def test_a_key_without_effect_is_told_and_its_agent_is_served(
    load: Callable[[str], AgentManager], line: str, problem: str
) -> None:
    manager = load(line)
    [message] = told(manager)
    assert message.startswith(f"3: agents[1].{problem}")
    assert len(manager.served()) == 2


def test_what_an_author_declares_wrongly_is_told(load: Callable[[str], AgentManager]) -> None:
    assert "no pydantic model" in told(load(entry("WrongDesk", "desk: a")))[0]


def test_a_validator_that_raises_is_told(load: Callable[[str], AgentManager]) -> None:
    assert "can't be checked: KeyError" in told(load(entry("OddDesk", "desk: a")))[0]


def test_the_class_reads_its_fields_as_it_declared_them(load: Callable[[str], AgentManager]) -> None:
    agent = load(entry("Desk", "desk: a, sign_text: open")).entry("desk")
    target: Any = agent.target
    services: Any = None
    context: Any = None
    flow: AgentFlow = target(agent.settings, services, context)
    assert (flow.fields.desk, flow.fields.seats, flow.fields.sign) == ("a", 4, "open")
