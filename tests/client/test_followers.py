"""Which ask an event answers: `started` names it; where that is lost, the text of the question tells."""

from datetime import UTC, datetime

import pytest

from agentic_backend.client import Delta, Event, Final, Reset, Started
from agentic_backend.client.exchange import Exchange
from agentic_backend.client.followers import Followers
from agentic_backend.client.session_feed import SessionFeed
from agentic_backend.protocol.frames import Ask
from agentic_backend.protocol.messages import Channel, ChatMessage, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import TextPart

OLD = {"session_id": "s1", "exchange_id": "e1"}
NEW = {"session_id": "s2", "exchange_id": "e2"}


def asked(followers: Followers, client_id: str, session_id: str | None = None) -> Exchange:
    ask = Ask(message="hi", client_exchange_id=client_id, session_id=session_id)
    exchange = Exchange(ask=ask, send=lambda follow: None, forget=followers.remove, patience_s=1)
    followers.add(exchange)
    return exchange


def question(place: dict[str, str]) -> ChatMessage:
    parts = [TextPart(text="hi")]
    return ChatMessage(role=Role.USER, channel=Channel.FINAL, parts=parts, rank=0, timestamp=datetime.now(UTC), **place)


def started(place: dict[str, str], client_id: str) -> Started:
    return Started(**place, seq=1, agent_id="a", session=None, client_exchange_id=client_id)


def final(place: dict[str, str]) -> Final:
    messages = [question(place)]
    return Final(**place, seq=9, status=ExchangeStatus.OK, messages=messages, session=None, usage=TokenUsage())


def reset(place: dict[str, str]) -> Reset:
    return Reset(**place, seq=5, messages=[question(place)], partial=[])


@pytest.mark.parametrize("event", [final(NEW), reset(NEW)])
def test_what_is_told_first_of_an_exchange_may_answer_an_ask_that_was_sent_again(event: Event) -> None:
    followers = Followers()
    exchange = asked(followers, "c1")
    followers.take(event, 100)
    assert exchange.exchange_id == "e2"


@pytest.mark.parametrize("late", [final(OLD), reset(OLD)])
def test_the_end_of_an_exchange_that_nobody_reads_any_more_answers_no_other_ask(late: Event) -> None:
    followers = Followers()
    closed = asked(followers, "c1")
    followers.take(started(OLD, "c1"), 100)
    followers.take(Delta(**OLD, seq=2, block=1, channel=Channel.FINAL, text="x"), 100)
    closed.close()
    exchange = asked(followers, "c2")
    followers.take(late, 100)
    assert exchange.exchange_id is None
    followers.take(started(NEW, "c2"), 100)
    assert exchange.exchange_id == "e2"


def test_what_is_told_of_a_session_that_is_followed_answers_no_ask_for_a_new_one() -> None:
    followers = Followers()
    followers.add_feed(SessionFeed("s1", send=lambda frame: None, forget=lambda feed: None))
    new, there = asked(followers, "c1"), asked(followers, "c2", "s1")
    followers.take(reset(OLD), 100)
    assert (new.exchange_id, there.exchange_id) == (None, "e1")
