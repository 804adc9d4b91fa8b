"""Graphs whose exchanges are very long; the ask is a number: tokens of one answer, or messages of one exchange."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode

Graph = CompiledStateGraph[Any, Any, Any, Any]

TOKEN = "abcd "
# As many as a provider sends in one packet.
_AT_ONCE = 10
DONE = "done"


class LongModel(BaseChatModel):
    """Says as many tokens as asked for or, if it `calls`, calls a tool for every other message that was asked for."""

    calls: bool = False

    @property
    def _llm_type(self) -> str:
        return "scripted"

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        if not self.calls:
            for number in range(asked(messages)):
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                yield ChatGenerationChunk(message=AIMessageChunk(content=TOKEN))
        elif len(messages) < asked(messages):
            call = tool_call_chunk(name="look", args='{"at": 1}', id=f"call-{len(messages)}", index=0)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[call]))
        else:
            yield ChatGenerationChunk(message=AIMessageChunk(content=DONE))

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise TypeError("the scripted model only streams")


def asked(messages: list[Any]) -> int:
    return int(next(message.text for message in messages if isinstance(message, HumanMessage)))


@tool
def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def _answering() -> Graph:
    model = LongModel()

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile()


def _calling() -> Graph:
    model = LongModel(calls=True)

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def after(state: MessagesState) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(MessagesState).add_node("think", think).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "think").add_conditional_edges("think", after, ["tools", END]).add_edge("tools", "think")
    return graph.compile()


def _saying() -> Graph:
    async def say(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"message {number}") for number in range(asked(state["messages"]))]}

    return StateGraph(MessagesState).add_node("say", say).add_edge(START, "say").compile()


answering, calling, saying = _answering(), _calling(), _saying()
