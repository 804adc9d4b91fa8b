"""What a plain function raises as a tool of an agent that its entry makes."""

import copy
import logging
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from support.recorded_agents import agent_factory, agent_services, entry_of, use

from agentic_backend.experts.configured.configured_agent import ConfiguredAgent
from agentic_backend.testing import ScriptedModel, call


def find(desk: str) -> str:
    """Find a desk."""
    raise LookupError(f"no desk {desk}")


async def find_later(desk: str) -> str:
    """Find a desk."""
    raise LookupError(f"no desk {desk}")


def count() -> str:
    """Count the desks."""
    return "3"


def ask(text: str) -> str:
    """Ask the person."""
    return str(interrupt(text))


async def graph_of(model: ScriptedModel, *tools: Any) -> Any:
    names = [f"{__name__}:{tool.__name__}" for tool in tools]
    entry = entry_of(ConfiguredAgent, tools=names, middleware=[{"name": "ToolRetryMiddleware", "args": RETRIES}])
    agent = await use(agent_factory(services=agent_services(default=model)), entry, "s1")
    graph = copy.copy(agent.get_compiled_graph())
    graph.checkpointer = InMemorySaver()
    return graph


RETRIES = {"max_retries": 1, "initial_delay": 0, "on_failure": "error"}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
ASKED = {"messages": [("user", "Go.")]}


@pytest.mark.parametrize("tool", [find, find_later])
async def test_the_model_reads_what_a_tool_raises_and_its_siblings_keep_their_results(
    tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    graph = await graph_of(ScriptedModel([call(tool.__name__, desk="A"), call("count")], "Sorry."), tool, count)
    ended = await graph.ainvoke(ASKED, CONFIG)
    results = [(one.status, one.text) for one in ended["messages"] if isinstance(one, ToolMessage)]
    assert results == [("error", "LookupError: no desk A"), ("success", "3")]
    assert ended["messages"][-1].text == "Sorry."
    [told] = [one for one in caplog.records if one.levelno == logging.WARNING and one.message == "tool failed"]
    assert (told.tool, f" in {tool.__name__}" in told.where) == (tool.__name__, True)


async def test_what_a_tool_asks_a_person_is_no_failure() -> None:
    graph = await graph_of(ScriptedModel(call("ask", text="Well?"), "Good."), ask)
    assert (await graph.ainvoke(ASKED, CONFIG))["__interrupt__"][0].value == "Well?"
    ended = await graph.ainvoke(Command(resume="Yes."), CONFIG)
    assert [one.text for one in ended["messages"] if isinstance(one, ToolMessage)] == ["Yes."]
