"""Hypothesis strategies for streams that a graph could produce.

Lanes run concurrently and interleave in any order; a lane is a sequence of messages, each from its first token to the
last update that repeats it. The text of each message starts with a unique mark, and its thought with another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from agentic_backend.agents.agent_flow import StreamPart

NAMESPACES = [(), ("a:1",), ("b:2",), ("a:1", "c:3")]
TEXTS = st.text(st.sampled_from("ab \n\u00e9\u4e2d\U0001f600"), max_size=5)


@dataclass
class Spoken:
    """One model message. `mark` starts its text, if it has text; `parts` are its parts of the stream."""

    mark: str
    thought_mark: str
    has_text: bool
    parts: list[StreamPart] = field(default_factory=list)


@st.composite
def lanes(draw: st.DrawFn) -> list[list[Spoken]]:
    count = draw(st.integers(1, 3))
    return [
        [draw(_spoken(f"{lane}.{place}", lane)) for place in range(draw(st.integers(1, 4)))] for lane in range(count)
    ]


@st.composite
def interleaved(draw: st.DrawFn, lanes: Sequence[Sequence[Spoken]]) -> list[StreamPart]:
    """All parts of all lanes, with the order within each lane preserved."""
    waiting = [[part for spoken in lane for part in spoken.parts] for lane in lanes]
    parts: list[StreamPart] = []
    while waiting := [lane for lane in waiting if lane]:
        parts.append(draw(st.sampled_from(waiting)).pop(0))
    return parts


@st.composite
def _spoken(draw: st.DrawFn, number: str, lane: int) -> Spoken:
    texts, thoughts = draw(st.lists(TEXTS, max_size=3)), draw(st.lists(TEXTS, max_size=2))
    spoken = Spoken(f"<{number}>", f"({number})", bool(texts))
    texts[:1] = [spoken.mark + text for text in texts[:1]]
    thoughts[:1] = [spoken.thought_mark + thought for thought in thoughts[:1]]
    within, node = draw(st.sampled_from(NAMESPACES)), f"node{lane}"
    whole = _whole(texts, thoughts, blocks=draw(st.booleans()))
    # A model with text may reuse an id, and may restart the numbering of its calls.
    whole.id = draw(st.sampled_from([f"m{number}", f"m{lane}"])) if texts else f"m{number}"
    call_ids = draw(st.sampled_from([[], [], ["0"], [f"c{number}"], [f"c{number}", f"d{number}"]]))
    whole.tool_calls = [{"id": call_id, "name": "tool", "args": {}, "type": "tool_call"} for call_id in call_ids]
    form = draw(st.sampled_from(["streamed", "streamed", "copied", "left out", "whole", "made by the node"]))
    if form in ("streamed", "copied", "left out"):
        chunks = draw(_chunks(whole, texts, thoughts))
        run = {"langgraph_node": node, "run_id": f"run{number}"}
        spoken.parts += [(within, "messages", (chunk, run)) for chunk in chunks]
    elif form == "whole":
        run = {"langgraph_node": node, "run_id": f"run{number}"}
        spoken.parts.append((within, "messages", (whole, run)))
    if form == "made by the node":
        whole.id = f"m{number}"
    handed_over: BaseMessage = whole
    if form == "copied":
        handed_over = AIMessage(whole.content, tool_calls=whole.tool_calls)
    if form == "left out":
        spoken.parts.append((within, "updates", {node: draw(st.sampled_from([None, {"other": 1}]))}))
        return spoken
    messages: list[BaseMessage] = [handed_over]
    spoken.parts.append((within, "updates", {node: {"messages": messages}}))
    for call_id in draw(st.permutations(call_ids)):
        result = ToolMessage(draw(TEXTS), tool_call_id=call_id, id=f"r{number}{call_id}")
        messages = [*messages, result]
        spoken.parts.append((within, "updates", {"tools": {"messages": [result]}}))
    for depth in range(len(within) - 1, -1, -1):
        if draw(st.booleans()):
            spoken.parts.append((within[:depth], "updates", {"parent": {"messages": messages}}))
    return spoken


def _whole(texts: Sequence[str], thoughts: Sequence[str], *, blocks: bool) -> AIMessage:
    text, thought = "".join(texts), "".join(thoughts)
    if not blocks:
        return AIMessage(text, additional_kwargs={"reasoning_content": thought} if thought else {})
    content: list[str | dict[str, Any]] = []
    if thought:
        content.append({"type": "reasoning", "reasoning": thought, "index": 0})
    if text:
        content.append({"type": "text", "text": text, "index": 1})
    return AIMessage(content)


@st.composite
def _chunks(draw: st.DrawFn, whole: AIMessage, texts: Sequence[str], thoughts: Sequence[str]) -> list[AIMessageChunk]:
    """The message in pieces; maybe only the first one has the provider's id."""
    if isinstance(whole.content, str):
        chunks = [AIMessageChunk("", additional_kwargs={"reasoning_content": thought}) for thought in thoughts]
        chunks += [AIMessageChunk(text) for text in texts]
        last = AIMessageChunk("", chunk_position="last")
    else:
        chunks = [AIMessageChunk([{"type": "reasoning", "reasoning": text, "index": 0}]) for text in thoughts]
        chunks += [AIMessageChunk([{"type": "text", "text": text, "index": 1}]) for text in texts]
        last = AIMessageChunk([], chunk_position="last")
    chunks.append(last)
    id_in_all = draw(st.booleans())
    for place, chunk in enumerate(chunks):
        chunk.id = whole.id if id_in_all or place == 0 else f"lc_run--{whole.id}"
    return chunks
