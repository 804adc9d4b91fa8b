"""Graphs some of whose texts are not for people."""

import asyncio
from typing import Any

from graphs.texts import ChunkModel
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, RemoveMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.tools import tool
from langgraph.constants import TAG_HIDDEN
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import interrupt

from agentic_backend.agents.parts import emit_parts

SECRET = "The secret is Zorblax."


def _model(*texts: str, tags: list[str] | None = None, thought: str = "") -> Any:
    chunks = [AIMessageChunk(text) for text in texts]
    if thought:
        chunks.insert(0, AIMessageChunk("", additional_kwargs={"reasoning_content": thought}))
    return ChunkModel(chunks=chunks).with_config(tags=tags or [])


def _routed(router: Any) -> Any:
    """A router whose text is not for people, and a node that answers."""
    answering = _model("Your bill ", "is 7.", thought="Let me see.")

    async def route(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await router.ainvoke(state["messages"])]}

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await answering.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("route", route)
    builder.add_node("answer", answer)
    builder.add_edge(START, "route")
    builder.add_edge("route", "answer")
    return builder.compile()


ROUTE = '{"to": "billing"}'
routing = _routed(_model('{"to": ', '"billing"}'))
routing_tagged = _routed(_model('{"to": ', '"billing"}', tags=["hidden"]))
routing_tagged_as_in_langgraph = _routed(_model('{"to": ', '"billing"}', tags=[TAG_HIDDEN]))
routing_untold = _routed(_model('{"to": ', '"billing"}', tags=["nostream", "hidden"]))


class _Replaces(AgentMiddleware[Any, Any, Any]):
    """Replaces an answer under its id."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        return {"messages": [AIMessage("I can't say that.", id=last.id)]} if "secret" in last.text else None


class _Removes(AgentMiddleware[Any, Any, Any]):
    """Removes an answer, and says something else."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        if "secret" not in last.text:
            return None
        return {"messages": [RemoveMessage(id=last.id), AIMessage("I can't say that.")]}


class _RemovesOnly(AgentMiddleware[Any, Any, Any]):
    """Removes an answer and says nothing."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"messages": [RemoveMessage(id=state["messages"][-1].id)]}


class _RemovesAllBut(AgentMiddleware[Any, Any, Any]):
    """Writes all messages anew, as a summary does."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *state["messages"]]}


class _Asks(AgentMiddleware[Any, Any, Any]):
    """Asks a person about the answer, and replaces it."""

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        interrupt("May this be said?")
        return {"messages": [AIMessage("I can't say that.", id=state["messages"][-1].id)]}


@tool
def look() -> str:
    """Looks."""
    return "seen"


class _TurnsModel(ChunkModel):
    """Calls a tool with a text beside it, then answers."""

    def _turn(self, messages: Any) -> list[AIMessageChunk]:
        if messages[-1].type == "tool":
            return [AIMessageChunk("The secret "), AIMessageChunk("is Zorblax.")]
        call = tool_call_chunk(name="look", args="{}", id="l1", index=0)
        return [AIMessageChunk("A draft."), AIMessageChunk("", tool_call_chunks=[call])]

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.chunks = self._turn(messages)
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


def _guarded(guard: AgentMiddleware[Any, Any, Any]) -> Any:
    return create_agent(_TurnsModel(chunks=[]), [look], middleware=[guard])


replacing, removing, removing_only = _guarded(_Replaces()), _guarded(_Removes()), _guarded(_RemovesOnly())
rewriting, asking = _guarded(_RemovesAllBut()), _guarded(_Asks())
slow = create_agent(ChunkModel(chunks=[AIMessageChunk(SECRET)] * 3, pause_s=30.0), [])

EMITTED = "unchecked zebrafish"


def _emitting(then: Any) -> Any:
    """A node that emits a part before any text, and another behind it."""

    def early(state: MessagesState) -> dict[str, Any]:
        emit_parts({"type": "text", "text": EMITTED})
        return {}

    async def later(state: MessagesState) -> dict[str, Any]:
        return await then()

    builder = StateGraph(MessagesState)
    builder.add_sequence([("early", early), ("later", later)])
    builder.add_edge(START, "early")
    return builder.compile()


async def _answers() -> dict[str, Any]:
    emit_parts({"type": "code", "language": "sql", "code": "SELECT 7"})
    return {"messages": [AIMessage("Seven.")]}


async def _fails() -> dict[str, Any]:
    raise ValueError


async def _hangs() -> dict[str, Any]:
    emit_parts({"type": "text", "text": EMITTED})
    await asyncio.sleep(30)
    return {}


async def _emits_beside_a_secret() -> dict[str, Any]:
    said = await _model(SECRET).ainvoke("tell me")
    emit_parts({"type": "text", "text": "beside the secret"})
    return {"messages": [said, RemoveMessage(id=said.id), AIMessage("I can't say that.")]}


emitting, emitting_failing, emitting_hanging = _emitting(_answers), _emitting(_fails), _emitting(_hangs)
emitting_beside = _emitting(_emits_beside_a_secret)

FINAL_ONLY = {"stream": "final_only"}
AGENTS: list[dict[str, Any]] = [
    {"id": "routing-tagged", "class_path": "graphs.hidden_texts:routing_tagged"},
    {"id": "routing-tagged-as-in-langgraph", "class_path": "graphs.hidden_texts:routing_tagged_as_in_langgraph"},
    {"id": "routing-untold", "class_path": "graphs.hidden_texts:routing_untold"},
    {"id": "routing-nodes", "class_path": "graphs.hidden_texts:routing", "stream": {"nodes": ["answer"]}},
    {"id": "routing-nowhere", "class_path": "graphs.hidden_texts:routing", "stream": {"nodes": ["elsewhere"]}},
    {"id": "emitting-nodes", "class_path": "graphs.hidden_texts:emitting", "stream": {"nodes": ["later"]}},
    {"id": "routing-final", "class_path": "graphs.hidden_texts:routing", **FINAL_ONLY},
    *(
        {"id": name, "class_path": f"graphs.hidden_texts:{name.replace('-', '_')}", **FINAL_ONLY}
        for name in [
            *("replacing", "removing", "removing-only", "rewriting", "asking", "slow"),
            *("emitting", "emitting-failing", "emitting-hanging", "emitting-beside"),
        ]
    ),
]
