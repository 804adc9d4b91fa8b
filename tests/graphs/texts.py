"""Graphs whose messages are more than text, or none; each says what its name says, whatever it is asked."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

PNG = base64.b64encode(b"\x89PNG small").decode()
LARGE_PNG = base64.b64encode(b"\x89PNG" + bytes(1_200_000)).decode()
OPENAI, ANTHROPIC = {"model_provider": "openai"}, {"model_provider": "anthropic"}


class ChunkModel(BaseChatModel):
    """Streams given chunks, whatever it is asked, with a pause after each."""

    chunks: list[AIMessageChunk]
    pause_s: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "chunks"

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk.model_copy())

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk.model_copy())
            await asyncio.sleep(self.pause_s)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        whole = self.chunks[0].__add__(self.chunks[1:]) if len(self.chunks) > 1 else self.chunks[0]  # type: ignore[arg-type]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**whole.model_dump(exclude={"type"})))])


def _graph(node: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("say", node)
    builder.add_edge(START, "say")
    return builder.compile()


def _streaming(contents: Sequence[Any], metadata: dict[str, str] | None = None, *, hands_over: bool = True) -> Any:
    """A graph whose model streams these contents; with `hands_over` its node returns the message."""
    model = ChunkModel(chunks=[AIMessageChunk(content, response_metadata=metadata or {}) for content in contents])

    async def say(state: MessagesState) -> dict[str, Any]:
        message = await model.ainvoke(state["messages"])
        return {"messages": [message]} if hands_over else {}

    return _graph(say)


def _saying(*messages: BaseMessage) -> Any:
    """A graph whose node returns messages that no model said."""
    return _graph(lambda state: {"messages": [message.model_copy() for message in messages]})


silent = _graph(lambda state: {})
echoing = _graph(lambda state: {"messages": [HumanMessage(state["messages"][-1].content)]})
empty_model = _streaming([""])

REFUSAL = "I'm sorry, I can't help with that."
refusing = _streaming([[{"type": "refusal", "refusal": REFUSAL}]], OPENAI)
refusing_whole = _saying(AIMessage("", additional_kwargs={"refusal": REFUSAL}, response_metadata=OPENAI))

_DRAWN = [
    [{"type": "text", "text": "Here it is.", "index": 0}],
    [{"type": "image_generation_call", "id": "ig_1", "result": PNG, "status": "completed", "index": 1}],
]
drawing = _streaming(_DRAWN, OPENAI)
drawing_unreturned = _streaming(_DRAWN, OPENAI, hands_over=False)
drawing_whole = _saying(
    AIMessage(
        [
            {"type": "text", "text": "Three pictures."},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image", "url": "https://example.org/a.png"},
            {"type": "image", "base64": LARGE_PNG, "mime_type": "image/png"},
        ]
    )
)
drawing_too_much = _streaming(
    [
        [{"type": "text", "text": "A poster.", "index": 0}],
        [{"type": "image_generation_call", "id": "ig_1", "result": LARGE_PNG, "status": "completed", "index": 1}],
    ],
    OPENAI,
)
with_files = _saying(
    AIMessage(
        [
            {"type": "text", "text": "Listen and read."},
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "filename": "report.pdf"},
            {"type": "file", "url": "https://example.org/b.csv", "mime_type": "text/csv", "filename": "b.csv"},
        ]
    )
)

_PAGE = {"type": "url_citation", "url": "https://example.org/a", "title": "A", "start_index": 0, "end_index": 3}
citing_openai = _streaming(
    [
        [{"type": "web_search_call", "id": "ws_1", "status": "completed", "index": 0}],
        [{"type": "text", "text": "It is so.", "index": 1}],
        [{"type": "text", "annotations": [_PAGE], "index": 1}],
        [{"type": "text", "annotations": [_PAGE], "index": 1}],
        [{"type": "text", "annotations": [{"type": "file_citation", "file_id": "f", "filename": "b.pdf"}], "index": 1}],
    ],
    OPENAI,
)
_CITED = {
    "type": "web_search_result_location",
    "url": "https://example.org/a",
    "title": "A",
    "cited_text": "so it is",
    "encrypted_index": "x",
}
_CITED_CHUNKS = [
    [{"type": "text", "text": "It is so.", "index": 0}],
    [{"type": "text", "text": "", "citations": [_CITED], "index": 0}],
]
citing_anthropic = _streaming(_CITED_CHUNKS, ANTHROPIC)
citing_unreturned = _streaming(_CITED_CHUNKS, ANTHROPIC, hands_over=False)
citing_gemini = _saying(
    AIMessage(
        "It is so.",
        response_metadata={
            "model_provider": "google_genai",
            "grounding_metadata": {
                "grounding_chunks": [{"web": {"uri": "https://example.org/a", "title": "A"}}],
                "grounding_supports": [
                    {"segment": {"start_index": 0, "end_index": 3, "text": "It"}, "grounding_chunk_indices": [0]}
                ],
            },
        },
    )
)


class Weather(BaseModel):
    city: str
    degrees: int


@dataclass
class Place:
    city: str


_CALL = tool_call_chunk(name="Weather", args='{"city": "Zürich", "degrees": 7}', id="w1", index=0)
structured_by_tool = create_agent(
    ChunkModel(chunks=[AIMessageChunk("", tool_call_chunks=[_CALL])]), [], response_format=ToolStrategy(Weather)
)
structured_by_provider = create_agent(
    ChunkModel(chunks=[AIMessageChunk(piece) for piece in ('{"city": ', '"Zürich", "deg', 'rees": 7}')]),
    [],
    response_format=ProviderStrategy(Weather),
)
_WITHIN = StateGraph(MessagesState)
_WITHIN.add_node("weather", structured_by_tool)
_WITHIN.add_edge(START, "weather")
structured_within = _WITHIN.compile()


class _Answered(MessagesState):
    structured_response: Any


def _place(value: Any) -> Any:
    builder = StateGraph(_Answered)
    builder.add_node("say", lambda state: {"messages": [AIMessage("Found.")], "structured_response": value})
    builder.add_edge(START, "say")
    return builder.compile()


structured_dataclass = _place(Place("Bern"))
structured_dict = _place({"city": "Bern", "parts": [1, None]})

HUGE = 20_000_000


def _fetch(state: MessagesState) -> dict[str, Any]:
    call = {"id": "c1", "name": "fetch", "args": {}}
    return {
        "messages": [
            AIMessage("", tool_calls=[call]),
            ToolMessage("x" * HUGE, tool_call_id="c1"),
            AIMessage("y" * HUGE),
        ]
    }


huge = _graph(_fetch)

AGENTS = [
    {"id": name.replace("_", "-"), "class_path": f"graphs.texts:{name}"}
    for name in [
        *("silent", "echoing", "empty_model", "refusing", "refusing_whole"),
        *("drawing", "drawing_unreturned", "drawing_whole", "drawing_too_much", "with_files"),
        *("citing_openai", "citing_anthropic", "citing_unreturned", "citing_gemini"),
        *("structured_by_tool", "structured_by_provider", "structured_within", "structured_dataclass"),
        *("structured_dict", "huge"),
    ]
]
