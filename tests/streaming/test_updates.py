"""The messages in a node's update, in every form in which LangGraph takes them."""

import logging
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph import add_messages
from langgraph.types import Overwrite

from agentic_backend.streaming.transcode.updates import messages_in

ONE, TWO = AIMessage("one", id="1"), HumanMessage("two", id="2")


@pytest.mark.parametrize(
    ("update", "messages"),
    [
        ({"messages": ONE}, [ONE]),
        ({"messages": [ONE, TWO]}, [ONE, TWO]),
        ({"messages": Overwrite([ONE, TWO])}, [ONE, TWO]),
        ({"messages": {"__overwrite__": [ONE]}}, [ONE]),
        ({"messages": Overwrite(None)}, []),
        ([{"messages": [ONE]}, {"other": 1}, {"messages": TWO}], [ONE, TWO]),
        (({"messages": [ONE]}, None, "text"), [ONE]),
        ({"messages": RemoveMessage(id="1")}, [RemoveMessage(id="1")]),
        ({"messages": []}, []),
        ({"messages": None}, []),
        ({"other": [ONE]}, []),
        (None, []),
        ("text", []),
        (ONE, [ONE]),
        ([ONE, "text", TWO], [ONE, TWO]),
    ],
)
def test_messages_are_found_wherever_they_are(update: Any, messages: list[BaseMessage]) -> None:
    assert list(messages_in(update)) == messages


@pytest.mark.parametrize(
    "short",
    [
        {"role": "assistant", "content": "Hi"},
        {"role": "ai", "content": [{"type": "text", "text": "Hi"}], "id": "7"},
        {"type": "ai", "content": "Hi"},
        {"role": "user", "content": "Hi"},
        {"role": "tool", "content": "Hi", "tool_call_id": "c1"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": 1}'}},
            ],
        },
        ("ai", "Hi"),
        ("human", "Hi"),
        "Hi",
    ],
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_short_forms_are_read_as_the_graphs_own_reducer_reads_them(short: Any, wrapped: bool) -> None:
    [message] = messages_in({"messages": [short] if wrapped else short})
    [reduced] = add_messages([], [short])
    assert type(message) is type(reduced)
    assert message.model_dump(exclude={"id"}) == reduced.model_dump(exclude={"id"})


def test_a_call_in_a_short_form_is_a_call() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    [message] = messages_in({"messages": {"role": "assistant", "content": "", "tool_calls": [call]}})
    assert isinstance(message, AIMessage)
    assert message.tool_calls == [{"name": "search", "args": {}, "id": "c1", "type": "tool_call"}]


@pytest.mark.parametrize(
    "unknown",
    [7, object(), {"role": "wizard", "content": "Hi"}, {}, ("ai",), ("a", "b", "c"), {"role": [], "content": 1}, b"Hi"],
)
def test_a_form_that_nobody_knows_is_left_to_the_graph(unknown: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert list(messages_in({"messages": [unknown, ONE]})) == [ONE]
    assert caplog.messages == ["node update has an unknown message"]
    assert "Hi" not in caplog.text


def test_a_message_without_an_id_is_known_when_it_is_handed_over_again() -> None:
    message = ToolMessage("Hi", tool_call_id="c1")
    [first] = messages_in({"messages": [message]})
    [again] = messages_in({"messages": [message]})
    assert first.id is not None and first.id == again.id
