"""Which events of an exchange count for its reader, and what becomes of those that wait too long."""

import asyncio
from typing import Any

import pytest

from agentic_backend.client import Activity, AwaitingHuman, Delta, Event, Final, PersonNeeded, Reset, Started, places
from agentic_backend.client.exchange import Exchange
from agentic_backend.protocol.events import ExchangeEvent, HumanRequests, PartialText
from agentic_backend.protocol.frames import Follow
from agentic_backend.protocol.messages import Channel, ExchangeStatus, TokenUsage

PLACE: dict[str, Any] = {"session_id": "s1", "exchange_id": "e1"}
STARTED = Started(**PLACE, seq=1, agent_id="a", session=None)
WAITING = AwaitingHuman(**PLACE, seq=3, payload=HumanRequests(requests=[]))


def delta(seq: int, text: str = "x") -> Delta:
    return Delta(**PLACE, seq=seq, block=1, channel=Channel.FINAL, text=text)


def final(seq: int) -> Final:
    return Final(**PLACE, seq=seq, status=ExchangeStatus.OK, messages=[], session=None, usage=TokenUsage())


class Followed:
    """An exchange with what it has sent."""

    def __init__(self) -> None:
        self.sent: list[Follow] = []
        self.forgotten = 0
        self.exchange = Exchange(exchange_id="e1", send=self.sent.append, forget=self._forget, patience_s=1)

    def _forget(self, exchange: Exchange) -> None:
        self.forgotten += 1

    def take(self, *events: ExchangeEvent) -> None:
        for event in events:
            self.exchange.take(event, 100)

    async def read(self, count: int) -> list[Event]:
        return [await anext(self.exchange) for _ in range(count)]


async def test_each_event_counts_once_and_nothing_before_the_beginning() -> None:
    followed = Followed()
    followed.take(delta(5), STARTED, delta(2), delta(2), delta(4), delta(3), final(5))
    assert [event async for event in followed.exchange] == [STARTED, delta(2), delta(4), final(5)]
    assert followed.forgotten == 1


async def test_a_beginning_counts_also_where_it_is_lower() -> None:
    followed = Followed()
    reset = Reset(**PLACE, seq=2, messages=[], partial=[PartialText(block=1, channel=Channel.FINAL, text="ab")])
    followed.take(STARTED, delta(7, "abc"), reset, delta(3, "c"))
    assert await followed.read(4) == [STARTED, delta(7, "abc"), reset, delta(3, "c")]
    assert followed.exchange.text == "abc"


async def test_dropped_events_are_asked_for_once_the_reader_reads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_WAITING_AT_MOST", 2)
    followed = Followed()
    followed.take(STARTED, delta(2), delta(3), delta(4))
    assert followed.sent == [] and not followed.exchange.is_due
    reading = asyncio.create_task(followed.read(2))
    await asyncio.sleep(0)
    assert followed.sent == [Follow(exchange_id="e1", session_id="s1", after_seq=0)] and followed.exchange.is_due
    followed.take(delta(5), STARTED, delta(5))
    assert await reading == [STARTED, delta(5)]


async def test_the_end_takes_the_place_of_dropped_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_WAITING_AT_MOST", 2)
    followed = Followed()
    followed.take(STARTED, delta(2), delta(3), delta(4), final(5))
    assert [event async for event in followed.exchange] == [final(5)]
    assert followed.sent == []


async def test_an_exchange_that_another_reader_has_shown_anew_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_WAITING_AT_MOST", 2)
    followed = Followed()
    followed.take(STARTED, delta(2), delta(3), delta(4), STARTED, delta(4))
    assert await followed.read(2) == [STARTED, delta(4)]
    assert followed.sent == []


async def test_an_answer_goes_on_after_the_person_has_decided() -> None:
    followed = Followed()
    followed.take(STARTED, WAITING)
    with pytest.raises(PersonNeeded) as needed:
        await followed.exchange.answer()
    assert needed.value.waiting == WAITING and followed.exchange.awaiting == WAITING.payload
    followed.take(Activity(**PLACE, seq=4, kind="progress", data={}), delta(5, "done"))
    await followed.read(2)
    assert followed.exchange.awaiting is None and followed.exchange.text == "done"
    followed.take(final(6))
    await followed.exchange.answer()
