"""The log of an exchange and its cursors: what each reader gets."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.broadcasting import a_log, ask, end, progress, reader, say, start
from support.log_client import LogClient

from agentic_backend.protocol.events import Activity, AwaitingHuman, Delta, Final, Reset, Stream
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog

NOW = utc_now()


def message(rank: int, text: str) -> ChatMessage:
    return ChatMessage(
        role=Role.ASSISTANT,
        channel=Channel.FINAL,
        parts=[TextPart(text=text)],
        session_id="s",
        exchange_id="e",
        rank=rank,
        timestamp=NOW,
    )


def stream(log: ExchangeLog, rank: int, text: str, block: int | None = None) -> None:
    log.append(Stream(**log.next_place(), message=message(rank, text), block=block))


def deltas(cursor: Cursor) -> list[tuple[int, int, str]]:
    """(seq, block, text) of what the cursor takes."""
    return [(event.seq, event.block, event.text) for event in cursor.take() if isinstance(event, Delta)]


def test_events_get_the_ids_of_their_exchange_and_rising_seqs() -> None:
    log = a_log()
    start(log)
    say(log, "a", "b")
    stream(log, 1, "ab", block=0)
    events = reader(log).take()
    assert [(event.session_id, event.exchange_id, event.seq) for event in events] == [
        ("s", "e", 1),
        ("s", "e", 3),
        ("s", "e", 4),
    ]
    assert log.last_seq == 4


def test_a_reader_that_keeps_up_gets_each_delta() -> None:
    log = a_log()
    cursor = reader(log)
    taken = []
    for text in "abc":
        say(log, text)
        taken += deltas(cursor)
    assert taken == [(1, 0, "a"), (2, 0, "b"), (3, 0, "c")]
    assert cursor.take() == []


def test_a_reader_that_is_behind_gets_adjacent_deltas_of_a_block_in_one() -> None:
    log = a_log()
    say(log, "a", "b")
    say(log, "x", block=1)
    say(log, "c", "d")
    assert deltas(reader(log)) == [(2, 0, "ab"), (3, 1, "x"), (5, 0, "cd")]


def test_deltas_merge_though_another_reader_has_had_them_one_by_one() -> None:
    log = a_log()
    fast, slow = reader(log), reader(log)
    for text in "abc":
        say(log, text)
        fast.take()
    assert deltas(slow) == [(3, 0, "abc")]


def test_other_events_keep_their_place_between_deltas() -> None:
    log = a_log()
    say(log, "a")
    progress(log, 1)
    say(log, "b")
    assert [type(event) for event in reader(log).take()] == [Delta, Activity, Delta]


@pytest.mark.parametrize(("after_seq", "seqs"), [(0, [1, 3, 4, 6]), (1, [3, 4, 6]), (3, [4, 6]), (4, [6]), (6, [])])
def test_a_reader_goes_on_behind_its_place(after_seq: int, seqs: list[int]) -> None:
    log = a_log()
    start(log)
    say(log, "a", "b")
    stream(log, 1, "ab", block=0)
    say(log, "c", "d", block=1)
    assert [event.seq for event in reader(log, after_seq).take()] == seqs


@pytest.mark.parametrize("after_seq", [2, 5, 7, 99])
def test_a_place_within_merged_text_or_beyond_the_end_is_answered_by_a_reset(after_seq: int) -> None:
    log = a_log()
    start(log)
    say(log, "a", "b")
    stream(log, 1, "ab", block=0)
    say(log, "c", "d", block=1)
    cursor = reader(log, after_seq)
    [reset] = cursor.take()
    assert isinstance(reset, Reset)
    assert reset.seq == 6
    assert reset.messages == [message(1, "ab")]
    assert [(partial.block, partial.channel, partial.text) for partial in reset.partial] == [(1, "final", "cd")]
    say(log, "e", block=1)
    assert deltas(cursor) == [(7, 1, "e")]


def test_an_unknown_place_stays_unknown_though_the_log_grows_beyond_it() -> None:
    log = a_log()
    start(log)
    cursor = reader(log, 3)
    say(log, "a", block=0)
    say(log, "b", block=1)
    say(log, "c", block=2)
    assert isinstance(cursor.take()[0], Reset)


@pytest.mark.parametrize("after_seq", [2, 99])
def test_a_reset_of_an_ended_exchange_is_followed_by_its_final(after_seq: int) -> None:
    log = a_log()
    say(log, "a", "b", "c")
    stream(log, 1, "abc", block=0)
    end(log)
    events = reader(log, after_seq).take()
    assert [type(event) for event in events] == [Reset, Final]
    assert [event.seq for event in events] == [4, 5]


def test_a_reset_of_a_waiting_exchange_is_followed_by_what_it_waits_for() -> None:
    log = a_log()
    say(log, "a", "b")
    ask(log)
    assert [type(event) for event in reader(log, 1).take()] == [Reset, AwaitingHuman]


def test_who_follows_from_the_end_gets_only_what_comes() -> None:
    log = a_log()
    say(log, "a", "b")
    cursor = reader(log, log.last_seq)
    say(log, "c")
    assert deltas(cursor) == [(3, 0, "c")]


def test_readers_are_woken_until_they_leave_and_text_wakes_apart() -> None:
    log = a_log()
    woken: list[str] = []
    cursor = log.follow(0, lambda: woken.append("event"), lambda: woken.append("text"))
    only_events = log.follow(0, lambda: woken.append("other"))
    start(log)
    assert sorted(woken) == ["event", "other"]
    log.unfollow(only_events)
    say(log, "a")
    assert woken[2:] == ["text"]
    log.unfollow(cursor)
    log.unfollow(cursor)
    say(log, "b")
    assert len(woken) == 3


async def test_the_end_is_waited_for() -> None:
    log = a_log()
    start(log)
    assert log.final is None
    end(log)
    await log.wait_ended()
    assert log.final is not None and log.final.status is ExchangeStatus.OK


def test_the_messages_are_those_that_were_streamed() -> None:
    log = a_log()
    stream(log, 0, "a")
    say(log, "b")
    stream(log, 1, "b", block=0)
    assert log.messages == [message(0, "a"), message(1, "b")]


class _Writer:
    """Writes as an exchange does: a block that is open may be closed by its message."""

    def __init__(self, log: ExchangeLog) -> None:
        self.log = log
        self.open: dict[int, str] = {}
        self.blocks = self.rank = 0

    def step(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        match draw(st.integers(0, 9)):
            case 0 if self.open:
                block = draw(st.sampled_from(sorted(self.open)))
                stream(self.log, self.rank, self.open.pop(block), block)
                self.rank += 1
            case 1:
                stream(self.log, self.rank, "whole")
                self.rank += 1
            case 2:
                progress(self.log, self.log.last_seq)
            case 3:
                self.blocks += 1
                self.say(self.blocks)
            case _:
                self.say(draw(st.sampled_from([*sorted(self.open), self.blocks + 1])))

    def say(self, block: int) -> None:
        self.blocks = max(self.blocks, block)
        text = f"{self.log.last_seq} "
        self.open[block] = self.open.get(block, "") + text
        say(self.log, text, block=block)


def move(client: LogClient, data: st.DataObject, last_seq: int) -> None:
    """Something that happens to a client's connection."""
    match data.draw(st.integers(0, 6)):
        case 0:
            client.leave()
        case 1:
            client.follow()
        case 2:
            client.follow(0)
        case 3:
            client.follow(last_seq + data.draw(st.integers(1, 3)))
        case 4 if client.cursor is not None:
            client.read(at_most=data.draw(st.integers(0, 3)))
        case _ if client.cursor is not None:
            client.read()


