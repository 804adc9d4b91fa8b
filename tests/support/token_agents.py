"""An agent that refreshes its user's tokens in the middle of a run, and reports the result without the tokens."""

import asyncio
from typing import Any

import jwt
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph


class Refreshing(AgentFlow):
    def get_compiled_graph(self) -> CompiledGraph:
        async def answer(state: MessagesState) -> dict[str, Any]:
            context = self.runtime_context
            before, refresh_token = context.access_token, context.refresh_token
            await asyncio.sleep(float(state["messages"][-1].text))
            newer = await self.refresh_user_access_token()
            told = {
                "name": _claims(newer)["preferred_username"],
                "another": newer != before,
                "in the context": context.access_token == newer,
                "refresh token too": context.refresh_token != refresh_token,
            }
            return {"messages": [AIMessage(repr(told))]}

        graph = StateGraph(MessagesState)
        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        return graph.compile()


def _claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


ENTRIES: list[dict[str, Any]] = [{"id": "refreshing", "class_path": "support.token_agents:Refreshing"}]
EXPECTED = repr({"name": "alice", "another": True, "in the context": True, "refresh token too": True})
"""Its answer to Alice."""
