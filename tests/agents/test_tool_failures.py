"""No secret in what a tool fails with reaches a model or an author's wrappers, and its class still says what it is."""

import asyncio
import json
from collections import UserString
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware, wrap_tool_call
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from support.cpu_time import takes_at_most
from support.recorded_agents import context_of, entry_of
from support.sessions import USER, events_of, open_sessions
from support.turn_model import call

from agentic_backend.agents.agent_flow import CompiledGraph
from agentic_backend.agents.runtime_context import current_context, make_current
from agentic_backend.agents.tools.tool_failures import hide_secrets
from agentic_backend.agents.tools.tool_guard import guard_tools
from agentic_backend.auth.user import Tokens
from agentic_backend.protocol.parts import TextPart
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.testing import ScriptedModel
from agentic_backend.testing import call as calls

# No pattern of a redaction knows this one.
TOKEN = "opaque.aa11bb22"
GUESSED = "Bearer of-another-service"


class Refused(ValueError):
    """Has its text in an attribute, as many libraries' errors do."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told
        self.status = 403

    def __str__(self) -> str:
        return f"{self.status}: {self.told}"


def failing(error: Exception, **options: Any) -> BaseTool:
    async def fail() -> str:
        raise error

    def fail_in_thread() -> str:
        raise error

    return StructuredTool.from_function(
        func=fail_in_thread, coroutine=fail, name="fail", description="Fail.", **options
    )


def by_type(error: ValueError) -> str:
    return f"handled {type(error).__name__} {error}"


@wrap_tool_call
async def answers(request: Any, handler: Any) -> Any:
    try:
        return await handler(request)
    except ValueError as error:
        # As LangChain's documentation does it: no failed result.
        return ToolMessage(f"handled {error}", tool_call_id=request.tool_call["id"])


def of_node(tool: BaseTool, **options: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState).add_node("tools", ToolNode([tool], **options)).add_edge(START, "tools").compile()
    guard_tools(graph)
    return graph


def of_agent(tool: BaseTool, *middleware: Any) -> CompiledGraph:
    graph = create_agent(ScriptedModel([calls("fail")], "done"), tools=[tool], middleware=middleware)
    guard_tools(graph)
    return graph


TOLD = f"no access with {TOKEN} and {GUESSED}"
HANDLED = [True, ValueError, (KeyError, ValueError), by_type]


async def result_of(graph: CompiledGraph, *, is_sync: bool = False) -> ToolMessage:
    context = context_of("s", token=TOKEN)
    context.known_secrets = lambda: [TOKEN]
    make_current(context)
    state: Any = {"messages": [HumanMessage("go"), AIMessage("", tool_calls=[call("fail", "c1")])]}
    found = await (asyncio.to_thread(graph.invoke, state) if is_sync else graph.ainvoke(state))
    [result] = [message for message in found["messages"] if isinstance(message, ToolMessage)]
    return result


def check(text: str) -> None:
    assert "[redacted]" in text
    assert TOKEN not in text and "of-another" not in text


@pytest.mark.parametrize("is_sync", [False, True])
@pytest.mark.parametrize("handled", HANDLED)
async def test_a_node_s_own_handling_tells_no_secret(handled: Any, is_sync: bool) -> None:
    result = await result_of(of_node(failing(Refused(TOLD)), handle_tool_errors=handled), is_sync=is_sync)
    check(result.text)
    assert "Refused" in result.text


@pytest.mark.parametrize("told", [True, lambda error: f"it said {error}"])
async def test_a_tool_s_own_handling_tells_no_secret(told: Any) -> None:
    failure = ToolException(TOLD)
    check((await result_of(of_node(failing(failure, handle_tool_error=told)))).text)


@pytest.mark.parametrize("middleware", [answers, ToolRetryMiddleware(max_retries=1, initial_delay=0)])
async def test_middleware_that_handles_failures_tells_no_secret(middleware: Any) -> None:
    check((await result_of(of_agent(failing(Refused(TOLD)), middleware))).text)


async def test_what_is_not_handled_is_raised_as_it_was() -> None:
    with pytest.raises(Refused) as raised:
        await result_of(of_node(failing(Refused(TOLD)), handle_tool_errors=(KeyError,)))
    assert raised.value.status == 403
    check(str(raised.value))


def noted() -> Exception:
    error = RuntimeError("failed")
    error.add_note(f"asked with {TOKEN} and {GUESSED}")
    return error


def caused() -> Exception:
    error = RuntimeError("failed")
    error.__cause__ = ExceptionGroup("of several", [KeyError(TOKEN), OSError(13, "no", f"/tmp/{TOKEN}")])
    error.__context__ = ValueError({"headers": {"authorization": TOKEN}, "tried": [GUESSED]})
    return error


class Slotted(ValueError):
    __slots__ = ("__own", "told")

    def __init__(self) -> None:
        self.told = TOKEN
        self.__own = {"tried": [GUESSED]}

    def __str__(self) -> str:
        return f"{self.told} {self.__own}"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError


def of_objects() -> Exception:
    return ValueError(Path("/tmp", TOKEN), ValueError(TOKEN), UserString(GUESSED), [TOKEN, Unspeakable()])


def of_very_many() -> Exception:
    return ExceptionGroup("of very many", [ValueError(f"{number} {TOKEN} {GUESSED}") for number in range(200)])


@pytest.mark.parametrize(
    "make",
    [
        noted,
        caused,
        Slotted,
        of_objects,
        of_very_many,
        lambda: UnicodeDecodeError("utf-8", b"", 0, 1, GUESSED),
        lambda: UnicodeDecodeError("utf-8", f"{TOKEN} {GUESSED}".encode(), 0, 1, "why"),
    ],
)
def test_secrets_are_hidden_wherever_an_exception_has_them(make: Callable[[], Exception]) -> None:
    error = make()
    hide_secrets(error, [TOKEN])
    members = [*getattr(error, "exceptions", ()), *getattr(error.__cause__, "exceptions", ())]
    shown = [error, error.__cause__, error.__context__, *members]
    texts = "".join(f"{one} {one!r} {getattr(one, '__notes__', '')} {getattr(one, 'object', '')}" for one in shown)
    check(texts)


def test_other_values_of_an_exception_stay() -> None:
    kept = {"code": 7, "at": (1, 2)}
    error = LookupError("nothing found", kept, None)
    hide_secrets(error, [TOKEN])
    assert error.args == ("nothing found", kept, None) and error.args[1] is kept
    group = ExceptionGroup("of one", [ValueError(TOKEN)])
    hide_secrets(group, [TOKEN])
    assert group.args == ("of one", list(group.exceptions)), "the members are what they were"


class Fixed(ValueError):
    def __str__(self) -> str:
        return TOLD


@pytest.mark.parametrize("read", [lambda file: file.decode(), lambda file: json.loads(file.decode("latin-1"))])
def test_a_failure_that_holds_a_whole_file_holds_nobody_up(read: Callable[[bytes], object]) -> None:
    with pytest.raises(ValueError) as failed:
        read(f"{TOKEN} ".encode() + bytes(range(256)) * 10_000)
    # A tenth of a second; all of it takes ten.
    assert takes_at_most(1, lambda: hide_secrets(failed.value, [TOKEN]))
    shown = [getattr(failed.value, name, b"") for name in ("object", "args", "doc")]
    assert TOKEN not in str(shown)


async def test_what_can_t_be_changed_is_hidden_once_it_is_told() -> None:
    check((await result_of(of_node(failing(Fixed()), handle_tool_errors=by_type))).text)


@pytest.mark.parametrize("is_sync", [False, True])
@pytest.mark.parametrize("make", [Fixed, lambda: ExceptionGroup(TOLD, [ValueError()])])
async def test_what_can_t_be_changed_is_hidden_too_where_middleware_tells_it(
    make: Callable[[], Exception], is_sync: bool
) -> None:
    @wrap_tool_call
    def answers_all(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception as error:
            return ToolMessage(f"handled {error}", tool_call_id=request.tool_call["id"])

    @wrap_tool_call
    async def answers_all_async(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except Exception as error:
            return ToolMessage(f"handled {error}", tool_call_id=request.tool_call["id"])

    graph = of_agent(failing(make()), answers_all if is_sync else answers_all_async)
    check((await result_of(graph, is_sync=is_sync)).text)


async def test_in_an_exchange_the_user_s_token_reaches_no_client_and_no_store(tmp_path: Any) -> None:
    async def fail() -> str:
        raise ValueError(f"no access with {current_context().access_token}")

    tool = StructuredTool.from_function(coroutine=fail, name="fail", description="Fail.")
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [AIMessage("", tool_calls=[call("fail", "c1")])]})
    graph.add_node("tools", ToolNode([tool], handle_tool_errors=True))
    graph.add_edge(START, "ask").add_edge("ask", "tools")
    async with open_sessions(tmp_path, {"agent": entry_of(graph.compile(), "agent")}) as sessions:
        turn = Turn(parts=[TextPart(text="go")])
        events = await events_of(await sessions.orchestrator.ask(USER, turn, Tokens(TOKEN), "request"))
        assert "no access with [redacted]" in str(events)
        assert TOKEN not in str(events)
        assert all(TOKEN.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
