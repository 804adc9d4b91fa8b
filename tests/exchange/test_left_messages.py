"""What of the messages that a graph left the next exchange starts from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from support.phrase_model import check_history

from agentic_backend.exchange.past.left_messages import as_left, last_exchanges


def opening(number: int) -> HumanMessage:
    return HumanMessage(f"asked {number}", id=f"exchange{number}:{number * 2}")


def person(text: str) -> HumanMessage:
    return HumanMessage(text, id=text)


def called(*calls: str, text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": "dig", "args": {}, "id": call} for call in calls], id="-".join(calls))


def result(call: str, text: str = "found") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call, id=f"{call} {text}")


def said(text: str) -> AIMessage:
    return AIMessage(text, id=text)


def in_short(messages: list[Any]) -> list[str]:
    calls = {True: lambda one: ",".join(call["id"] for call in one.tool_calls), False: lambda one: ""}
    return [f"{one.type} {one.text or calls[isinstance(one, AIMessage)](one)}" for one in messages]


def test_messages_in_order_stay_the_very_same() -> None:
    messages = [SystemMessage("a", id="s"), opening(1), called("a", "b"), result("b"), result("a"), said("so")]
    left = as_left(messages)
    assert left is not None and all(one is other for one, other in zip(left, messages, strict=True))


def test_results_follow_their_calls_and_what_nobody_takes_is_left_out() -> None:
    messages = [opening(1), called("a"), called("b"), result("b"), result("a"), said(""), result("c"), said("so")]
    assert in_short(as_left(messages) or []) == ["human asked 1", "ai a", "tool found", "ai b", "tool found", "ai so"]


def test_a_call_that_could_not_be_read_wants_a_result_too() -> None:
    invalid = {"type": "invalid_tool_call", "name": "dig", "args": "{", "id": "a", "error": "bad"}
    left = as_left([opening(1), AIMessage("", invalid_tool_calls=[invalid], id="m")])
    assert left is not None and [one.type for one in left] == ["human", "ai", "tool"]
    assert left[2].tool_call_id == "a" and left[2].status == "error"


def test_short_forms_become_messages_with_ids() -> None:
    left = as_left([("user", "one"), {"role": "assistant", "content": "two"}, "three", AIMessage("four"), object()])
    assert left is not None and in_short(left[:4]) == ["human one", "ai two", "human three", "ai four"]
    assert len({one.id for one in left[:4]} - {None}) == 4
    assert isinstance(left[4], object) and not isinstance(left[4], BaseMessage)


@pytest.mark.parametrize("value", [None, "text", 7, {"a": 1}])
def test_what_is_no_list_is_not_kept(value: Any) -> None:
    assert as_left(value) is None


@pytest.mark.parametrize(
    ("count", "rest"),
    [(9, ["1", "2", "3"]), (3, ["1", "2", "3"]), (2, ["2", "3"]), (1, ["3"]), (0, []), (-1, [])],
)
def test_the_last_exchanges_stay_behind_what_the_graph_put_in_front(count: int, rest: list[str]) -> None:
    front = [SystemMessage("rules", id="s"), person("a summary")]
    messages = [*front, *(one for number in (1, 2, 3) for one in (opening(number), person("more"), said("so")))]
    kept = [text for number in rest for text in (f"human asked {number}", "human more", "ai so")]
    assert in_short(last_exchanges(messages, count)) == ["system rules", "human a summary", *kept]


def test_where_no_opening_is_left_each_person_begins_an_exchange() -> None:
    messages = [said("welcome"), person("a"), said("b"), person("c"), said("d")]
    assert in_short(last_exchanges(messages, 1)) == ["human c", "ai d"]


_MESSAGES = st.one_of(
    st.integers(0, 9).map(opening),
    st.sampled_from(["a", "b", ""]).map(said),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(lambda calls: called(*calls)),
    st.sampled_from("abc").map(result),
)


@given(st.lists(_MESSAGES, max_size=12), st.integers(0, 4))
def test_a_provider_accepts_whatever_was_left(messages: list[BaseMessage], count: int) -> None:
    left = last_exchanges(as_left(messages) or [], count)
    for number, one in enumerate(left):
        one.id = f"{number}"
    check_history([*(one.model_copy() for one in left), HumanMessage("And now?", id="now")])
