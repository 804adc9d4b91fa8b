"""Graphs with subgraphs that keep a memory of their own: `checkpointer=True`."""

from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.phrase_model import PhraseModel

from agentic_backend.testing import ScriptedModel, call


class Counted(TypedDict):
    count: Annotated[int, lambda before, more: before + more]
    heard: Annotated[list[str], lambda before, more: [*before, *more]]


def _counter(**options: Any) -> Any:
    async def count(state: Counted) -> dict[str, Any]:
        if state["heard"][-1] == "fail":
            raise RuntimeError("asked to fail")
        if state["heard"][-1] == "ask":
            return {"count": 1, "heard": [interrupt({"question": "Sure?"})]}
        return {"count": 1}

    graph = StateGraph(Counted)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    return graph.compile(**options)


def _calling(inner: Any) -> Any:
    async def run(state: MessagesState) -> dict[str, Any]:
        kept = await inner.ainvoke({"heard": [state["messages"][-1].text]})
        return {"messages": [AIMessage(f"{kept['count']} {kept['heard']}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("run", run)
    graph.add_edge(START, "run")
    return graph


counting = _calling(_counter(checkpointer=True)).compile()
forgetting = _calling(_counter()).compile()

_outer = StateGraph(MessagesState)
_outer.add_node("within", counting)
_outer.add_edge(START, "within")
nested = _outer.compile()

_node = StateGraph(MessagesState)
_agent = create_agent(PhraseModel(), [], checkpointer=True)


async def _only_the_last(state: MessagesState) -> dict[str, Any]:
    """An agent that remembers by itself is told only what is new."""
    answer = await _agent.ainvoke({"messages": [HumanMessage(state["messages"][-1].text)]})
    return {"messages": [answer["messages"][-1]]}


_node.add_node("agent", _only_the_last)
_node.add_edge(START, "agent")
agent = _node.compile()


def tooled() -> Any:
    inner = _counter(checkpointer=True)

    @tool
    async def count_up(word: str) -> str:
        """Count."""
        kept = await inner.ainvoke({"heard": [word]})
        return f"{kept['count']} {kept['heard']}"

    turns = [turn for number in range(3) for turn in (call("count_up", word=f"w{number}"), "done")]
    return create_agent(ScriptedModel(*turns), [count_up])
