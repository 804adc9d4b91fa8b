"""Agents that misbehave in ways that must not affect clients, and agents that report to the test."""

import asyncio
import time
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import MessagesState

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.delegation import Handoff
from support.held_agents import Hold, held_tool_graph
from support.recorded_agents import one_node
from support.test_agents import echo_graph

MODULE = "support.wire_agents"

closed: list[str] = []
"""The sessions of the closed Recorded agents, in order."""


class Recorded(AgentFlow):
    """Echoes the message, and records its close."""

    async def async_init(self) -> None:
        self.session_id = self.runtime_context.session_id

    def get_compiled_graph(self) -> CompiledGraph:
        return echo_graph

    async def aclose(self) -> None:
        closed.append(str(self.session_id))


@tool
async def stubborn(seconds: float) -> str:
    """Go on for some seconds, whoever cancels it."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return "done"


unmoved = Hold()
"""Holds the tool of the agent `unmoved`; a test sets its own."""


def unmoved_tool() -> CompiledGraph:
    """A tool `work` that goes on until the test releases it, whoever cancels it."""
    return held_tool_graph(unmoved)


def stubborn_tool(model: BaseChatModel) -> CompiledGraph:
    return create_agent(model, tools=[stubborn])


def breaks_in_the_middle(model: BaseChatModel) -> CompiledGraph:
    """Streams 60 words, and raises before it returns its message."""

    async def answer(state: MessagesState) -> dict[str, Any]:
        await model.ainvoke("write 60 words")
        raise ValueError(f"the secret of the graph, which was told {state['messages'][-1].text!r}")

    return one_node(answer)


def breaks_with_a_text_of_the_conversation(model: BaseChatModel) -> CompiledGraph:
    """Raises an error that quotes parts of the messages, old and new, in several forms."""

    async def answer(state: MessagesState) -> dict[str, Any]:
        texts = [message.text for message in state["messages"]]
        if len(texts) < 2:
            return {"messages": [AIMessage("I keep it.")]}
        raise ValueError(f"{texts[0]} {texts!r} {texts[-1][:20]} {texts[-1].upper()}")

    return one_node(answer)


class TellsTokens(AgentFlow):
    """Raises an exception that quotes its user's tokens."""

    def get_compiled_graph(self) -> CompiledGraph:
        context = self.runtime_context

        def answer(state: MessagesState) -> dict[str, Any]:
            raise ValueError(f"401 for {context.access_token} and {context.refresh_token}")

        return one_node(answer)


class SilentTool(AgentFlow):
    """Calls a tool that never returns."""

    async def async_init(self) -> None:
        @tool
        async def silent() -> str:
            """Never come back."""
            await asyncio.Event().wait()
            return "never"

        self._graph = create_agent(self.chat_model(), tools=[silent])

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


def strange_texts(state: MessagesState) -> dict[str, Any]:
    """A broken model's message: lone surrogates wherever text is allowed."""
    call = {"name": "to\ud800ol", "args": {"a": "\ud800", "\udfff": None}, "id": "call\ud800"}
    return {"messages": [AIMessage("text \ud800 text", tool_calls=[call])]}


strange_texts_graph = one_node(strange_texts)


def tells_its_steps(state: MessagesState) -> dict[str, Any]:
    """Hands over twice, tells a step that stays and one that passes."""
    write = get_stream_writer()
    write(Handoff("tells-steps", "echo"))
    write({"step": "Looked through 7 files", "kept": True})
    write({"step": "Thinking"})
    write(Handoff("echo", "tells-steps"))
    return {"messages": [AIMessage("Seven files.")]}


tells_its_steps_graph = one_node(tells_its_steps)

ENTRIES: list[dict[str, Any]] = [
    {"id": "recorded", "class_path": f"{MODULE}:Recorded"},
    {"id": "stubborn", "class_path": f"{MODULE}:stubborn_tool"},
    {"id": "unmoved", "class_path": f"{MODULE}:unmoved_tool"},
    {"id": "breaks-in-the-middle", "class_path": f"{MODULE}:breaks_in_the_middle"},
    {"id": "breaks-with-texts", "class_path": f"{MODULE}:breaks_with_a_text_of_the_conversation"},
    {"id": "tells-tokens", "class_path": f"{MODULE}:TellsTokens"},
    {"id": "silent-tool", "class_path": f"{MODULE}:SilentTool"},
    {"id": "strange-texts", "class_path": f"{MODULE}:strange_texts_graph"},
    {"id": "tells-steps", "class_path": f"{MODULE}:tells_its_steps_graph"},
    {"id": "hangs-in-init", "class_path": "support.test_agents:HangsInInit"},
]
