"""What modules do to the results of tools before a model sees them, whatever form a result has and whoever calls."""

import asyncio
import re
from collections.abc import Callable, Sequence
from types import MappingProxyType
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
from agentic_backend.agents.tools.result_texts import results_in, with_texts
from agentic_backend.agents.tools.shown_parts import WithheldText
from agentic_backend.agents.tools.tool_guard import guard_tools
from agentic_backend.protocol.parts import LinkPart

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
    async def masked(name: str, names: Sequence[str], text: str) -> str:
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


PLAIN = {"type": "image_url", "url": "data:image/png;base64,secret", "alt": "a picture"}
WITHHELD = {"type": "text", "text": "A part of the result has been withheld."}
SHOWN: list[Any] = [
    {"type": "code", "code": "secret"},
    {"type": "custom", "kind": "a:b", "text": "secret", "data": {"deep": [{"secret": "a\nsecret"}], "number": 1.5}},
    {"type": "image_url", "url": "https://example.org/secret"},
    PLAIN,
    # As a tool's author may give them.
    LinkPart(href="https://example.org/", title="a secret", kind="related"),
    MappingProxyType({"type": "chart", "points": ({"name": "secret"},)}),
]


@tool(response_format="content_and_artifact")
def showing() -> tuple[str, dict[str, Any]]:
    """A text, and parts beside it."""
    return "a text", {"parts": SHOWN}


async def shown_as(look: Callable[[str], str]) -> list[Any]:
    """The parts, as modules that look so leave them."""

    async def looked(name: str, names: Sequence[str], text: str) -> str:
        return look(text)

    run = context()
    run.filter_tool_result = looked
    parts: list[Any] = (await called(graph_of([showing]), "showing"))["messages"][-1].artifact["parts"]
    return parts


async def test_what_is_shown_beside_a_result_is_changed_as_the_result_is() -> None:
    # A pattern of whole words sees a text as it is, not as JSON writes it.
    code, custom, *others = await shown_as(lambda text: re.sub(r"\bsecret\b", "***", text))
    assert (code["code"], custom["text"], others) == ("***", "***", [WITHHELD, PLAIN, WITHHELD, WITHHELD])
    assert custom["data"] == {"deep": [{"***": "a\n***"}], "number": 1.5}


async def test_what_modules_put_around_a_text_is_for_models_alone() -> None:
    parts = await shown_as(lambda text: f"<data>{text}</data>")
    assert parts[:4] == SHOWN[:4] and len(parts) == len(SHOWN)
    assert WITHHELD not in parts


async def test_data_with_what_goes_over_several_texts_are_left_out() -> None:
    parts = await shown_as(lambda text: text.replace("deep\na\nsecret", "***"))
    assert parts[:4] == [SHOWN[0], WITHHELD, SHOWN[2], PLAIN] and WITHHELD not in parts[4:]


@pytest.mark.parametrize("blocked", ["a text", "secret"])
async def test_nothing_is_shown_beside_a_result_of_which_a_text_is_blocked(blocked: str) -> None:
    parts = await shown_as(lambda text: WithheldText("I can't help with that.") if blocked in text else text)
    assert parts == [WITHHELD]


async def beside(*parts: Any, word: str = "secret") -> tuple[list[Any], int]:
    """What is left of these parts by a module that masks a word, and how often it has looked at them."""
    looks: list[str] = []

    async def masked(name: str, names: Sequence[str], text: str) -> str:
        looks.append(text)
        return text.replace(word, "***")

    @tool(response_format="content_and_artifact")
    def shows() -> tuple[str, dict[str, Any]]:
        """Parts."""
        return "a text", {"parts": list(parts)}

    run = context()
    run.filter_tool_result = masked
    state = await called(graph_of([shows]), "shows")
    return state["messages"][-1].artifact["parts"], len(looks) - 1


def custom(**data: Any) -> dict[str, Any]:
    return {"type": "custom", "kind": "a:b", "text": "b", "data": data}


async def test_a_long_number_counts_as_a_text_and_a_short_one_does_not() -> None:
    data = {"card": 4111111111111111, "rows": [4111, 2.5, True], "other": 1700000000000}
    [part], _ = await beside(custom(**data), word="4111111111111111")
    assert part["data"] == {**data, "card": "***"}
    [part], _ = await beside(custom(**data), word="4111\n")
    assert part["data"] == data


async def test_what_nobody_objects_to_is_looked_at_once() -> None:
    parts = [custom(texts=[*map(str, range(5_000))]) for _ in range(10)]
    assert await beside(*parts) == (parts, 1)


async def test_what_is_looked_at_of_a_result_is_bounded() -> None:
    assert await beside(custom(texts=[*map(str, range(300)), "secret"])) == ([WITHHELD], 1)
    left, looks = await beside(*(custom(texts=[f"secret {n}" for n in range(60)]) for _ in range(64)))
    assert looks <= 100 and left.count(WITHHELD) == 63
    left, looks = await beside(*({"type": "code", "language": "a", "code": f"secret {n}"} for n in range(1_000)))
    assert looks == 100 and len(left) == 64 and left.count(WITHHELD) == 32
    assert await beside(custom(text="a" * 3_000_000)) == ([WITHHELD], 0)


async def test_all_within_a_parts_data_is_looked_at() -> None:
    data = {"type": "secret", "kind": "secret", "mime": "secret", "rel": "secret", "url": "data:;base64,secret"}
    [part], _ = await beside(custom(**data, deep=[data]))
    masked = {**dict.fromkeys(data, "***"), "url": "data:;base64,***"}
    assert part == custom(**masked, deep=[masked])


@pytest.mark.parametrize("key", ["title", "rel", "mime"])
async def test_a_link_is_left_out_for_its_words(key: str) -> None:
    assert (await beside({"type": "link", "href": "/", "kind": "view", key: "secret"}))[0] == [WITHHELD]


async def test_an_image_within_its_address_is_no_text_but_one_in_words_is() -> None:
    words = {"type": "image_url", "url": "data:image/svg+xml,<svg><text>secret</text></svg>"}
    assert (await beside(PLAIN, words))[0] == [PLAIN, WITHHELD]


async def test_the_contracts_own_keys_are_no_texts() -> None:
    shown = [{"type": "secret", "kind": "secret", "secret": "a"}]
    assert await beside(*shown) == (shown, 1)


async def test_parts_that_are_none_are_left_out() -> None:
    deep: Any = "a"
    for _ in range(3_000):
        deep = [deep]
    assert await beside(custom(deep=deep), object(), 5, {1: object()}) == ([WITHHELD] * 4, 1)


MESSAGE = ToolMessage("secret", tool_call_id="c1")
UPDATES: list[Any] = [
    {"messages": MESSAGE},
    {"messages": (MESSAGE,)},
    [("messages", [MESSAGE])],
    [("messages", MESSAGE)],
]


@pytest.mark.parametrize("update", UPDATES, ids=["alone", "a tuple", "pairs", "a pair"])
def test_a_result_in_any_form_of_a_command_is_looked_at(update: Any) -> None:
    changed = with_texts([Command(update=update)], lambda message, text: "***")
    assert [message.text for message in results_in(changed)] == ["***"]


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
