"""The graph that is measured: one node, one scripted model, 200 tokens of 5 characters, or one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

TOKENS = 200
TOKEN = "abcd "


class ScriptedModel(BaseChatModel):
    """Streams the same tokens at each call, `delay_s` apart."""

    delay_s: float = 0.0
    tokens: int = TOKENS

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
        for _ in range(self.tokens):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            yield ChatGenerationChunk(message=AIMessageChunk(content=TOKEN))

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise TypeError("the scripted model only streams")


def build(delay_s: float, tokens: int = TOKENS) -> CompiledStateGraph[Any, Any, Any, Any]:
    model = ScriptedModel(delay_s=delay_s, tokens=tokens)

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    return graph.compile()


no_delay = build(0.0)
five_ms = build(0.005)
one_token = build(0.0, 1)
