"""Requires that what an author's code returns is a graph; the error says what it is instead, and whose line it is."""

from collections.abc import AsyncGenerator, Generator
from types import CodeType

from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.state.channel_forms import Graph
from agentic_backend.errors import AgentUnavailable


def require_graph(made: object, agent_id: str, maker: object) -> Graph:
    """`made`, which the function `maker` has returned. Raises AgentUnavailable, caused by a ClassPathError."""
    if isinstance(made, Pregel):
        return made
    raise AgentUnavailable(f"The agent '{agent_id}' returned no graph.") from ClassPathError(
        f"returned {_instead(made)}", _code_of(maker)
    )


def _instead(made: object) -> str:
    kind = type(made).__name__
    if isinstance(made, StateGraph):
        return f"a {kind} that is not compiled; return what its compile() returns"
    if isinstance(made, PregelProtocol):
        return f"a {kind}, which runs elsewhere; a node of a graph can call it"
    if isinstance(made, AsyncGenerator | Generator):
        return f"a {kind}; a function that yields its graph needs @contextmanager or @asynccontextmanager"
    return f"a value of type {kind}"


def _code_of(maker: object) -> CodeType | None:
    """The code of a function, a method or an object that can be called; None if it is not written in Python."""
    for function in (maker, type(maker).__call__ if callable(maker) else None):
        if isinstance(code := getattr(function, "__code__", None), CodeType):
            return code
    return None
