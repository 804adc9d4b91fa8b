"""Graphs of which several parts ask a person at the same time, in the forms in which authors write them.

Each part waits for its turn before it asks; a test says in which order they ask, in all runs together.
"""

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from agentic_backend.agents.agent_flow import CompiledGraph

order: list[str] = []
"""Who asks, one after the other."""
asked: list[str] = []
"""Who has asked."""
begun: list[str] = []
"""Whom the tools have begun to pay."""


def begin(*runs: str) -> None:
    """Let those who ask come in the order of the letters, in each of the runs."""
    order[:], asked[:], begun[:] = "".join(runs), [], []


def _comes(to: str) -> bool:
    comes = len(asked) >= len(order) or order[len(asked)] == to
    if comes:
        asked.append(to)
    return comes


async def ask(to: str) -> str:
    while not _comes(to):
        await asyncio.sleep(0.001)
    return f"{to}: {interrupt(f'Pay {to}?')}"


def ask_in_thread(to: str) -> str:
    while not _comes(to):
        time.sleep(0.001)
    return f"{to}: {interrupt(f'Pay {to}?')}"


@tool
async def pay(to: str) -> str:
    """Pay somebody; A for nothing."""
    begun.append(to)
    return "A: free" if to == "A" else await ask(to)


@tool("pay")
def pay_in_thread(to: str) -> str:
    """Pay somebody; A for nothing."""
    begun.append(to)
    return "A: free" if to == "A" else ask_in_thread(to)


class One(TypedDict):
    to: str
    told: str


async def _asks(state: One) -> dict[str, Any]:
    return {"told": await ask(state["to"])}


_one = StateGraph(One).add_node("asks", _asks).add_edge(START, "asks").compile()


@tool("pay")
async def pay_by_agent(to: str) -> str:
    """Let an agent pay."""
    begun.append(to)
    return "A: free" if to == "A" else str((await _one.ainvoke({"to": to, "told": ""}))["told"])


def _model(state: MessagesState) -> dict[str, Any]:
    results = [message.text for message in state["messages"] if message.type == "tool"]
    calls = [{"name": "pay", "args": {"to": to}, "id": f"call_{to}"} for to in "ABC"]
    return {"messages": [AIMessage("; ".join(results)) if results else AIMessage("", tool_calls=calls)]}


def _with_tools(tools: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState).add_node("model", _model).add_node("tools", tools).add_edge(START, "model")
    return graph.add_conditional_edges("model", tools_condition).add_edge("tools", "model").compile()


tools = _with_tools(ToolNode([pay]))
tools_in_threads = _with_tools(ToolNode([pay_in_thread]))
agents_as_tools = _with_tools(ToolNode([pay_by_agent]))


async def _in_a_function(state: MessagesState) -> Any:
    return await ToolNode([pay]).ainvoke(state)


def _in_a_plain_function(state: MessagesState) -> Any:
    return ToolNode([pay_in_thread]).invoke(state)


tools_in_a_function = _with_tools(_in_a_function)
tools_in_a_plain_function = _with_tools(_in_a_plain_function)


def _around(node: Callable[[MessagesState], Any]) -> CompiledGraph:
    return StateGraph(MessagesState).add_node("outer", node).add_edge(START, "outer").compile()


async def _calls_a_graph(state: MessagesState) -> Any:
    return await tools.ainvoke(state)


def _calls_a_graph_in_its_thread(state: MessagesState) -> Any:
    return tools_in_threads.invoke(state)


graph_in_a_function = _around(_calls_a_graph)
graph_in_a_plain_function = _around(_calls_a_graph_in_its_thread)
one_place = tools_in_threads.with_config({"max_concurrency": 1})


class Told(MessagesState):
    told: Annotated[list[str], operator.add]


async def _sent_asks(state: One) -> dict[str, Any]:
    return {"told": [await ask(state["to"])]}


def _sends() -> CompiledGraph:
    graph = StateGraph(Told).add_node("asks", _sent_asks)
    graph.add_node("tell", lambda state: {"messages": [AIMessage("; ".join(["A: free", *sorted(state["told"])]))]})
    graph.add_conditional_edges(START, lambda state: [Send("asks", {"to": to}) for to in "BC"], ["asks"])
    return graph.add_edge("asks", "tell").compile()


