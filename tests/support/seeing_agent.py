"""An agent whose model tells all that it is given, images too, and asks a person first where the text says "pause"."""

from collections.abc import Iterator, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.types import interrupt

from agentic_backend.agents.agent_flow import AgentFlow, CompiledGraph
from agentic_backend.agents.models.prepared_calls import with_prepared_calls

seen: list[Any] = []
"""The contents that the model was given."""


@tool
def pause() -> str:
    """Ask a person."""
    return str(interrupt("May I look?"))


class SeeingModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "seeing"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        seen.append(messages[-1].content)
        last = messages[-1]
        wants = isinstance(last, HumanMessage) and "pause" in last.text
        calls = [{"name": "pause", "args": {}, "id": "p1"}] if wants else []
        said = "" if wants else " | ".join(_told(messages))
        # More than the transcript tells, so that the graph's state is kept.
        answer = AIMessage(said, tool_calls=calls, additional_kwargs={"seen": len(messages)})
        return ChatResult(generations=[ChatGeneration(message=answer)])


def _told(messages: Sequence[BaseMessage]) -> Iterator[str]:
    for message in messages:
        for block in [message.content] if isinstance(message.content, str) else message.content:
            if isinstance(block, str) or block["type"] == "text":
                yield block if isinstance(block, str) else block["text"]
            else:
                yield f"<{block.get('mime_type')} {len(block.get('base64', ''))}>"


class Seeing(AgentFlow):
    async def async_init(self) -> None:
        model = with_prepared_calls(SeeingModel(profile={"image_inputs": True}))
        self._graph = create_agent(model, tools=[pause])

    def get_compiled_graph(self) -> CompiledGraph:
        return self._graph


ENTRY: dict[str, Any] = {"id": "seeing", "class_path": "support.seeing_agent:Seeing"}
