"""Texts in the classic form: whatever is written beside what, a client that knows only ranks shows what is stored."""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol_samples import MESSAGE

from agentic_backend.protocol.events import Delta, Event, Final, PartialText, Reset, Started, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.transports.classic import codec as classic
from agentic_backend.transports.classic import unfinished_texts
from agentic_backend.transports.classic.codec import Classic

EventT = TypeVar("EventT", Stream, Delta)

IDS: dict[str, Any] = {"session_id": "s", "exchange_id": "e"}


class OldClient:
    """Shows messages by rank; new text goes to what stands under its rank, and a stored message replaces that."""

    def __init__(self) -> None:
        self.shown: dict[int, tuple[bool, str]] = {}
        """Whether the message of each rank is stored, and its text."""
        self.exchange_ids: set[str] = set()

    def receive(self, frames: Iterable[str]) -> None:
        for frame in map(json.loads, frames):
            messages = frame["messages"] if frame["type"] == "final" else [frame["message"]]
            for message in messages:
                self.exchange_ids.add(message["exchange_id"])
                self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        rank, text = message["rank"], "".join(part["text"] for part in message["parts"])
        if message["metadata"]["extras"].get("streaming_delta") is True:
            is_stored, before = self.shown.get(rank, (False, ""))
            assert not is_stored, "no text is added to a stored message"
            self.shown[rank] = (False, before + text)
        else:
            self.shown[rank] = (True, text)

    @property
    def unfinished(self) -> dict[int, str]:
        return {rank: text for rank, (is_stored, text) in self.shown.items() if not is_stored}


class Graph:
    """Writes texts in blocks, in any order, and stores messages by rank; `events` are what a client is sent."""

    def __init__(self) -> None:
        self.rows: list[ChatMessage] = []
        self.texts: dict[int, str] = {}
        self.blocks = 0
        self.vanished: list[str] = []
        """Texts whose message will never be stored."""
        self.log: list[Event] = []
        """All events so far."""

    def _logged(self, event: EventT) -> EventT:
        self.log.append(event)
        return event

    def store(self, text: str, block: int | None = None) -> Stream:
        row = MESSAGE.model_copy(update={**IDS, "rank": 3 + len(self.rows), "parts": [TextPart(text=text)]})
        self.rows.append(row)
        return self._logged(Stream(**IDS, seq=1, message=row, block=block))

    def write(self, block: int, text: str) -> Delta:
        self.texts[block] = self.texts.get(block, "") + text
        return self._logged(Delta(**IDS, seq=1, block=block, channel=Channel.FINAL, text=text))

    def finish(self, block: int) -> Stream:
        return self.store(self.texts.pop(block), block)

    def reset(self) -> Reset:
        partial = [PartialText(block=block, channel=Channel.FINAL, text=text) for block, text in self.texts.items()]
        return Reset(**IDS, seq=1, messages=list(self.rows), partial=partial)

    def final(self) -> Final:
        return Final(**IDS, seq=1, status=ExchangeStatus.OK, messages=self.rows, session=None, usage=TokenUsage())


def check(graph: Graph, client: OldClient) -> None:
    """All stored messages are shown, and at most one text beside them: the beginning of one that is written."""
    stored = {rank: text for rank, (is_stored, text) in client.shown.items() if is_stored}
    assert stored == {row.rank: row.parts[0].text for row in graph.rows}  # type: ignore[union-attr]
    assert set(client.unfinished) <= {3 + len(graph.rows)}, "under the next rank"
    for text in client.unfinished.values():
        wholes = [*graph.texts.values(), *graph.vanished]
        assert any(whole.startswith(text) for whole in wholes), "the text of one message"


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "write", "begin", "finish", "other", "lost", "vanish", "again"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@given(acts=ACTS, longest=st.sampled_from([65_536, 40, 0]))
def test_no_rank_ever_shows_what_is_not_its_own(acts: list[tuple[str, int]], longest: int) -> None:
    kept, unfinished_texts._KEPT = unfinished_texts._KEPT, longest
    try:
        _play(acts)
    finally:
        unfinished_texts._KEPT = kept


def _play(acts: list[tuple[str, int]]) -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    assert codec.render(Started(**IDS, seq=1, agent_id="a", session=None)) == ()
    client.receive(codec.render(graph.store("the question")))
    for number, (act, which) in enumerate(acts):
        for event in events_of(graph, act, which, f"{number}. "):
            client.receive(codec.render(event))
        check(graph, client)
    for block in list(graph.texts):
        client.receive(codec.render(graph.finish(block)))
        check(graph, client)
    client.receive(codec.render(graph.store("the answer")))
    assert not client.unfinished
    client.receive(codec.render(graph.final()))
    check(graph, client)


