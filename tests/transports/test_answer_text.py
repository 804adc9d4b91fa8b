"""Whatever an agent writes, changes and takes back: who puts the pieces together ends with the answer."""

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from pydantic import TypeAdapter
from support.exchange_events import ExchangeEvents, merged, reset_at
from support.protocol_samples import AT_TEXT

from agentic_backend.protocol.events import OfExchange
from agentic_backend.transports.answer_text import AnswerText

EVENTS: TypeAdapter[OfExchange] = TypeAdapter(OfExchange)
BEGINNING = {"session_id": "s", "exchange_id": "e"}
NO_SESSION = {"session": None}


def put_together(events: Iterable[dict[str, Any]]) -> tuple[str, list[tuple[str, bool]]]:
    """The text of a client that gets these events, and the pieces that it was given."""
    answer, text, pieces = AnswerText(), "", list[tuple[str, bool]]()
    for seq, event in enumerate(events, start=1):
        piece = answer.take(
            EVENTS.validate_python(BEGINNING | {"seq": seq} | event | (NO_SESSION if event["type"] == "final" else {}))
        )
        if piece is not None:
            text = piece.text if piece.replaces else text + piece.text
            pieces.append((piece.text, piece.replaces))
        assert answer.text == text
    return text, pieces


def delta(block: int, text: str, channel: str = "final") -> dict[str, Any]:
    return {"type": "delta", "block": block, "channel": channel, "text": text}


def message(text: str, channel: str = "final", role: str = "assistant") -> dict[str, Any]:
    parts = [{"type": "text", "text": text}]
    return {**BEGINNING, "role": role, "channel": channel, "parts": parts, "rank": 0, "timestamp": AT_TEXT}


def stream(text: str, channel: str = "final", block: int | None = None, role: str = "assistant") -> dict[str, Any]:
    return {"type": "stream", "message": message(text, channel, role), "block": block}


def tool_row(kind: str, **fields: Any) -> dict[str, Any]:
    row = message("", kind) | {"parts": [{"type": kind, "call_id": "c", **fields}]}
    return {"type": "stream", "message": row}


def final(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"type": "final", "status": "ok", "messages": list(messages), "usage": {}}


def test_text_is_given_as_it_is_written() -> None:
    events = [delta(0, "It is "), delta(0, "noon."), stream("It is noon.", block=0), final(message("It is noon."))]
    assert put_together(events)[1] == [("It is ", False), ("noon.", False)]


def test_the_question_is_no_part_of_the_answer() -> None:
    assert put_together([stream("What time is it?", role="user"), final(message("?", role="user"))])[1] == []


def test_thoughts_are_no_part_of_the_answer() -> None:
    assert put_together([delta(0, "Hm.", "thought"), stream("Hm.", "thought", 0)])[1] == []


def test_a_text_of_a_graph_within_the_agent_is_given_as_it_is_written() -> None:
    events = [delta(0, "It is ", "observation"), delta(0, "noon.", "observation"), stream("It is noon.", block=0)]
    assert put_together([*events, final(message("It is noon."))])[1] == [("It is ", False), ("noon.", False)]


def test_it_is_taken_back_if_it_was_no_answer() -> None:
    events = [delta(0, "Inside.", "observation"), stream("Inside.", "observation", 0), stream("Noon.")]
    assert put_together(events)[1] == [("Inside.", False), ("", True), ("Noon.", False)]


def test_it_never_takes_the_place_of_what_the_agent_itself_writes() -> None:
    events = [delta(0, "It is "), delta(1, "Inside.", "observation"), delta(0, "noon."), stream("It is noon.", block=0)]
    assert put_together(events)[1] == [("It is ", False), ("noon.", False)]


def test_what_a_graph_within_a_tool_says_is_no_part_of_the_answer() -> None:
    called, answered = tool_row("tool_call", name="ask", args={}), tool_row("tool_result", content="Inside.")
    inside = [delta(0, "In", "observation"), delta(0, "side.", "observation")]
    assert put_together([called, *inside, stream("Inside.", "observation", 0), answered])[1] == []
    assert put_together([called, inside[0], answered, inside[1]])[1] == [], "its beginning is missing"
    after = [called, answered, delta(1, "Noon.", "observation")]
    assert put_together(after)[1] == [("Noon.", False)]


def test_a_text_before_a_tool_call_is_taken_back() -> None:
    events = [delta(0, "I look."), stream("I look.", "observation", 0), delta(1, "Noon."), stream("Noon.", block=1)]
    assert put_together(events)[1] == [("I look.", False), ("", True), ("Noon.", False)]


def test_an_answer_that_a_module_has_changed_takes_the_place_of_what_was_written() -> None:
    events = [delta(0, "Call 555."), stream("Call [phone].", block=0)]
    assert put_together(events)[1] == [("Call 555.", False), ("Call [phone].", True)]


def test_what_an_answer_adds_to_what_was_written_is_given_once() -> None:
    assert put_together([delta(0, "Noon"), final(message("Noon, sir."))])[1] == [("Noon", False), (", sir.", False)]


def test_an_answer_that_was_not_streamed_is_given_whole() -> None:
    assert put_together([stream("Noon."), final(message("Noon."))])[1] == [("Noon.", False)]


def test_of_two_texts_at_once_the_later_one_is_shown_until_one_is_the_answer() -> None:
    events = [delta(0, "Left "), delta(1, "Right "), delta(0, "is it."), stream("Right ", "observation", 1)]
    text, pieces = put_together([*events, stream("Left is it.", block=0)])
    assert text == "Left is it."
    assert pieces == [("Left ", False), ("Right ", True), ("", True), ("Left is it.", False)]


def test_after_a_reset_nothing_is_given_twice() -> None:
    partial = {"block": 0, "channel": "final", "text": "It is noon"}
    events = [delta(0, "It is "), {"type": "reset", "messages": [], "partial": [partial]}, delta(0, ".")]
    assert put_together(events)[1] == [("It is ", False), ("noon", False), (".", False)]


def test_an_exchange_without_an_answer_leaves_no_text() -> None:
    assert put_together([delta(0, "It is "), final()])[0] == ""


@pytest.mark.parametrize("seed", range(300))
def test_it_ends_with_the_answer_of_any_exchange(seed: int) -> None:
    random = Random(seed)
    log = ExchangeEvents(random, "e", first_rank=0)
    for row in log.messages:
        row |= {"session_id": "s", "timestamp": AT_TEXT, "metadata": {}}
    place = random.randrange(1, len(log.events))
    told = [*merged(log.events[: random.randrange(place + 1)]), reset_at(log, place)]
    for events in (log.events, [*told, *merged(log.events[place:])]):
        known = [event for event in events if event["type"] in ("delta", "reset", "final", "stream")]
        answers = [row for row in log.messages if (row["role"], row["channel"]) == ("assistant", "final")]
        assert put_together(known)[0] == (answers[-1]["parts"][0]["text"] if answers else "")
