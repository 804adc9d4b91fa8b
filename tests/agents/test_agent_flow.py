"""AgentFlow: what an author's class and its tools are given, and what of it stays out of LangGraph's own records."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from support.recorded_agents import agent_services, context_of, echoing_graph, entry_of

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph, GraphFlow, StreamPart
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.errors import AgentUnavailable, Unauthenticated
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.testing import ScriptedModel, call

TOKEN = "the-access-token"


def graph_flow(graph: CompiledGraph, *, refresh_token: str | None = None, **settings: Any) -> AgentFlow:
    context = context_of("s1", token=TOKEN)
    context.tokens.offer(Tokens(TOKEN, refresh_token))
    entry = entry_of(graph, **settings)
    return GraphFlow(entry.settings, agent_services(cheap=OfflineChatModel(words_per_second=0)), context, graph)


async def run(agent: AgentFlow, message: str = "hello") -> list[StreamPart]:
    config = RunnableConfig(configurable={"thread_id": "exchange"})
    return [part async for part in agent.astream_updates({"messages": [HumanMessage(message)]}, config)]


async def tool_results(agent: AgentFlow) -> list[str]:
    updates = [payload for _, mode, payload in await run(agent) if mode == "updates"]
    messages = [message for update in updates for node in update.values() for message in node["messages"]]
    return [message.text for message in messages if isinstance(message, ToolMessage)]


def agent_that_calls(*tools: StructuredTool) -> CompiledGraph:
    """An agent that calls its tools one after the other, each in a message of its own."""

    return create_agent(ScriptedModel(*(call(tool.name) for tool in tools), "done"), tools=tools)


def test_a_tuning_field_is_its_text_or_the_default() -> None:
    agent = graph_flow(echoing_graph(), tuning={"fields": {"prompt": "Be brief.", "limit": 3, "empty": ""}})
    assert agent.tuned("prompt", "Be long.") == "Be brief."
    assert agent.tuned("limit", "7") == "3"
    assert agent.tuned("empty", "something") == ""
    assert agent.tuned("absent", "the default") == "the default"


def test_the_chat_model_is_the_one_that_the_entry_names() -> None:
    default, cheap = graph_flow(echoing_graph()), graph_flow(echoing_graph(), model="cheap")
    assert isinstance(default.chat_model(), OfflineChatModel)
    assert cheap.chat_model() is not default.chat_model()
    assert cheap.chat_model() is cheap.chat_model(), "built once and shared"
    with pytest.raises(AgentUnavailable, match="'openai:none'"):
        graph_flow(echoing_graph(), model="openai:none").chat_model()


def test_a_class_without_a_graph_says_so() -> None:
    settings = entry_of(echoing_graph()).settings
    with pytest.raises(AgentUnavailable, match="get_compiled_graph"):
        AgentFlow(settings, agent_services(), context_of("s1")).get_compiled_graph()


class OwnChannels(MessagesState):
    active_agent: str
    notes: Annotated[list[str], lambda before, new: [*before, *new]]


class Answer(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: list[str]


def _graph(state: Any, **schemas: Any) -> CompiledGraph:
    graph = StateGraph(state, **schemas)
    graph.add_node("answer", lambda state: {"messages": [AIMessage("x")]})
    graph.add_edge(START, "answer")
    return graph.compile()


@pytest.mark.parametrize(
    ("graph", "kept"),
    [
        (echoing_graph(), set()),
        (create_agent(OfflineChatModel(), tools=[]), set()),
        (_graph(OwnChannels), {"active_agent", "notes"}),
        (_graph(OwnChannels, output_schema=Answer), {"notes"}),
        (_graph(OwnChannels, output_schema=MessagesState), set()),
    ],
)
def test_what_is_kept_is_what_a_graph_gives_back_beside_its_messages(graph: CompiledGraph, kept: set[str]) -> None:
    assert graph_flow(graph).kept_channels - {"structured_response"} == kept


async def test_a_newer_token_is_what_later_tools_of_the_same_run_see() -> None:
    agent: AgentFlow

    def seen(runtime: ToolRuntime[RuntimeContext]) -> str:
        """Tell which token is used."""
        return str(runtime.context.access_token)

    async def renew() -> str:
        """Get a newer token."""
        return await agent.refresh_user_access_token()

    see, trade = StructuredTool.from_function(seen), StructuredTool.from_function(coroutine=renew)
    agent = graph_flow(agent_that_calls(see, trade, see, trade, see), refresh_token="refresh")
    assert await tool_results(agent) == [
        TOKEN,
        "newer than refresh",
        "newer than refresh",
        "newer than refresh+",
        "newer than refresh+",
    ]
    assert agent.runtime_context.access_token == "newer than refresh+"
    assert agent.runtime_context.refresh_token == "refresh++"


async def test_without_a_refresh_token_there_is_no_newer_token() -> None:
    agent = graph_flow(echoing_graph())
    with pytest.raises(Unauthenticated):
        await agent.refresh_user_access_token()
    assert agent.runtime_context.access_token == TOKEN


async def test_a_node_without_a_context_schema_gets_the_context() -> None:
    async def answer(state: MessagesState, runtime: Runtime[RuntimeContext]) -> dict[str, Any]:
        return {"messages": [AIMessage(f"{runtime.context.user_id} {runtime.context.access_token}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    [(_, _, update)] = await run(graph_flow(graph.compile()))
    assert update["answer"]["messages"][0].text == f"user {TOKEN}"


async def test_no_token_is_in_what_langgraph_records_of_a_run() -> None:
    """Checkpoints and traces hold the metadata, and of `configurable` what isn't LangGraph's own."""
    recorded: list[Any] = []

    def look(runtime: ToolRuntime[RuntimeContext]) -> str:
        """Look at the configuration of the run."""
        configurable = {key: value for key, value in runtime.config["configurable"].items() if key[:2] != "__"}
        recorded.append((runtime.config["metadata"], configurable, runtime.config.get("tags")))
        return "seen" if runtime.context.access_token == TOKEN else "not given"

    agent = graph_flow(agent_that_calls(StructuredTool.from_function(look)))
    assert await tool_results(agent) == ["seen"]
    assert recorded
    assert TOKEN not in repr(recorded)
    assert TOKEN not in repr(agent.runtime_context)


async def test_a_checkpointer_of_the_author_collects_nothing() -> None:
    """The graph is shared by all sessions, and its memory would grow for good."""
    saver, seen = InMemorySaver(), list[str]()

    async def answer(state: MessagesState, runtime: Runtime[RuntimeContext]) -> dict[str, Any]:
        seen.append(str(runtime.context.access_token))
        return {"messages": [AIMessage("x")]}

    inner = StateGraph(MessagesState)
    inner.add_node("answer", answer)
    inner.add_edge(START, "answer")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile(checkpointer=saver))
    outer.add_edge(START, "inner")
    await run(graph_flow(outer.compile(checkpointer=saver)))
    assert seen == [TOKEN]
    assert not list(saver.list(None))


async def test_an_author_may_stream_what_is_no_graph() -> None:
    """`astream_updates` is what is served; a class may put something of its own before it."""

    class Prefaced(GraphFlow):
        async def astream_updates(self, *args: Any, **kwargs: Any) -> AsyncIterator[StreamPart]:
            preface: list[BaseMessage] = [AIMessage("First this.")]
            yield ((), "updates", {"preface": {"messages": preface}})
            async for part in super().astream_updates(*args, **kwargs):
                yield part

    graph = echoing_graph()
    agent = Prefaced(entry_of(graph).settings, agent_services(), context_of("s1"), graph)
    assert [list(payload) for _, _, payload in await run(agent)] == [["preface"], ["answer"]]
