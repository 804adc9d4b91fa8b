"""Agents whose runs outlive their users' tokens. They report what they see without the tokens."""

import asyncio
import json
from typing import Any

import jwt
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from services.mcp_echo_server import fingerprint

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.mcp.mcp_runtime import MCPRuntime
from support.recorded_agents import one_node

PATIENCE_S = 25.0


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


class Enduring(AgentFlow):
    """Asks its MCP server again and again who calls, until the answers are as the message says; tells them as JSON.

    The message has a number of seconds to go on for, or `failed, then told`: it ends when a call has succeeded after
    one that failed. Each answer is the text of a call, and whether it succeeded.
    """

    async def async_init(self) -> None:
        self.mcp = MCPRuntime(agent=self)
        await self.mcp.init()
        tools = {tool.name: tool for tool in self.mcp.get_tools()}
        loop = asyncio.get_running_loop()

        async def call(name: str, /, **args: Any) -> tuple[str, bool]:
            asked = {"type": "tool_call", "id": "c", "name": name, "args": args}
            result = await tools[name].ainvoke(asked)
            return result.text, result.status == "success"

        async def answer(state: MessagesState) -> dict[str, Any]:
            message, began = state["messages"][-1].text, loop.time()
            lasts_s = PATIENCE_S if message == UNTIL_TOLD_AGAIN else float(message)
            told: list[tuple[str, bool]] = []
            while loop.time() - began < lasts_s:
                told.append(await call("whoami"))
                if message == UNTIL_TOLD_AGAIN and told[-1][1] and not all(succeeded for _, succeeded in told):
                    break
                await asyncio.sleep(0.3)
            told += [await call("header", name="mcp-session-id"), await call("count")]
            return {"messages": [AIMessage(json.dumps(told))]}

        self._graph = one_node(answer)

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


class KeepsItsContext(AgentFlow):
    """An author's code that keeps the context of the first exchange; tells the fingerprint of its token."""

    async def async_init(self) -> None:
        self._first = self.runtime_context

    def get_compiled_graph(self) -> CompiledGraph:
        return one_node(lambda state: {"messages": [AIMessage(fingerprint(self._first.access_token or ""))]})


def _claims(token: str) -> dict[str, Any]:
    return jwt.decode(token, options={"verify_signature": False})


ENTRIES: list[dict[str, Any]] = [
    {"id": "refreshing", "class_path": "support.token_agents:Refreshing"},
    {"id": "keeps-its-context", "class_path": "support.token_agents:KeepsItsContext"},
]
ENDURING: dict[str, Any] = {"id": "enduring", "class_path": "support.token_agents:Enduring"}
ENDURING["tuning"] = {"mcp_servers": [{"id": "remote"}]}
UNTIL_TOLD_AGAIN = "failed, then told"
EXPECTED = repr({"name": "alice", "another": True, "in the context": True, "refresh token too": True})
"""Its answer to Alice."""