@given(st.data())
@settings(max_examples=200)
def test_every_reader_ends_with_the_same_transcript(data: st.DataObject) -> None:
    """Whenever readers read, lose their connection half-way through what they read, and come back, at what place."""
    log = a_log(compact_after=data.draw(st.sampled_from([2, 3, 8, 512]), label="compact_after"))
    start(log)
    writer, witness = _Writer(log), LogClient(log)
    clients = [LogClient(log) for _ in range(data.draw(st.integers(1, 3), label="clients"))]
    for _ in range(data.draw(st.integers(0, 40), label="steps")):
        writer.step(data.draw)
        if data.draw(st.booleans(), label="the witness keeps up"):
            witness.read()
        move(data.draw(st.sampled_from(clients)), data, log.last_seq)
    if data.draw(st.booleans(), label="ended"):
        end(log)
    for client in [witness, *clients]:
        client.catch_up()
        assert client.transcript == witness.transcript
    assert witness.resets == 0, "who never lost its place is never reset"
    assert witness.blocks == {block: f"final: {text}" for block, text in writer.open.items()}


def test_a_place_within_text_that_was_merged_elsewhere_gets_a_reset_and_nothing_twice() -> None:
    owner, mirror = a_log(), a_log()
    say(owner, *"abcdef")
    [merged] = reader(owner).take()
    mirror.take_over(merged)
    [reset] = mirror.read(3)
    assert isinstance(reset, Reset) and [text.text for text in reset.partial] == ["abcdef"]
    assert [event.seq for event in mirror.read(0)] == [6]


def test_who_reads_a_log_that_is_being_filled_waits_until_it_is() -> None:
    mirror, woken = a_log(), []
    mirror.is_filling = True
    cursor = mirror.follow(2, lambda: woken.append(1))
    for seq, text in enumerate("abcd", start=1):
        mirror.take_over(Delta(session_id="s", exchange_id="e", seq=seq, block=0, channel=Channel.FINAL, text=text))
        assert cursor.take() == []
    mirror.filled()
    assert woken
    [delta] = cursor.take()
    assert isinstance(delta, Delta) and (delta.text, delta.seq) == ("cd", 4)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "bc", None])), max_size=40), st.integers(0, 40))
def test_the_partial_texts_are_those_of_the_blocks_without_a_message(
    steps: list[tuple[int, str | None]], restart_at: int
) -> None:
    log, texts = ExchangeLog("s", "e", compact_after=8), dict[int, str]()
    for number, (block, text) in enumerate(steps):
        if number == restart_at:
            log.start_anew(log.messages, log.partial, log.last_seq + 1)
        if text is None:
            texts.pop(block, None)
            stream(log, number, "whole", block)
        else:
            texts[block] = texts.get(block, "") + text
            log.append_text(block, Channel.FINAL, text)
    assert {partial.block: partial.text for partial in log.partial} == {of: text for of, text in texts.items() if text}
    rest = {partial.block: partial.text for partial in log.partial_after(dict.fromkeys(texts, 1))}
    assert rest == {of: text[1:] for of, text in texts.items() if text[1:]}
    assert {of: length for of, length in log.partial_lengths.items() if length} == {
        of: len(text) for of, text in texts.items() if text
    }
