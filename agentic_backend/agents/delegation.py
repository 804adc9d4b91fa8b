"""Delegation: an agent as a tool of its leader.

The expert's graph runs inside the tool call and gets only the question. Clients see its tokens and tool calls as those
of a sub-agent; the leader keeps only the question and the answer. If an expert fails, the tool fails and the leader
continues.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph._internal._constants import CONFIG_KEY_RUNTIME
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp, GraphRecursionError
from langgraph.runtime import get_runtime
from pydantic_core import to_json

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.run.at_work import at_work_for
from agentic_backend.agents.run.call_limits import CallLimits, steps_exceeded
from agentic_backend.disclosure.readable_errors import readable_errors
from agentic_backend.errors import AgenticError, LimitReached
from agentic_backend.mcp import delegation_tool_name
from agentic_backend.tracing.spans import agent_span, error_type

log = logging.getLogger(__name__)

ASKS_AGENT = "asks_agent"
"""The key of a tool's metadata that has the id of the agent that it asks."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """A custom graph event: one agent hands work to another. Clients see it as a `handoff`."""

    origin: str
    target: str


def delegation_tool(leader_id: str, expert: AgentFlow) -> BaseTool:
    """The tool that asks `expert` a question."""
    settings = expert.settings

    async def ask(question: str) -> str:
        write = get_stream_writer()
        write(Handoff(leader_id, settings.id))
        try:
            answer = await _answer(expert, question)
        except ToolException:
            write(Handoff(settings.id, leader_id))
            raise
        write(Handoff(settings.id, leader_id))
        return answer

    return StructuredTool.from_function(
        coroutine=ask,
        name=delegation_tool_name(settings.id),
        description=f"Ask {settings.name}. {settings.description}\n\n"
        "It knows nothing of this conversation: put all that matters into the question.",
        args_schema=_ARGUMENTS,
        metadata={ASKS_AGENT: settings.id},
        handle_tool_error=True,
    )


_ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string", "description": "The whole question, in the person's language."}},
    "required": ["question"],
}


async def _answer(expert: AgentFlow, question: str) -> str:
    """Run the expert's graph; return what it says. Raises ToolException if that is nothing or it fails."""
    # The rest of the config comes from the leader's run, also the checkpointer: LangGraph uses only one within a run.
    config = _config(expert)
    try:
        async with _bounded(expert.settings):
            with readable_errors():
                state = await expert.get_compiled_graph().ainvoke(
                    {"messages": [*_prompt_messages(expert), HumanMessage(question)]},
                    config,
                    context=expert.graph_context(),
                )
    except GraphBubbleUp:
        # Not a failure: the graph pauses for a person.
        raise
    except AgenticError as error:
        raise ToolException(error.content) from error
    except GraphRecursionError as error:
        raise ToolException(steps_exceeded(expert.settings.name, error).content) from error
    except Exception as error:
        # An author's graph may raise anything; its text may quote a message.
        log.exception("expert failed", extra={"agent_id": expert.settings.id})
        raise ToolException(f"The agent '{expert.settings.id}' failed.") from error
    text = _said(state) if isinstance(state, Mapping) else ""
    if not text:
        raise ToolException(f"The agent '{expert.settings.id}' gave no answer.")
    return text


def _prompt_messages(expert: AgentFlow) -> list[SystemMessage]:
    text = expert.runtime_context.prompt_messages.get(expert.settings.id)
    return [SystemMessage(text)] if text is not None else []


def _said(state: Mapping[str, Any]) -> str:
    """The expert's structured response as JSON, or its last text; empty if it has said nothing."""
    structured = state.get("structured_response")
    if structured is not None:
        return to_json(structured, fallback=str).decode()
    messages: Sequence[Any] = state.get("messages") or ()
    if messages and isinstance(messages[-1], ToolMessage):
        # Of a tool whose result is the answer.
        return messages[-1].text
    own = (message for message in reversed(messages) if isinstance(message, AIMessage | ChatMessage))
    return next((message.text for message in own if message.text), "")


def _config(expert: AgentFlow) -> RunnableConfig:
    """The expert's store, and its own limits for one question, beside those of its leader for the whole exchange."""
    settings, limits = expert.settings, expert.settings.limits
    # LangGraph would pass on the leader's store.
    runtime = get_runtime().override(store=expert.graph_store())
    # This name distinguishes the expert's tokens from the leader's.
    own = {**expert.configurable(), CONFIG_KEY_RUNTIME: runtime}
    # LangGraph would take the expert for a run of its own, whose questions and checkpoints its leader does not know.
    del own["thread_id"]
    config = RunnableConfig(metadata={"lc_agent_name": settings.id}, configurable=own)
    if limits.steps is not None:
        config["recursion_limit"] = limits.steps
    if not (limits.model_calls is limits.tool_calls is limits.tokens is None):
        config["callbacks"] = [CallLimits(settings)]
    return config


def _named(error: BaseException) -> str | None:
    """The error in the trace; a graph that pauses for a person is none."""
    return None if isinstance(error, GraphBubbleUp) else error_type(error)


@asynccontextmanager
async def _bounded(settings: AgentSettings) -> AsyncIterator[None]:
    """What runs inside works for the expert, within its running time. Raises LimitReached."""
    run_s = settings.limits.run_s
    timeout = asyncio.timeout(run_s)
    try:
        with at_work_for(settings.id), agent_span(settings.id, settings.name or settings.id, _named):
            async with timeout:
                yield
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise LimitReached.of_agent(settings.name, "run_s", f"{run_s:g} seconds") from error
