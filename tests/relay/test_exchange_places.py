"""Places in an exchange's log that come from elsewhere: another instance's log, another owner's, the store alone."""

from support.broadcasting import a_log, progress, reader, say, start

from agentic_backend.protocol.events import PartialText, Reset
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.seq import next_epoch
from agentic_backend.relay.log.exchange_log import ExchangeLog


def mirrored(owner: ExchangeLog, *, up_to: int) -> ExchangeLog:
    """Another instance's log of the exchange, which lags behind."""
    mirror = a_log()
    mirror.is_mirrored = True
    for event in owner.read(0):
        if event.seq <= up_to:
            mirror.take_over(event)
    return mirror


def test_who_has_seen_more_than_a_mirror_waits_until_it_is_there() -> None:
    owner = a_log()
    for step in range(1, 11):
        progress(owner, step)
    mirror = mirrored(owner, up_to=4)
    cursor = reader(mirror, 7)
    for event in owner.read(4):
        assert [one.seq for one in cursor.take()] == ([] if event.seq <= 8 else [event.seq - 1])
        mirror.take_over(event)
    assert [event.seq for event in cursor.take()] == [10]


def test_text_that_spans_the_place_of_who_waits_comes_as_a_reset_above_it() -> None:
    owner = a_log()
    say(owner, *"abcdefgh")
    mirror = mirrored(owner, up_to=0)
    cursor = reader(mirror, 5)
    mirror.take_over(owner.read(0)[0])
    [reset] = cursor.take()
    assert isinstance(reset, Reset) and [text.text for text in reset.partial] == ["abcdefgh"] and reset.seq == 8


def test_who_waits_in_vain_gets_a_reset() -> None:
    owner, woken = a_log(), []
    say(owner, "a")
    mirror = mirrored(owner, up_to=1)
    cursor = mirror.follow(7, lambda: woken.append(1))
    mirror.give_up_unreached()
    assert (cursor.take(), woken) == ([], [])
    mirror.give_up_unreached()
    assert woken
    [reset] = cursor.take()
    assert isinstance(reset, Reset) and reset.seq == 1


def test_what_another_owner_may_have_given_is_no_place_here() -> None:
    """Between what came here and the next owner's events, and where that one's epoch begins."""
    log = a_log()
    say(log, "a", "b")
    known = log.last_seq
    log.jump_to(next_epoch(known))
    beginning = log.last_seq
    assert reader(log, beginning).take() == [], "nothing has come since"
    progress(log, 1)
    for place in (known + 1, known + 1_000, beginning):
        [reset] = reader(log, place).take()
        assert isinstance(reset, Reset) and reset.seq == log.last_seq > place
    [event] = reader(log, known).take()
    assert event.seq == beginning + 1


def test_what_is_made_of_the_store_alone_is_no_place_in_the_owners_log() -> None:
    owner, made = a_log(), a_log()
    start(owner)
    made.start_anew([], [PartialText(block=0, channel=Channel.FINAL, text="so far")], 0)
    for _ in range(2):
        cursor = reader(made)
        [reset] = cursor.take()
        assert isinstance(reset, Reset) and reset.seq == 0
        assert cursor.take() == []
    assert [event.type for event in reader(owner, reset.seq).take()] == ["started"]