def events_of(graph: Graph, act: str, which: int, text: str) -> list[Event]:
    blocks = list(graph.texts)
    block = blocks[which % len(blocks)] if blocks else None
    if act == "again":
        # The client has lost its place, and is shown the exchange from the beginning.
        return [Started(**IDS, seq=1, agent_id="a", session=None), *graph.log]
    if act == "other":
        return [graph.store(text)]
    if act == "lost":
        # The log of the exchange was restarted: the client has missed what came meanwhile.
        graph.store(f"missed {text}")
        for missed in blocks[:which]:
            graph.write(missed, "missed. ")
        return [graph.reset()]
    if act == "begin" or block is None:
        graph.blocks += 1
        return [graph.write(graph.blocks, text)]
    if act == "vanish":
        # Another instance has taken the exchange over, which does not know this text.
        graph.vanished.append(graph.texts.pop(block))
        graph.log = [event for event in graph.log if not (isinstance(event, Delta) and event.block == block)]
        return [graph.reset()]
    return [graph.finish(block) if act == "finish" else graph.write(block, text)]


def test_one_text_is_shown_as_it_is_written() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    client.receive(codec.render(graph.store("the question")))
    for word in ("one ", "two ", "three"):
        client.receive(codec.render(graph.write(1, word)))
        assert client.unfinished == {4: graph.texts[1]}
    client.receive(codec.render(graph.finish(1)))
    assert client.shown[4] == (True, "one two three")


def test_a_text_that_is_overtaken_is_shown_again_under_the_next_rank() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    client.receive(codec.render(graph.store("the question")))
    client.receive(codec.render(graph.write(1, "one ")))
    client.receive(codec.render(graph.write(2, "the other ")))
    assert client.unfinished == {4: "one "}, "one speaks at a time"
    client.receive(codec.render(graph.store("a result")))
    assert client.unfinished == {5: "one "}
    client.receive(codec.render(graph.write(1, "two")))
    assert client.unfinished == {5: "one two"}
    client.receive(codec.render(graph.finish(1)))
    assert client.unfinished == {6: "the other "}


def test_a_text_that_is_too_long_to_be_shown_again_is_shown_with_its_message() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    client.receive(codec.render(graph.store("the question")))
    for _ in range(3):
        client.receive(codec.render(graph.write(1, "x" * 40_000)))
    assert client.unfinished == {4: "x" * 120_000}, "as long as nothing overtakes it, all of it is shown"
    client.receive(codec.render(graph.store("a result")))
    client.receive(codec.render(graph.write(1, "y")))
    assert client.unfinished == {}
    client.receive(codec.render(graph.finish(1)))
    assert client.shown[5] == (True, "x" * 120_000 + "y")


def test_behind_a_reset_the_client_gets_what_it_lacks() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    graph.store("the question")
    graph.write(1, "one ")
    graph.store("a result")
    client.receive(codec.render(graph.reset()))
    assert client.shown == {3: (True, "the question"), 4: (True, "a result"), 5: (False, "one ")}


def test_text_whose_rank_is_unknown_is_held_back() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    client.receive(codec.render(graph.write(1, "one ")))
    assert client.shown == {}
    client.receive(codec.render(graph.store("a result")))
    assert client.unfinished == {4: "one "}


def test_an_exchange_is_named_by_its_client() -> None:
    graph, client, codec = Graph(), OldClient(), Classic()
    codec.name_exchange("e", "mine")
    client.receive(codec.render(graph.store("the question")))
    client.receive(codec.render(graph.write(1, "one ")))
    client.receive(codec.render(graph.finish(1)))
    client.receive(codec.render(graph.final()))
    assert client.exchange_ids == {"mine"}


def test_what_is_named_and_comes_to_nothing_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic, "_MOST_TOLD", 3)
    graph, client, codec = Graph(), OldClient(), Classic()
    codec.name_exchange("e", "mine")
    client.receive(codec.render(graph.store("the question")))
    for number in range(10):
        codec.name_exchange(f"none {number}", f"nothing {number}")
        client.receive(codec.render(graph.write(1, "word ")))
    assert client.unfinished == {4: graph.texts[1]}
    assert client.exchange_ids == {"mine"}
    assert len(codec._told) == 3
