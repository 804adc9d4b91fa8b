"""Graphs that go beyond limits, as their authors might write them, and a model that is as busy as it is asked to be."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from support.phrase_model import PhraseModel

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.leader_flow import NO_CREW, LeaderFlow

LONG_S = 3600

noted: list[str] = []
"""What the tools have noted, in order; a test begins with an empty list."""


class BusyModel(BaseChatModel):
    """Calls the first of its tools as often as the last word of the person says, once in a message; then it is done."""

    tokens: int | None = None
    """The tokens that each call says it used, half of them read."""
    tools: Sequence[str] = ()

    @property
    def _llm_type(self) -> str:
        return "busy"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.model_copy(update={"tools": [tool.name for tool in tools]})

    def _said(self, messages: list[BaseMessage]) -> AIMessageChunk:
        last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        done = sum(isinstance(message, ToolMessage) for message in messages[last:])
        calls = []
        if done < int(messages[last].text.split()[-1]):
            args = '{"question": "2"}' if self.tools[0].startswith("ask_") else "{}"
            calls = [tool_call_chunk(name=self.tools[0], args=args, id=uuid4().hex, index=0)]
        usage = None
        if self.tokens is not None:
            half = self.tokens // 2
            usage = UsageMetadata(input_tokens=half, output_tokens=half, total_tokens=2 * half)
        return AIMessageChunk(f"After {done}.", tool_call_chunks=calls, usage_metadata=usage)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=self._said(messages))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **_: Any,
    ) -> ChatResult:
        said = self._said(messages)
        message = AIMessage(said.text, tool_calls=said.tool_calls, usage_metadata=said.usage_metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def note() -> str:
    """Note that it ran."""
    noted.append("ran")
    return "noted"


@tool
async def ask_first() -> str:
    """Note that it ran once a person has said so."""
    answer = str(interrupt({"question": "May I?"}))
    noted.append(answer)
    return answer


@tool
async def hang() -> str:
    """Never end."""
    await asyncio.sleep(LONG_S)
    return ""


@tool
async def chatter() -> str:
    """Report for good."""
    while True:
        await asyncio.sleep(0.05)
        await PhraseModel().ainvoke("hello")


@tool
async def hold() -> str:
    """Note that it ran; the second time it has begun, it is held."""
    noted.append("began")
    if noted.count("began") == 2:
        await asyncio.sleep(LONG_S)
    noted.append("ran")
    return "held"


@tool
async def report() -> str:
    """Work for longer than a tool may be silent, and say so."""
    for number in range(8):
        await asyncio.sleep(0.25)
        get_stream_writer()({"done": number})
    return "reported"


def _agent(*tools: BaseTool, **model: Any) -> CompiledGraph:
    return create_agent(BusyModel(**model), tools=tools)


busy = _agent(note)
costly = _agent(note, tokens=10)
asking = _agent(ask_first)
hanging_tool = _agent(hang)
reporting_tool = _agent(report)
holding = _agent(hold)


def speechless(model: BaseChatModel) -> CompiledGraph:
    return create_agent(model)


def _call_two(state: MessagesState) -> dict[str, Any]:
    calls: list[Any] = [{"name": name, "args": {}, "id": name, "type": "tool_call"} for name in ("hang", "chatter")]
    return {"messages": [AIMessage("", tool_calls=calls)]}


_beside = StateGraph(MessagesState)
_beside.add_node("call", _call_two)
_beside.add_node("tools", ToolNode([hang, chatter]))
_beside.add_edge(START, "call")
_beside.add_edge("call", "tools")
hanging_beside = _beside.compile()


def _speak_in_a_thread(state: MessagesState) -> dict[str, Any]:
    return {"messages": [BusyModel().bind_tools([note]).invoke(state["messages"])]}


def _note_in_a_thread(state: MessagesState) -> dict[str, Any]:
    """Run the tool as LangGraph's own tutorials do, without the run's config."""
    [call] = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    return {"messages": [ToolMessage(note.invoke(call["args"]), tool_call_id=call["id"])]}


def _has_calls(state: MessagesState) -> str:
    return "note" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]


_by_hand = StateGraph(MessagesState)
_by_hand.add_node("speak", _speak_in_a_thread)
_by_hand.add_node("note", _note_in_a_thread)
_by_hand.add_edge(START, "speak")
_by_hand.add_conditional_edges("speak", _has_calls, ["note", END])
_by_hand.add_edge("note", "speak")
by_hand = _by_hand.compile()


def _one_node(name: str, node: Any) -> CompiledGraph:
    graph = StateGraph(MessagesState)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph.compile()


async def _catch(state: MessagesState) -> dict[str, Any]:
    """Take any failure for a reason to try again."""
    for _ in range(50):
        try:
            await BusyModel().ainvoke([HumanMessage("0")])
        except Exception:
            await asyncio.sleep(0)
    return {"messages": [AIMessage("I gave up.")]}


async def _think(state: MessagesState) -> dict[str, Any]:
    await asyncio.sleep(LONG_S)
    return {}


async def _chat_on(state: MessagesState) -> dict[str, Any]:
    """Say something again and again, for good."""
    while True:
        get_stream_writer()({"still": "here"})
        await asyncio.sleep(0.05)


catching = _one_node("catch", _catch)
silent = _one_node("think", _think)
endless = _one_node("chat_on", _chat_on)
stepping = create_agent(BusyModel(), tools=[note]).with_config(recursion_limit=9)
"""Has its author's own limit of steps."""


@tool
async def delegate() -> str:
    """Work for ever, with an agent that nobody but this tool knows."""
    await busy.ainvoke({"messages": [HumanMessage("work 100")]})
    return ""


delegating = _agent(delegate)


class Leader(LeaderFlow):
    async def async_init(self, crew: Any = NO_CREW) -> None:
        self._graph = create_agent(BusyModel(), tools=self.delegation_tools(crew))

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class Expert(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return busy


class EndlessModel(BusyModel):
    """Always calls a tool."""

    def _said(self, messages: list[BaseMessage]) -> AIMessageChunk:
        return super()._said([*messages, HumanMessage("work 1")])


for_ever = create_agent(EndlessModel(), tools=[note])


class EndlessExpert(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return for_ever


class SilentExpert(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        return silent


def entry(id: str, target: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "class_path": f"graphs.limited:{target}", **fields}
