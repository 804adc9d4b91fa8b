"""The offline model as agents use it: streamed, with tools, in real graphs."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from jsonschema import validate
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import BaseTool, ToolException, tool

from agentic_backend.experts.assistant.tools import TOOLS
from agentic_backend.offline.model import OfflineChatModel, OfflineModelError

MODEL = OfflineChatModel(words_per_second=0)


@tool
def echo(value: str) -> str:
    """Give back the value."""
    return value


async def stream(messages: str | Sequence[BaseMessage]) -> list[AIMessageChunk]:
    return [chunk async for chunk in MODEL.astream(messages)]


async def run(
    text: str, tools: Sequence[BaseTool] = TOOLS, history: Sequence[BaseMessage] = ()
) -> tuple[list[AIMessageChunk], list[BaseMessage]]:
    """The chunks that an agent streams, and the messages that it adds."""
    agent = create_agent(MODEL, list(tools))
    chunks, added = [], []
    state: Any = {"messages": [*history, HumanMessage(text)]}
    async for mode, payload in agent.astream(state, stream_mode=["messages", "updates"]):
        if mode == "messages" and isinstance(payload[0], AIMessageChunk):
            chunks.append(payload[0])
        elif mode == "updates":
            added += [message for update in payload.values() for message in update["messages"]]
    return chunks, added


async def test_text_is_streamed_word_by_word() -> None:
    chunks = await stream("write 40 words")
    words = [chunk for chunk in chunks if chunk.content]
    assert len(words) == 40
    assert len(("".join(str(chunk.content) for chunk in words)).split()) == 40


async def test_the_last_chunk_tells_usage_and_finish_reason() -> None:
    *others, last = await stream("write 40 words")
    assert last.usage_metadata == {"input_tokens": 3, "output_tokens": 40, "total_tokens": 43}
    assert last.response_metadata == {"model_name": "offline", "finish_reason": "stop"}
    assert last.chunk_position == "last"
    assert not any(chunk.usage_metadata or chunk.response_metadata for chunk in others)


async def test_too_many_words_end_for_length() -> None:
    message = await MODEL.ainvoke("write 20001 words")
    assert message.response_metadata["finish_reason"] == "length"


async def test_calls_are_streamed_in_pieces() -> None:
    model = MODEL.bind_tools([echo])
    chunks = [chunk async for chunk in model.astream('call echo(value="one two three four five")')]
    pieces = [piece for chunk in chunks if isinstance(chunk, AIMessageChunk) for piece in chunk.tool_call_chunks]
    assert (pieces[0]["name"], pieces[0]["args"]) == ("echo", "")
    assert all(piece["name"] is None for piece in pieces[1:])
    assert len(pieces) > 3
    assert "".join(piece["args"] or "" for piece in pieces) == '{"value": "one two three four five"}'


SCHEMA = {
    "title": "order",
    "type": "object",
    "properties": {
        "what": {"type": "string", "maxLength": 5},
        "size": {"enum": ["S", "M"]},
        "count": {"type": "integer", "minimum": 2},
        "price": {"type": ["number", "null"]},
        "gift": {"type": "boolean"},
        "for": {"anyOf": [{"type": "object", "properties": {"name": {"const": "Ann"}}, "required": ["name"]}]},
        "tags": {"type": "array", "items": {"type": "string", "default": "new"}, "minItems": 1},
        "note": {"type": "string"},
    },
    "required": ["what", "size", "count", "price", "gift", "for", "tags"],
}
ORDER = {"what": "Hello", "size": "S", "count": 2, "price": 0, "gift": False, "for": {"name": "Ann"}, "tags": ["new"]}


@pytest.mark.parametrize(
    ("choice", "text", "called"),
    [
        ("any", "hello", "order"),
        ("any", 'call echo(value="a")', "echo"),
        ("order", 'call echo(value="a")', "order"),
        ({"type": "function", "function": {"name": "order"}}, "hello", "order"),
        ({"type": "tool", "name": "echo"}, "hello", "echo"),
        ("auto", "hello", None),
        (None, "hello", None),
    ],
)
async def test_a_forced_tool_is_called_with_arguments_that_fit(choice: Any, text: str, called: str | None) -> None:
    message = await MODEL.bind_tools([echo, SCHEMA], tool_choice=choice).ainvoke(text)
    assert [call["name"] for call in message.tool_calls] == ([called] if called else [])
    if called == "order" and text == "hello":
        assert message.tool_calls[0]["args"] == ORDER
        validate(ORDER, SCHEMA)


async def test_one_message_calls_several_tools_and_the_answer_tells_all_results() -> None:
    chunks, added = await run("What time is it in Tokyo, and what is 12*34?")
    asked, *results, answer = added
    assert isinstance(asked, AIMessage)
    assert [(call["name"], call["args"]) for call in asked.tool_calls] == [
        ("current_time", {"city": "Tokyo"}),
        ("calculate", {"expression": "12*34"}),
    ]
    assert asked.text.startswith("Let me look that up")
    assert asked.response_metadata["finish_reason"] == "tool_calls"
    assert {result.tool_call_id for result in results if isinstance(result, ToolMessage)} == {
        call["id"] for call in asked.tool_calls
    }
    assert answer.text.startswith("In Tokyo it is ")
    assert answer.text.endswith("; 12*34 = 408.")
    streamed = add_ai_message_chunks(*[chunk for chunk in chunks if chunk.id == asked.id])
    assert streamed.tool_calls == asked.tool_calls
    assert streamed.text == asked.text


async def test_a_search_is_summarised_with_its_titles() -> None:
    _, added = await run("search the documents for close codes")
    assert "- **Chat Protocol v2** (Close codes): " in added[-1].text


async def test_a_failed_tool_is_told() -> None:
    _, added = await run("What time is it in Atlantis and what is 2+2?")
    assert "2+2 = 4." in added[-1].text
    assert "The tool `current_time` failed: No time zone is known for 'Atlantis'" in added[-1].text


async def test_any_other_tool_can_be_called() -> None:
    _, added = await run('use the tool echo with {"value": "fail at once"}', [echo])
    assert [message.text for message in added[1:]] == ["fail at once", "The tool `echo` answered:\n\nfail at once"]


async def test_a_tool_that_raises_is_the_agents_affair() -> None:
    @tool
    def broken() -> str:
        """Never works."""
        raise ToolException("no luck")

    with pytest.raises(ToolException, match="no luck"):
        await run("call broken()", [broken])


async def test_history_is_remembered() -> None:
    _, first = await run("my name is Zorblax")
    history = [HumanMessage("my name is Zorblax"), *first]
    _, second = await run("what is my name?", history=history)
    assert second[-1].text == "Your name is Zorblax."
    assert "have not told me" in (await run("what is my name?"))[1][-1].text


async def test_a_thought_comes_first_as_content_blocks() -> None:
    chunks = await stream("think first: write 5 words")
    message = add_ai_message_chunks(*chunks)
    thought, text = message.content
    assert isinstance(thought, dict)
    assert isinstance(text, dict)
    assert (thought["type"], text["type"]) == ("reasoning", "text")
    assert "write 5 words" in thought["reasoning"]
    assert text["text"] == "Lorem ipsum dolor sit amet."
    assert len(chunks) > 20
    assert message.content_blocks[0]["type"] == "reasoning"


async def test_a_thought_can_come_before_calls() -> None:
    _, added = await run("think first: what is 3*4 and 5*6?")
    asked = added[0]
    assert isinstance(asked, AIMessage)
    assert [block["type"] for block in asked.content_blocks] == ["reasoning", "text", "tool_call", "tool_call"]
    assert added[-1].text == "3*4 = 12; 5*6 = 30."


async def test_it_fails_at_once() -> None:
    seen: list[AIMessageChunk] = []
    with pytest.raises(OfflineModelError):
        async for chunk in MODEL.astream("fail at once"):
            seen.append(chunk)
    assert seen == []


async def test_it_fails_after_some_tokens() -> None:
    seen: list[AIMessageChunk] = []
    with pytest.raises(OfflineModelError):
        async for chunk in MODEL.astream("fail after 7 tokens"):
            seen.append(chunk)
    assert len(seen) == 7


async def test_it_hangs_until_it_is_cancelled() -> None:
    seen: list[AIMessageChunk] = []
    said_all = asyncio.Event()

    async def read() -> None:
        async for chunk in MODEL.astream("hang after 3 tokens"):
            seen.append(chunk)
            if len(seen) == 3:
                said_all.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(said_all.wait(), 10)
    _, pending = await asyncio.wait({reading}, timeout=0.1)
    assert pending
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert len(seen) == 3


async def test_an_invocation_that_hangs_can_be_cancelled() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await MODEL.ainvoke("hang forever")


async def test_the_same_conversation_gets_the_same_answer() -> None:
    for text in ("hello", "what is 1+1 and 2+2?", "think about tea", "write 200 words", "help"):
        model = MODEL.bind_tools(TOOLS)
        first, second = await model.ainvoke(text), await model.ainvoke(text)
        assert (first.content, first.tool_calls, first.usage_metadata) == (
            second.content,
            second.tool_calls,
            second.usage_metadata,
        )


async def test_words_keep_their_pace_without_blocking_the_loop() -> None:
    model = OfflineChatModel(words_per_second=20)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.create_task(count_turns())
    started = asyncio.get_running_loop().time()
    await model.ainvoke("write 6 words")
    elapsed = asyncio.get_running_loop().time() - started
    counting.cancel()
    assert elapsed >= 6 / 20
    assert turns > 5


async def test_a_countdown_has_its_own_pace() -> None:
    model = OfflineChatModel(words_per_second=0, countdown_per_second=50)
    started = asyncio.get_running_loop().time()
    message = await model.ainvoke("count down slowly from 9")
    assert asyncio.get_running_loop().time() - started >= 10 / 50
    assert message.text == "9, 8, 7, 6, 5, 4, 3, 2, 1, 0"


def test_without_an_event_loop_it_says_the_same() -> None:
    assert MODEL.invoke("echo one two").text == "one two"
    assert [chunk.text for chunk in MODEL.stream("echo one two")] == ["one ", "two", ""]
    with pytest.raises(OfflineModelError):
        MODEL.invoke("fail after 2 tokens")
