"""Agents for clients of OpenAI's forms."""

import json
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import MessagesState
from langgraph.types import interrupt

from agentic_backend.offline.model import OfflineChatModel
from support.recorded_agents import one_node


def _said(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(state["messages"][-1].text.split("\n")[0])]}


saying = one_node(_said)
"""Answers with the first line of the message."""


class _Thinking(OfflineChatModel):
    """Thinks, then answers, both with the word "secret"."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for block in ({"type": "reasoning", "reasoning": "my secret"}, {"type": "text", "text": "a secret"}):
            chunk = AIMessageChunk([{**block, "index": int(block["type"] == "text")}])
            yield ChatGenerationChunk(message=chunk)
        yield ChatGenerationChunk(message=AIMessageChunk([], chunk_position="last"))


async def _thought(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await _Thinking().ainvoke(state["messages"])]}


thinking = one_node(_thought)


def _paid(state: MessagesState) -> dict[str, Any]:
    pay = {"type": "tool_approval", "name": "pay", "args": {"amount": 5}}
    return {"messages": [AIMessage(json.dumps([interrupt(pay), interrupt(pay)]))]}


paying = one_node(_paid)
"""Asks twice for the same."""
