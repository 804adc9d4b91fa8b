"""An agent, `marking`, whose tool has found a word of 200,000 combining marks, of two kinds in turn."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from agentic_backend.agents.agent_flow import CompiledGraph
from support.turn_model import Turn, TurnModel, call

ENTRIES: list[dict[str, Any]] = [{"id": "marking", "class_path": "support.marks_agent:marking", "default": True}]


@tool
def read_page() -> str:
    """Read a page."""
    return "It is 1234 degrees in Paris. a" + "\u0300\u0316" * 100_000


def marking() -> CompiledGraph:
    turns = [Turn(calls=[call("read_page", "c1")]), Turn("It is 1234 degrees in Paris.")]
    return create_agent(TurnModel(turns=turns), [read_page])
