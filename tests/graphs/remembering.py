"""Graphs that keep things in LangGraph's store: in nodes, in tools, in threads, with the words of the person who asks.

What is asked is a line of Python's literals: the operation, and its arguments.
"""

import asyncio
import threading
from ast import literal_eval
from collections.abc import Mapping
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk.runtime import ServerRuntime

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow
from agentic_backend.testing import ScriptedModel, call


def _told(result: Any) -> str:
    if isinstance(result, list):
        return ", ".join(map(_told, result)) or "nothing"
    if isinstance(result, tuple):
        return ".".join(result)
    return "nothing" if result is None else f"{'.'.join(result.namespace)}/{result.key}={result.value}"


def _asked(state: MessagesState) -> tuple[str, list[Any], dict[str, Any]]:
    name, *given = literal_eval(state["messages"][-1].text)
    named = given.pop() if given and name in ("search", "list_namespaces") else {}
    return name, given, named


async def _node(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    if runtime.store is None:
        return {"messages": [AIMessage("no store")]}
    name, given, named = _asked(state)
    return {"messages": [AIMessage(_told(await getattr(runtime.store, f"a{name}")(*given, **named)))]}


def _thread_node(state: MessagesState) -> dict[str, Any]:
    assert threading.current_thread() is not threading.main_thread()
    name, given, named = _asked(state)
    return {"messages": [AIMessage(_told(getattr(get_store(), name)(*given, **named)))]}


async def _careless_node(state: MessagesState) -> dict[str, Any]:
    try:
        get_store().get(("a",), "b")
    except asyncio.InvalidStateError as error:
        return {"messages": [AIMessage(str(error))]}
    return {"messages": [AIMessage("blocked the event loop")]}


async def _own_loop_node(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
    store = runtime.store
    assert store is not None

    async def in_own_loop() -> str:
        await store.aput(("loop",), "k", {"v": 1})
        return _told(await store.aget(("loop",), "k"))

    return {"messages": [AIMessage(await asyncio.to_thread(asyncio.run, in_own_loop()))]}


def _of(node: Any, **options: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile(**options)


in_loop, in_thread, careless, own_loop = map(_of, (_node, _thread_node, _careless_node, _own_loop_node))
compiled_in = InMemoryStore()
with_own = _of(_node, store=compiled_in)


@tool
async def remember(what: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Remember something."""
    await store.aput(("facts",), what, {"text": what})
    return _told(await store.asearch(("facts",)))


def with_tool() -> Any:
    return create_agent(ScriptedModel(call("remember", what="tea"), "done"), [remember])


def at_build(runtime: ServerRuntime[Any]) -> Any:
    """Reads the store while the graph is made."""
    found = _told(runtime.store.search(("facts",)))
    return _of(lambda state: {"messages": [AIMessage(found)]})


class Chief(LeaderFlow):
    """Tells its expert to keep something in the expert's store, and keeps nothing itself."""

    async def async_init(self, crew: Mapping[str, AgentFlow] = NO_CREW) -> None:
        [expert] = crew
        question = "('put', ('of', 'expert'), 'k', {'v': 1})"
        model = ScriptedModel(call(f"ask_{expert}", question=question), "asked")
        self._graph = create_agent(model, self.delegation_tools(crew))

    def get_compiled_graph(self) -> Any:
        return self._graph
