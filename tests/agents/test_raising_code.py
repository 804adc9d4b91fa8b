"""Code of authors that raises or exits while a catalog with it is read."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_backend.agents.agent_manager import AgentManager

Load = Callable[..., AgentManager]

RAISING_MODULE = """
import sys

from langchain.agents.middleware import AgentMiddleware
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, model_validator

from agentic_backend.agents.agent_flow import AgentFlow

graph = StateGraph(MessagesState).add_node("n", lambda state: {}).add_edge(START, "n").compile()


class Raising:
    def __get__(self, *_):
        raise RuntimeError("not today")


class Unreadable(AgentMiddleware):
    __signature__ = Raising()


class Exiting(AgentMiddleware):
    def __init__(self, size: int = 0):
        sys.exit("gone")


class Annotation:
    def __str__(self):
        raise RuntimeError("not today")

    __repr__ = __str__


class Annotated(AgentMiddleware):
    def __init__(self, size: Annotation() = 0):
        pass


class NamelessTool:
    def __getattribute__(self, name):
        raise RuntimeError("not today")


nameless_tool = NamelessTool()


def quoted(model: "1 / 0"):
    return graph


class Equal:
    def __eq__(self, other):
        raise RuntimeError("not today")


def compared(anything=Equal()):
    return graph


class Incomparable(AgentMiddleware):
    __eq__ = Equal.__eq__


incomparable = Incomparable()


class Tools(type(AgentFlow)):
    @property
    def tool_names(cls):
        raise RuntimeError("not today")


class Flow(AgentFlow, metaclass=Tools):
    def get_compiled_graph(self):
        return graph


class Exits(BaseModel):
    size: int = 0

    @model_validator(mode="before")
    @classmethod
    def check(cls, values):
        sys.exit("gone")


class Closed(Exception):
    __class__ = property(lambda self: 1 / 0)


class Validated(Flow, metaclass=type(AgentFlow)):
    Fields = Exits


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise Closed("not today") if name == "closed" else RuntimeError("not today")
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a catalog of these entries, which may name what stands in RAISING_MODULE as `raising_module`."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising_module.py").write_text(RAISING_MODULE)

    def load(*entries: str) -> AgentManager:
        path = tmp_path / "agents.yaml"
        path.write_text("agents:\n" + "".join(f"- {{{entry}}}\n" for entry in entries))
        # Imported anew for each catalog.
        sys.modules.pop("raising_module", None)
        return AgentManager.load(path, ["default"])

    return load


@pytest.mark.parametrize(
    ("bad", "where", "reason"),
    [
        ("middleware: [{name: 'raising_module:Unreadable'}]", "middleware[0].name", "RuntimeError: not today"),
        ("middleware: [{name: 'raising_module:Exiting'}]", "middleware[0].name", "SystemExit: gone"),
        ("middleware: [{name: 'raising_module:Annotated'}]", "middleware[0].name", "RuntimeError: not today"),
        ("tools: ['raising_module:nameless_tool']", "tools[0]", "RuntimeError: not today"),
        ("class_path: 'raising_module:closed'", "class_path", "UnreadableError: raising_module.Closed"),
        ("class_path: 'raising_module:compared'", "class_path", "RuntimeError: not today"),
        ("class_path: 'raising_module:missing'", "class_path", "RuntimeError: not today"),
        ("class_path: 'raising_module:Flow', require_approval: [send]", "class_path", "RuntimeError: not today"),
        ("class_path: 'raising_module:Validated', tuning: {fields: {size: 1}}", "class_path", "SystemExit: gone"),
    ],
)
def test_whatever_an_authors_code_raises_is_a_problem_of_its_agent_alone(
    load: Load, bad: str, where: str, reason: str
) -> None:
    manager = load("id: good", f"id: bad, {bad}")
    assert [agent.settings.id for agent in manager.served()] == ["good"]
    (problem,) = manager.problems
    assert problem.where in (f"agents[1].{where}", "agents[1]") and problem.message.endswith(reason)
    assert "failed at " in problem.message and "raising_module.py:" in problem.message


def test_an_annotation_that_can_not_be_evaluated_says_nothing(load: Load) -> None:
    manager = load("id: quoted, class_path: 'raising_module:quoted'")
    assert [agent.settings.id for agent in manager.served()] == ["quoted"] and manager.problems == []


def test_an_agent_whose_code_can_not_be_compared_counts_as_changed(load: Load) -> None:
    bad = "id: bad, middleware: [{name: 'raising_module:incomparable'}]"
    manager = load(bad)
    assert manager.become(load(bad)).changed == ["bad"]
