"""A leader's tools: an expert's graph within a tool's call."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from pydantic import BaseModel
from support.recorded_agents import agent_services, context_of, entry_of

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph, GraphFlow
from agentic_backend.agents.delegation import Handoff
from agentic_backend.agents.leader_flow import LeaderFlow
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import delegation_tool_name
from agentic_backend.testing import ScriptedModel, call


def graph_of(node: Any, **options: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState, context_schema=RuntimeContext)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    return graph.compile(**options)


def expert(graph: CompiledGraph, agent_id: str = "scout", **settings: Any) -> AgentFlow:
    entry = entry_of(graph, agent_id, **settings)
    return GraphFlow(entry.settings, agent_services(), context_of("s1", user_id="ann"), graph)


def tools_for(*experts: AgentFlow) -> list[BaseTool]:
    class Leader(LeaderFlow):
        def get_compiled_graph(self) -> CompiledGraph:
            return experts[0].get_compiled_graph()

    leader = Leader(entry_of(Leader, "chief", type="leader").settings, agent_services(), context_of("s1"))
    return leader.delegation_tools({one.settings.id: one for one in experts})


async def led(tools: list[BaseTool], *questions: str) -> tuple[list[ToolMessage], list[Any]]:
    """The results of these questions, put to the first expert at once by a leader, and the handoffs that it told."""
    calls = [call(tools[0].name, question=text) for text in questions]
    leader = create_agent(ScriptedModel(calls, "done"), tools)
    told, results = [], []
    async for mode, payload in leader.astream({"messages": [HumanMessage("go")]}, stream_mode=["custom", "updates"]):
        if mode == "custom":
            told.append(payload)
        elif "tools" in payload:
            results += payload["tools"]["messages"]
    return results, told


async def test_an_expert_is_asked_the_question_alone_and_gives_its_last_text() -> None:
    seen = []

    def answer(state: MessagesState) -> dict[str, Any]:
        seen.append([message.text for message in state["messages"]])
        return {"messages": [AIMessage("first"), AIMessage("last")]}

    [result], told = await led(tools_for(expert(graph_of(answer))), "how deep?")
    assert seen == [["how deep?"]]
    assert (result.text, result.status, result.name) == ("last", "success", "ask_scout")
    assert told == [Handoff("chief", "scout"), Handoff("scout", "chief")]


async def test_an_expert_that_adds_nothing_does_not_answer_with_the_question() -> None:
    [result], _ = await led(tools_for(expert(graph_of(lambda state: {}))), "transfer 5?")
    assert (result.status, result.text) == ("error", "The agent 'scout' gave no answer.")


async def test_an_expert_with_a_structured_response_answers_with_its_json() -> None:
    class Depth(BaseModel):
        metres: int

    graph = create_agent(ScriptedModel(call("Depth", metres=5)), tools=[], response_format=ToolStrategy(Depth))
    [result], _ = await led(tools_for(expert(graph)), "how deep?")
    assert (result.status, result.text) == ("success", '{"metres":5}')


async def test_an_expert_has_its_runtime_context() -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(get_runtime(RuntimeContext).context.user_id)]}

    [result], _ = await led(tools_for(expert(graph_of(answer))), "who am I?")
    assert result.text == "ann"


def test_the_tool_says_what_the_expert_is_for() -> None:
    graph = graph_of(lambda state: {})
    [tool] = tools_for(expert(graph, "scout.two", name="Scout", description="Finds the way."))
    assert tool.name == "ask_scout_two"
    assert tool.description.startswith("Ask Scout. Finds the way.")
    assert list(tool.args) == ["question"]


def test_names_of_tools_are_what_providers_take() -> None:
    assert delegation_tool_name("a.b-c_d") == "ask_a_b-c_d"
    assert len(delegation_tool_name("x" * 64)) == 64


def _raise(state: MessagesState) -> dict[str, Any]:
    raise ValueError("the secret of the expert")


def _unavailable(state: MessagesState) -> dict[str, Any]:
    raise AgentUnavailable("The MCP server 'search' is not available.")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (_raise, "The agent 'scout' failed."),
        (_unavailable, "The MCP server 'search' is not available."),
        (lambda state: {"messages": [AIMessage("")]}, "The agent 'scout' gave no answer."),
    ],
    ids=["raises", "unavailable", "silent"],
)
async def test_an_expert_that_fails_is_a_failed_result(node: Any, text: str) -> None:
    results, told = await led(tools_for(expert(graph_of(node))), "one?", "two?")
    assert sorted(one.origin for one in told) == ["chief", "chief", "scout", "scout"], "it hands back"
    assert [(result.status, result.text) for result in results] == [("error", text)] * 2


async def test_an_expert_that_pauses_for_a_person_has_not_failed() -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("Which one?"))]}

    tools = tools_for(expert(graph_of(ask)))
    model = ScriptedModel(call("ask_scout", question="which?"))
    leader = create_agent(model, tools, checkpointer=InMemorySaver())
    state = await leader.ainvoke({"messages": [HumanMessage("go")]}, {"configurable": {"thread_id": "1"}})
    assert [interrupted.value for interrupted in state["__interrupt__"]] == ["Which one?"]


async def test_a_checkpointer_of_the_authors_collects_no_question() -> None:
    saver = InMemorySaver()
    graph = graph_of(lambda state: {"messages": [AIMessage("yes")]}, checkpointer=saver)
    [result], _ = await led(tools_for(expert(graph)), "one?")
    assert result.text == "yes"
    assert list(saver.list(None)) == []
