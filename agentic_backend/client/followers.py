"""Followers: the open readers of a client. Each event goes to those that it concerns."""

from collections.abc import Iterator
from typing import TypeVar

from agentic_backend.client.errors import ChatError, Refused
from agentic_backend.client.exchange import Exchange
from agentic_backend.client.session_feed import SessionFeed
from agentic_backend.client.session_list import SessionList
from agentic_backend.protocol.events import (
    Event,
    ExchangeEvent,
    Final,
    FollowingSessions,
    FrameRefused,
    Idle,
    Reset,
    SessionChanged,
    SessionDeleted,
    Started,
)
from agentic_backend.protocol.frames import Ask, Follow, FollowSessions
from agentic_backend.protocol.messages import Role
from agentic_backend.protocol.parts import text_of

Reader = TypeVar("Reader", Exchange, SessionFeed)

_MOST_TOLD = 10_000


class Followers:
    def __init__(self) -> None:
        self._asked: dict[str, Exchange] = {}
        """The exchanges of which the server has told nothing yet, by the client's ids of their asks."""
        self._named: dict[str, set[Exchange]] = {}
        """The exchanges by the server's ids."""
        self._feeds: dict[str, set[SessionFeed]] = {}
        """By session id."""
        self._lists: set[SessionList] = set()
        self._told: dict[str, None] = {}
        """The exchanges of which an event has come, the latest ones last."""

    def add(self, exchange: Exchange) -> None:
        if exchange.exchange_id is not None:
            self._named.setdefault(exchange.exchange_id, set()).add(exchange)
            return
        assert exchange.ask is not None and exchange.ask.client_exchange_id is not None
        if exchange.ask.client_exchange_id in self._asked:
            raise ValueError("This client_exchange_id is being asked already.")
        self._asked[exchange.ask.client_exchange_id] = exchange

    def remove(self, exchange: Exchange) -> None:
        if exchange.ask is not None:
            self._asked.pop(exchange.ask.client_exchange_id or "", None)
        _discard(self._named, exchange.exchange_id or "", exchange)

    def add_feed(self, feed: SessionFeed) -> None:
        self._feeds.setdefault(feed.session_id, set()).add(feed)

    def remove_feed(self, feed: SessionFeed) -> None:
        _discard(self._feeds, feed.session_id, feed)

    def has_feed(self, session_id: str) -> bool:
        return session_id in self._feeds

    def add_list(self, sessions: SessionList) -> None:
        self._lists.add(sessions)

    def remove_list(self, sessions: SessionList) -> None:
        self._lists.discard(sessions)

    @property
    def has_list(self) -> bool:
        return bool(self._lists)

    def in_session(self, session_id: str) -> list[Exchange]:
        return [exchange for exchange in self._exchanges() if exchange.session_id == session_id]

    def frames(self) -> Iterator[Ask | Follow | FollowSessions]:
        """What makes a new connection show all of them; each exchange from the lowest place of its readers."""
        asked = [exchange for exchange in self._asked.values() if not exchange.waits_to_ask]
        yield from [exchange.ask for exchange in asked if exchange.ask is not None]
        follows: dict[str, Follow] = {}
        feeds = [feed for feeds in self._feeds.values() for feed in feeds if feed.is_due]
        named = [exchange for exchanges in self._named.values() for exchange in exchanges if exchange.is_due]
        for follow in [
            *(exchange.follow() for exchange in named),
            *(each for feed in feeds for each in feed.follows()),
        ]:
            assert follow.exchange_id is not None
            known = follows.setdefault(follow.exchange_id, follow)
            if follow.after_seq < known.after_seq:
                follows[follow.exchange_id] = follow
        yield from follows.values()
        yield from {feed.session_id: feed.frame for feed in feeds}.values()
        if any(sessions.is_due for sessions in self._lists):
            yield FollowSessions()

    def take(self, event: Event, size: int) -> None:
        """Give an event, which came with `size` bytes, to its readers."""
        if isinstance(event, ExchangeEvent):
            for exchange in self._readers_of(event):
                exchange.take(event, size)
            self._tell_feeds(event.session_id, event, size)
        elif isinstance(event, Idle):
            self._tell_feeds(event.session_id, event, size)
        elif isinstance(event, SessionChanged):
            self._tell_feeds(event.session.id, event, size)
        if isinstance(event, SessionChanged | SessionDeleted | FollowingSessions):
            for sessions in self._lists:
                sessions.take(event, size)

    def refuse(self, refused: FrameRefused) -> None:
        """End what a refused `ask` or `follow` was for, unless the ask is to come later."""
        readers: list[Exchange | SessionFeed | SessionList] = []
        if refused.refused == "ask":
            asked = self._asked.get(refused.client_exchange_id or "")
            readers += [asked] if asked is not None and not asked.put_off(refused) else []
        elif refused.refused == "follow_sessions":
            readers += self._lists
        elif refused.exchange_id is not None:
            readers += self._named.get(refused.exchange_id, ())
        else:
            readers += self._feeds.get(refused.session_id or "", ())
        for reader in readers:
            reader.fail(Refused.of(refused))

    def fail_one(self, exchange_id: str, error: ChatError) -> bool:
        """End the readers of one exchange; False if there is none."""
        readers = list(self._named.get(exchange_id, ()))
        for exchange in readers:
            exchange.fail(error)
        return bool(readers)

    def fail(self, error: ChatError) -> None:
        for exchange in self._exchanges():
            exchange.fail(error)
        for feed in [feed for feeds in self._feeds.values() for feed in feeds]:
            feed.fail(error)
        for sessions in list(self._lists):
            sessions.fail(error)

    def _exchanges(self) -> list[Exchange]:
        return [*self._asked.values(), *(exchange for exchanges in self._named.values() for exchange in exchanges)]

    def _readers_of(self, event: ExchangeEvent) -> list[Exchange]:
        asked = self._answered_by(event)
        self._told.pop(event.exchange_id, None)
        self._told[event.exchange_id] = None
        if len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]
        if asked is not None:
            self.remove(asked)
            asked.exchange_id = event.exchange_id
            self.add(asked)
        return list(self._named.get(event.exchange_id, ()))

    def _answered_by(self, event: ExchangeEvent) -> Exchange | None:
        """The ask that the event answers first.

        `started` names it. Of the exchange of an ask that was sent again there may be only a `reset` or the `final`,
        which don't: then the text of the user's message tells, if nothing was told of that exchange before.
        """
        if isinstance(event, Started):
            return self._asked.get(event.client_exchange_id or "")
        if event.exchange_id in self._told or event.exchange_id in self._named or not isinstance(event, Reset | Final):
            return None
        # An ask without a session begins one, which nobody follows yet.
        sessions = {event.session_id} if self.has_feed(event.session_id or "") else {None, event.session_id}
        said = [text_of(message.parts) for message in event.messages if message.role is Role.USER]
        for exchange in self._asked.values():
            assert exchange.ask is not None
            if exchange.ask.message in said and exchange.ask.session_id in sessions:
                return exchange
        return None

    def _tell_feeds(self, session_id: str | None, event: Event, size: int) -> None:
        for feed in list(self._feeds.get(session_id or "", ())):
            feed.take(event, size)


def _discard(readers: dict[str, set[Reader]], key: str, reader: Reader) -> None:
    if key in readers:
        readers[key].discard(reader)
        if not readers[key]:
            del readers[key]
