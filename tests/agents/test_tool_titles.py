"""What people are shown for a tool's name, as the tools of served graphs declare it."""

from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.tools import BaseTool, StructuredTool

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.tools.tool_titles import LONGEST, tool_titles


class WithTools:
    """An agent as far as its tools go."""

    def __init__(self, *tools: BaseTool) -> None:
        self._graph = create_agent(FakeListChatModel(responses=[]), tools=list(tools))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def named(name: str, title: Any = None) -> BaseTool:
    metadata = {} if title is None else {"title": title}
    return StructuredTool.from_function(lambda: "", name=name, description="Does it.", metadata=metadata)


def titles_of(*agents: WithTools) -> dict[str, str]:
    return dict(tool_titles([cast(AgentFlow, agent) for agent in agents]))


def test_a_tool_has_the_title_of_its_metadata() -> None:
    assert titles_of(WithTools(named("send", "Send an email"), named("plain"))) == {"send": "Send an email"}


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        (" Send\n\tan  email ", "Send an email"),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * 1_000_000, f"{'x' * (LONGEST - 1)}…"),
        ("lone \ud800", "lone ?"),
    ],
)
def test_a_title_is_one_bounded_line(title: str, shown: str) -> None:
    assert titles_of(WithTools(named("send", title))) == {"send": shown}


@pytest.mark.parametrize("title", ["", " \n", 5, ["Send"]])
def test_what_is_no_title_is_none(title: Any) -> None:
    assert titles_of(WithTools(named("send", title))) == {}


@pytest.mark.parametrize("other", ["Delete", None])
def test_a_name_that_means_tools_of_different_titles_has_none(other: str | None) -> None:
    leader, expert = WithTools(named("run", "Look")), WithTools(named("run", other), named("same", "Same"))
    assert titles_of(leader, expert, WithTools(named("same", "Same"))) == {"same": "Same"}
