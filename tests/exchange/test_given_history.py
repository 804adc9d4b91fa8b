"""What of the past a run is given: what fits, whole, behind the prompt and the summary, without piling these up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from support.phrase_model import check_history

from agentic_backend.agents.state.kept_state import Kept, Packed
from agentic_backend.exchange.past.given_history import GivenHistory, HistoryLimits, given_history
from agentic_backend.exchange.past.recall import Memory
from agentic_backend.policy.prompt.context_window import ContextWindow, Summary

PRIVATE = {"counter": Packed("msgpack", b"")}


def exchange(number: int, words: int = 1) -> list[BaseMessage]:
    """An exchange of four messages, from rank 4 times `number` on."""
    call = {"name": "look", "args": {}, "id": f"c{number}"}
    return [
        HumanMessage(f"ask {number}", id=f"e{number}:{4 * number}"),
        AIMessage("", tool_calls=[call], id=f"m{number}"),
        ToolMessage("it " * words, tool_call_id=f"c{number}", id=f"t{number}"),
        AIMessage(f"said {number}", id=f"f{number}"),
    ]


def memory(left: list[Any], unseen: list[list[BaseMessage]] | None = None) -> Memory:
    return Memory(20, 1_000, 0, Kept(private=PRIVATE), left, unseen or [])


def words(message: Any) -> int:
    return len(message.text.split()) + len(getattr(message, "tool_calls", ()))


def limits(room: int | None, exchanges: int = 20) -> HistoryLimits:
    return HistoryLimits(ContextWindow(None if room is None else 100_000, exchanges), room, words)


def in_short(history: GivenHistory) -> list[str]:
    told = [*history.left, *history.unseen]
    return [f"{one.type} {one.text.splitlines()[0]}" for one in told if not isinstance(one, ToolMessage) and one.text]


def flat(*numbers: int) -> list[BaseMessage]:
    return [message for number in numbers for message in exchange(number)]


def test_the_newest_exchanges_that_fit_are_given_whole() -> None:
    it = memory(flat(0, 1, 2), [exchange(3), exchange(4)])
    assert in_short(given_history(it, limits(18))) == [
        "human ask 2",
        "ai said 2",
        "human ask 3",
        "ai said 3",
        "human ask 4",
        "ai said 4",
    ]
    history = given_history(it, limits(12))
    assert not history.left
    assert [one.id for one in history.unseen] == [one.id for one in exchange(3) + exchange(4)]


def test_without_a_known_window_the_last_messages_are_given() -> None:
    assert len(given_history(memory(flat(*range(30))), limits(None)).left) == 48
    assert len(given_history(memory(flat(*range(30))), limits(None, exchanges=3)).left) == 12


def test_what_the_graph_put_in_front_stays_if_it_fits() -> None:
    front = [SystemMessage("rules of the graph", id="s")]
    assert in_short(given_history(memory([*front, *flat(0, 1)]), limits(10)))[0] == "system rules of the graph"
    assert in_short(given_history(memory([*front, *flat(0, 1)]), limits(3))) == []


def test_the_prompt_and_the_summary_come_first_and_only_once() -> None:
    left = [SystemMessage("rules", id="s"), *flat(0, 1, 2)]
    for number in range(3):
        history = given_history(memory(left), limits(None), prompt=f"Prompt {number}", summary=Summary("Before.", 8))
        assert in_short(history) == [
            f"system Prompt {number}",
            "system rules",
            "human Summary of the earlier conversation, which is not shown here:",
            "human ask 2",
            "ai said 2",
        ]
        left = list(history.left)
    assert in_short(given_history(memory(left), limits(None))) == ["system rules", "human ask 2", "ai said 2"]


def test_a_summary_stands_for_what_the_graph_has_not_seen_too() -> None:
    it = memory([], [exchange(0), exchange(1), exchange(2)])
    history = given_history(it, limits(None), prompt="Prompt", summary=Summary("Before.", 4))
    assert not history.left
    assert [one.split()[1] for one in in_short(history)] == ["Prompt", "Summary", "ask", "said", "ask", "said"]
    assert in_short(given_history(it, limits(None), summary=Summary("", 8))) == ["human ask 2", "ai said 2"]


def test_a_graph_that_condenses_its_past_itself_gets_no_summary() -> None:
    left = [HumanMessage("my own summary", id="own"), AIMessage("Go on.", id="f")]
    assert in_short(given_history(memory(left), limits(None), summary=Summary("Before.", 400))) == [
        "human my own summary",
        "ai Go on.",
    ]


def test_only_what_a_summary_could_stand_for_lacks_room() -> None:
    own = [message for number in range(3) for message in exchange(number)]
    assert given_history(memory(own), limits(10)).lacks_room
    assert not given_history(memory(own), limits(18)).lacks_room
    for number, message in enumerate(own):
        message.id = f"own {number}"
    assert not given_history(memory(own), limits(10)).lacks_room


@pytest.mark.parametrize(("room", "is_whole"), [(1_000, True), (10, False)])
def test_private_channels_come_only_with_all_messages(room: int, is_whole: bool) -> None:
    left = list(given_history(memory(flat(0, 1)), limits(None), prompt="Prompt").left)
    history = given_history(memory(left), limits(room), prompt="Another prompt")
    assert (history.channels == PRIVATE) is is_whole


def test_without_a_window_nothing_is_given() -> None:
    history = given_history(memory(flat(0)), limits(None, exchanges=0), prompt="Prompt", summary=Summary("Before.", 1))
    assert in_short(history) == ["system Prompt"]


def test_a_few_exchanges_show_how_many_are_needed() -> None:
    few = [exchange(number) for number in range(4)]
    assert limits(24).needed(few) == 4 + 1, "it fits to the word, and an empty one may come before"
    assert limits(23).needed(few) == 4
    assert 8 <= limits(48).needed(few) <= 10
    assert limits(20).needed([*few, exchange(9, 90)]) == 5, "one that fits nowhere takes no room"
    assert limits(None).needed(few) >= 12
    assert limits(None).needed([exchange(number) for number in range(13)]) == 13
    assert limits(0).needed([[]]) == 2


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(0, 8), st.integers(0, 120), st.integers(0, 40))
def test_no_pair_is_split_and_the_room_is_kept(sizes: list[int], unseen: int, room: int, to_rank: int) -> None:
    exchanges = [exchange(number, size) for number, size in enumerate(sizes)]
    begin = max(len(exchanges) - unseen, 0)
    it = memory([message for one in exchanges[:begin] for message in one], exchanges[begin:])
    history = given_history(it, limits(room), summary=Summary("Before.", to_rank))
    told = [*history.left, *history.unseen]
    assert sum(map(words, told)) <= room
    check_history([*(one.model_copy() for one in told), HumanMessage("And now?", id="now")])
    assert all(int(one.id.split(":")[1]) >= to_rank for one in told if ":" in (one.id or ""))
