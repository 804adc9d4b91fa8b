"""Runs a graph as the server does, and returns the transcript of its stream."""

import asyncio
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig

from agentic_backend.agents.agent_flow import AgentServices, GraphFlow
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.streaming.model.model_stream import ModelStream
from support.drafts import Transcript

PATIENCE_S = 30.0
ASKED = HumanMessage("What is it?", id="e:0")


async def transcribe(graph: Any, transcript: Transcript | None = None) -> Transcript:
    """Run `graph` on a question until it ends or pauses; return the open transcript. Raises what the graph raises."""
    transcript = transcript or Transcript(history=[ASKED])
    settings = AgentSettings(id="agent", class_path="graphs:graph")
    context = RuntimeContext(user_id="ann", session_id="s", exchange_id="e", agent_id="agent")
    flow = GraphFlow(settings, AgentServices(ChatModels({}), _no_tokens), context, graph)
    config = RunnableConfig(callbacks=[ModelStream(transcript.feed)], configurable={"thread_id": "e"})
    async with asyncio.timeout(PATIENCE_S):
        async for part in flow.astream_updates({"messages": [ASKED]}, config):
            transcript.feed(part)
    return transcript


async def _no_tokens(*_: str) -> Tokens:
    raise AssertionError("no test asks for tokens")
