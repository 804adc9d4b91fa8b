"""What modules do to the results of tools before a model sees them, whatever form a result has and whoever calls."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from support.recorded_agents import context_of
from support.turn_model import call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.permissions import Permissions, needs
from agentic_backend.agents.runtime_context import RuntimeContext, make_current
from agentic_backend.agents.tools.shown_parts import WithheldText
from agentic_backend.agents.tools.tool_guard import guard_tools

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/secret"}}
CallId = Annotated[str, InjectedToolCallId]


@tool
def plain() -> str:
    """A text."""
    return "secret"


@tool
def blocks() -> list[Any]:
    """Texts among other blocks."""
    return [{"type": "text", "text": "secret"}, IMAGE]


@tool
def command(call_id: CallId) -> Command[Any]:
    """A change of the graph's state."""
    return Command(update={"messages": [HumanMessage("secret"), ToolMessage("secret", tool_call_id=call_id)]})


@tool
def several(call_id: CallId) -> list[Any]:
    """A change of the state beside a message."""
    return [Command(update={"noted": "secret"}), ToolMessage("secret", tool_call_id=call_id)]


@tool
def fails() -> str:
    """A failure, whose text a model sees too."""
    raise ValueError("secret")


class State(MessagesState):
    noted: str


def graph_of(tools: Sequence[BaseTool]) -> CompiledGraph:
    graph = StateGraph(State).add_node("tools", ToolNode(list(tools), handle_tool_errors=True)).add_edge(START, "tools")
    compiled = graph.compile()
    guard_tools(compiled)
    return compiled


def context() -> RuntimeContext:
    async def masked(name: str, text: str) -> str:
        # As a module that asks another service.
        await asyncio.sleep(0)
        return text.replace("secret", f"[{name}]")

    made = context_of("s")
    made.filter_tool_result = masked
    make_current(made)
    return made


async def called(graph: CompiledGraph, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await graph.ainvoke(asks(name))
    return found


async def called_synchronously(graph: CompiledGraph, name: str) -> dict[str, Any]:
    """As an author's node does that calls a graph in a thread."""
    return await asyncio.to_thread(graph.invoke, asks(name))


async def called_in_another_loop(graph: CompiledGraph, name: str) -> dict[str, Any]:
    return await asyncio.to_thread(lambda: asyncio.run(called(graph, name)))


def asks(name: str) -> Any:
    return {"messages": [AIMessage("", tool_calls=[call(name, "c1")])]}


Call = Callable[[CompiledGraph, str], Any]
CALLS = [called, called_synchronously, called_in_another_loop]


@pytest.mark.parametrize("invoke", CALLS)
@pytest.mark.parametrize("used", [plain, blocks, command, several, fails])
async def test_no_text_of_a_result_reaches_the_model_unchanged(used: BaseTool, invoke: Call) -> None:
    context()
    state = await invoke(graph_of([used]), used.name)
    [result] = [message for message in state["messages"] if message.type == "tool"]
    assert f"[{used.name}]" in result.text
    assert "secret" not in result.text


SHOWN = [
    {"type": "code", "code": "secret"},
    {"type": "custom", "kind": "a:b", "text": "secret", "data": {"deep": [{"secret": "a\nsecret"}], "number": 1.5}},
    {"type": "image_url", "url": "https://example.org/secret"},
]


@tool(response_format="content_and_artifact")
def showing() -> tuple[str, dict[str, Any]]:
    """A text, and parts beside it."""
    return "a text", {"parts": SHOWN}


async def shown_as(look: Callable[[str], str]) -> list[Any]:
    """The parts, as modules that look so leave them."""

    async def looked(name: str, text: str) -> str:
        return look(text)

    run = context()
    run.filter_tool_result = looked
    parts: list[Any] = (await called(graph_of([showing]), "showing"))["messages"][-1].artifact["parts"]
    return parts


async def test_what_is_shown_beside_a_result_is_changed_as_the_result_is() -> None:
    # A pattern of whole words sees a text as it is, not as JSON writes it.
    code, custom, image = await shown_as(lambda text: re.sub(r"\bsecret\b", "***", text))
    assert (code["code"], custom["text"], image) == ("***", "***", SHOWN[2])
    assert custom["data"] == {"deep": [{"***": "a\n***"}], "number": 1.5}


async def test_what_modules_put_around_a_text_is_for_models_alone() -> None:
    assert await shown_as(lambda text: f"<data>{text}</data>") == SHOWN


WITHHELD = {"type": "text", "text": "A part of the result has been withheld."}


async def test_data_with_what_goes_over_several_texts_are_left_out() -> None:
    parts = await shown_as(lambda text: text.replace("secret\na\nsecret", "***"))
    assert parts == [SHOWN[0], WITHHELD, SHOWN[2]]


@pytest.mark.parametrize("blocked", ["a text", "secret"])
async def test_nothing_is_shown_beside_a_result_of_which_a_text_is_blocked(blocked: str) -> None:
    parts = await shown_as(lambda text: WithheldText("I can't help with that.") if text == blocked else text)
    assert parts == [WITHHELD]


async def test_of_more_texts_than_are_looked_at_none_is_shown() -> None:
    @tool(response_format="content_and_artifact")
    def many() -> tuple[str, dict[str, Any]]:
        """Many texts."""
        part = {"type": "custom", "kind": "a:b", "text": "b", "data": {"texts": [*map(str, range(300)), "secret"]}}
        return "a text", {"parts": [part]}

    context()
    state = await called(graph_of([many]), "many")
    assert state["messages"][-1].artifact["parts"] == [WITHHELD]


@pytest.mark.parametrize("invoke", CALLS)
async def test_only_results_of_tools_are_changed(invoke: Call) -> None:
    context()
    state = await invoke(graph_of([command]), "command")
    assert [message.text for message in state["messages"] if message.type == "human"] == ["secret"]
    state = await invoke(graph_of([blocks]), "blocks")
    assert state["messages"][-1].content[1] == IMAGE


@pytest.mark.parametrize("invoke", CALLS)
async def test_a_refused_call_does_not_run(invoke: Call) -> None:
    ran: list[str] = []

    @needs("grades:write:all")
    @tool
    def grade() -> str:
        """Grade."""
        ran.append("grade")
        return "graded"

    context().permissions = Permissions(frozenset({"todos:*:self"}))
    state = await invoke(graph_of([grade]), "grade")
    result = state["messages"][-1]
    assert (result.status, result.additional_kwargs) == ("error", {"forbidden": ["grades:write:all"]})
    assert ran == []