sends = _sends()


@task
async def ask_in_task(to: str) -> str:
    return await ask(to)


@entrypoint()
async def tasks(messages: list[BaseMessage]) -> str:
    return "; ".join(["A: free", *await asyncio.gather(ask_in_task("B"), ask_in_task("C"))])


def _saying(asks: Callable[[], Awaitable[list[str]]]) -> CompiledGraph:
    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("; ".join(["A: free", *await asks()]))]}

    return _around(node)


async def _gathered() -> list[str]:
    return list(await asyncio.gather(ask("B"), ask("C")))


async def _begun_before() -> list[str]:
    return [await one for one in [asyncio.create_task(ask("B")), asyncio.create_task(ask("C"))]]


async def _in_a_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(ask("B")), group.create_task(ask("C"))]
    return [one.result() for one in both]


async def _waited_for() -> list[str]:
    both = [asyncio.create_task(ask("B")), asyncio.create_task(ask("C"))]
    await asyncio.wait(both)
    return [one.result() for one in both]


async def _in_threads() -> list[str]:
    return list(await asyncio.gather(*(asyncio.to_thread(ask_in_thread, to) for to in "BC")))


async def _graphs() -> list[str]:
    return [one["told"] for one in await asyncio.gather(*(_one.ainvoke({"to": to, "told": ""}) for to in "BC"))]


async def _tools_by_hand() -> list[str]:
    return list(await asyncio.gather(*(pay.ainvoke({"to": to}) for to in "BC")))


async def _parallel() -> list[str]:
    return list((await RunnableParallel(b=RunnableLambda(ask), c=RunnableLambda(ask)).ainvoke("B")).values())


gathered, begun_before, in_a_group = _saying(_gathered), _saying(_begun_before), _saying(_in_a_group)
waited_for, in_threads, graphs = _saying(_waited_for), _saying(_in_threads), _saying(_graphs)
tools_by_hand, parallel = _saying(_tools_by_hand), _saying(_parallel)
in_a_pool = _around(lambda state: {"messages": RunnableLambda(ask_in_thread).batch(["B", "C"])})


@entrypoint()
async def workflow(messages: list[BaseMessage]) -> str:
    return "; ".join(await _gathered())


async def _alone() -> list[str]:
    """One after the other, each behind other tasks and threads."""
    [first] = await asyncio.gather(ask("B"))
    second = await asyncio.wait_for(asyncio.create_task(ask("C")), 60)
    third = await asyncio.to_thread(ask_in_thread, "D")
    fourth = await RunnableLambda(ask_in_thread).ainvoke("E")
    # What has ended asks no more.
    await (ended := asyncio.create_task(asyncio.sleep(0)))
    _, fifth = await asyncio.gather(ended, ask("F"))
    return [first, second, third, fourth, fifth]


alone = _saying(_alone)


def _hands_over() -> CompiledGraph:
    """Its tools run a graph, of which one hands over to a node beside the tools."""

    def leave(state: One) -> Any:
        return Command(graph=Command.PARENT, goto="left", update={"messages": [AIMessage("left")]})

    inner = StateGraph(One).add_node("leave", leave).add_edge(START, "leave").compile()

    @tool("pay")
    async def hand_over(to: str) -> str:
        """Hand over."""
        await inner.ainvoke({"to": to, "told": ""})
        return "unreachable"

    graph = StateGraph(MessagesState).add_node("model", _model).add_node("tools", ToolNode([hand_over]))
    graph.add_node("left", lambda state: {"messages": [AIMessage("done")]})
    return graph.add_edge(START, "model").add_conditional_edges("model", tools_condition).compile()


handing_over = _hands_over()


_stops = StateGraph(One).add_node("says", lambda state: {"told": f"{state['to']}: go"}).add_edge(START, "says")
_stopping = _stops.compile(interrupt_before=["says"])


async def _then_stops(state: MessagesState) -> dict[str, Any]:
    first = await ask("B")
    return {"messages": [AIMessage(f"{first}; {(await _stopping.ainvoke({'to': 'C', 'told': ''}))['told']}")]}


then_stops = _around(_then_stops)
