"""How much a log keeps of text and progress, whoever reads it, and what it tells of its size."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from support.broadcasting import a_log, end, progress, reader, say, start, store

from agentic_backend.protocol.events import Activity, Delta, Reset
from agentic_backend.relay.log.exchange_log import ExchangeLog

TOKENS = 20_000


def each_token(log: ExchangeLog) -> Callable[[], None]:
    cursor = reader(log)
    return lambda: [cursor.take()].clear()


def nobody(log: ExchangeLog) -> Callable[[], None]:
    return lambda: None


def gone(log: ExchangeLog) -> Callable[[], None]:
    """A reader that left after its first token."""
    say(log, "first ")
    cursor = reader(log)
    cursor.take()
    log.unfollow(cursor)
    return lambda: None


def stuck(log: ExchangeLog) -> Callable[[], None]:
    """A reader that takes nothing any more."""
    reader(log)
    return lambda: None


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("reading", [each_token, nobody, gone, stuck])
def test_what_is_kept_follows_the_text_and_not_its_tokens(
    reading: Callable[[ExchangeLog], Callable[[], None]], blocks: int
) -> None:
    log = a_log(compact_after=100)
    read = reading(log)
    for number in range(TOKENS):
        say(log, "ab ", block=number % blocks)
        read()
    # The entries are what costs memory, and nothing public tells their number.
    assert len(log._entries) <= 100 + 2 * blocks
    texts = {
        partial.block: partial.text
        for event in log.read(10**9)
        if isinstance(event, Reset)
        for partial in event.partial
    }
    assert "".join(texts.values()).count("ab ") == TOKENS


def test_of_progress_that_everybody_has_seen_only_the_last_is_kept() -> None:
    log = a_log(compact_after=100)
    cursor = reader(log)
    for step in range(1, 10_001):
        progress(log, step)
        cursor.take()
    assert len(log._entries) <= 101
    [*_, last] = reader(log).take()
    assert isinstance(last, Activity) and last.data == {"step": 10_000}


def test_progress_that_somebody_has_not_seen_yet_is_kept() -> None:
    log = a_log(compact_after=10)
    fast, slow = reader(log), reader(log)
    for step in range(50):
        progress(log, step)
        fast.take()
    assert [event.data["step"] for event in slow.take() if isinstance(event, Activity)] == list(range(50))


def test_progress_that_comes_before_anybody_reads_is_kept() -> None:
    log = a_log(compact_after=10)
    cursor = reader(log)
    for step in range(5_000):
        progress(log, step)
    assert [event.data["step"] for event in cursor.take() if isinstance(event, Activity)] == list(range(5_000))


@pytest.mark.parametrize("fast_too", [False, True])
def test_of_unread_progress_beyond_its_bytes_the_oldest_is_left_out_and_counted(fast_too: bool) -> None:
    log = a_log(compact_after=10)
    slow, fast = reader(log), reader(log)
    seen = 0
    for step in range(200):
        log.append(Activity(**log.next_place(), kind="progress", data={"step": step, "rest": "x" * 20_000}))
        seen += len(fast.take()) if fast_too else 0
    assert seen == (200 if fast_too else 0), "who keeps up misses nothing"
    events = [event.data for event in slow.take() if isinstance(event, Activity)]
    left_out, kept = [data["left_out"] for data in events if "left_out" in data], events[-50:]
    assert sum(left_out) + len(events) - len(left_out) == 200
    assert [data["step"] for data in kept] == list(range(150, 200))
    assert len(log._entries) < 100, "what is left out takes no memory"


def test_progress_between_texts_is_left_out_where_it_was() -> None:
    log = a_log(compact_after=1_000)
    cursor = reader(log)
    for step in range(60):
        log.append(Activity(**log.next_place(), kind="progress", data={"rest": "x" * 30_000}))
        if step == 9:
            say(log, "word ")
    first, text, second, *kept = cursor.take()
    assert isinstance(first, Activity) and first.data == {"left_out": 10}
    assert isinstance(text, Delta)
    assert isinstance(second, Activity) and second.data == {"left_out": 50 - len(kept)}


@pytest.mark.parametrize(("words", "length"), [(1, 5), (200, 5), (20, 2_000), (500, 5)])
def test_its_size_is_about_the_memory_that_it_takes(words: int, length: int) -> None:
    def told(number: int) -> ExchangeLog:
        log = a_log(compact_after=10_000)
        start(log)
        texts = [f"{number + word:0{length}}" for word in range(words)]
        say(log, *texts)
        store(log, 0, "".join(texts), block=0)
        end(log)
        return log

    told(0)
    gc.collect()
    tracemalloc.start()
    try:
        logs = [told(number) for number in range(100)]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] / len(logs)
    finally:
        tracemalloc.stop()
    assert taken / 2 < logs[0].size < taken * 2
