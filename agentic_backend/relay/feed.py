"""Feed: the events for one client, on any transport: one asynchronous iterator.

The transport opens the feed, iterates it and renders its events; meanwhile the client's requests call its methods, in
the same event loop. It follows any number of exchanges and sessions, and paces their text. It has no queue of exchange
events: each round reads what is new at the cursors, so that a slow client costs no memory and gets fewer, larger texts.

The feed keeps the rules of the protocol that hold on every transport: one cursor per exchange, a query ends with its
feed, a repeated stop is answered by `idle`, unsent answers are limited, and an idle client is closed in a shutdown.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import islice, repeat

from agentic_backend.protocol.close_codes import CloseCode
from agentic_backend.protocol.events import Event, Final, FollowingSessions, Idle, SessionChanged, SessionDeleted
from agentic_backend.protocol.messages import Session
from agentic_backend.relay.drain import DrainNotice
from agentic_backend.relay.light_event import LightEvent
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog, Replay
from agentic_backend.relay.pacing import Pacer, text_interval_s
from agentic_backend.relay.relay import Relay

# A client that sends requests without reading the answers is not read from until it catches up.
_ANSWERS_AT_MOST = 256
# Finals from the store may have a MiB each.
_STORED_FINALS_AT_MOST = 4
_WATCHED_AT_MOST = 1_000
# Sessions whose changes a slow client has not been told; beyond that it reads the list again.
_CHANGED_AT_MOST = 1_000
_AT_ONCE = 16


@contextmanager
def open_feed(relay: Relay, least_text_interval_s: float) -> Iterator["Feed"]:
    """Open the feed of one client for the block. At its end the client's queries stop; its exchanges continue.

    Text gathers for `least_text_interval_s` seconds, and longer if many exchanges run.
    """
    pacer = Pacer(lambda: text_interval_s(least_text_interval_s, relay.running_count))
    with relay.drain.notice(pacer.wake) as notice:
        feed = Feed(relay, pacer, notice)
        try:
            yield feed
        finally:
            feed.close()


class Feed:
    """Made by `open_feed`. It is the SessionSubscriber of its client's sessions."""

    def __init__(self, relay: Relay, pacer: Pacer, notice: DrainNotice) -> None:
        self.close_code: CloseCode | None = None
        """Why the feed ends after the next round; None while it does not end."""
        self._relay = relay
        self._pacer = pacer
        """Decides when the next round is due."""
        self._notice = notice
        """Due when the server stops and this connection should close."""
        self._answers: list[Event] = []
        """Unsent events that belong to no exchange, in order. A list, since an empty deque takes 0.7 KiB."""
        self._changed: dict[str, SessionChanged | SessionDeleted] = {}
        """The current state of watched and followed sessions with an unsent change, by session id."""
        self._list_of: str | None = None
        """The user all of whose sessions the client follows."""
        self._must_read_list = False
        """Whether the client has missed changes, and is to read its list of sessions again."""
        self._cursors: dict[str, Cursor] = {}
        """The cursors of the followed exchanges, by exchange id."""
        self._stored_finals: set[str] = set()
        """Ids of the followed exchanges whose log holds only a final from the store."""
        self._stops: dict[str, int] = {}
        """The number of the client's stops of each exchange whose end it has not been sent, by exchange id."""
        self._owned: set[str] = set()
        """Ids of the exchanges that stop with this feed, such as the client's queries."""
        self._watched: dict[str, None] = {}
        """Ids of the sessions that this client watches, oldest first."""
        self._only: str | None = None
        """The id of the exchange whose final ends the feed; None if no final does."""
        self._is_answering = False
        """Whether a request is being handled, whose answer the client would miss if the feed ended."""
        self._expiry: asyncio.TimerHandle | None = None
        """Ends the feed when the client's token expires."""
        self._room = LightEvent()
        """Set when less is unsent than before, or the feed ends."""
        self._round: Iterator[Event] = iter(())
        """The remaining events of this round."""
        self._is_last_round = False

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> Event:
        while (event := next(self._round, None)) is None:
            if self._has_ended():
                raise StopAsyncIteration
            # No timeout: exchanges take as long as they take, and the transport notices a client that disconnects.
            await self._pacer.due()
            # One more round after `close_code` is set: it shows the reason.
            self._is_last_round = self.close_code is not None
            self._round = self._due()
        return event

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The same events in lists of those that come at once, at most _AT_ONCE each."""
        async for event in self:
            yield [event, *islice(self._round, _AT_ONCE - 1)]

    def follow(self, log: ExchangeLog, after_seq: int) -> Replay:
        """Show an exchange's events after `after_seq`; return what comes first. Another call moves the cursor.

        A client that has all events of an ended exchange does not follow it (see `follows`), and is to be told `idle`.
        """
        self._unfollow(log.exchange_id)
        if log.final is not None and log.final.seq == after_seq:
            # The client has all events; a cursor would only keep the log in memory.
            return "live"
        cursor = log.follow(after_seq, self._pacer.wake, self._pacer.wake_for_text)
        self._cursors[log.exchange_id] = cursor
        if log.is_stored_final:
            self._stored_finals.add(log.exchange_id)
        self._pacer.wake()
        return log.replay_from(cursor.position)

    def follows(self, exchange_id: str) -> bool:
        return exchange_id in self._cursors

    def idle(self, session: Session | None) -> None:
        """Answer a request with `idle`: nothing runs in the session (None: a query)."""
        self.answer(_idle(session))

    def follow_on(self, log: ExchangeLog) -> None:
        """Show an exchange from its beginning, unless it is followed already."""
        if log.exchange_id not in self._cursors:
            self.follow(log, 0)

    def follow_decided(self, log: ExchangeLog) -> None:
        """Show the exchange on which the client has decided; of one that its decision has ended, only the final."""
        if log.exchange_id not in self._cursors:
            self.follow(log, 0 if log.final is None else log.final.seq - 1)

    def follow_only(self, log: ExchangeLog, after_seq: int = 0, *, stops_with_feed: bool = False) -> None:
        """Show the exchange of the client's ask, or its events after `after_seq`, to its final, which ends the feed.

        A query always stops with this feed.
        """
        self._only = log.exchange_id
        if stops_with_feed or log.session_id is None:
            self._owned.add(log.exchange_id)
        self.follow(log, after_seq)

    def follow_asked(self, log: ExchangeLog) -> None:
        """Show the exchange of the client's ask, and changes of its session; a query stops with this feed."""
        if log.session_id is None:
            self._owned.add(log.exchange_id)
        else:
            self._watch(log.session_id, exchanges_too=False)
        self.follow_on(log)

    def follow_session(
        self, session: Session, running: ExchangeLog | None, seen: tuple[ExchangeLog, int] | None = None
    ) -> Replay:
        """Show the session's running exchange from its beginning, and all later ones, until `unfollow_session`.

        `running` is the exchange that ran when the session was read; `seen` is an exchange and the seq up to which the
        client has its events. If there is nothing to show, `idle` is sent. Returns what comes first.
        """
        self._watch(session.id, exchanges_too=True)
        replay: Replay = "live"
        if seen is not None and not _has_stored_final(*seen):
            replay = self.follow(*seen)
        # An exchange may have begun since the session was read.
        begun = self._relay.running_in(session.id)
        running = begun.log if begun is not None else running
        if running is None:
            if seen is None or seen[0].exchange_id not in self._cursors:
                self.idle(session)
            return replay
        if seen is not None and seen[0].exchange_id == running.exchange_id:
            if running.exchange_id not in self._cursors:
                # It has ended since the session was read, and the client has all of it.
                self.idle(session)
            return replay
        self.follow(running, 0)
        return "replayed"

    def follow_sessions(self, user_id: str) -> None:
        """Show each change of a session of the user, until `unfollow_sessions`."""
        self.unfollow_sessions()
        self._list_of = user_id
        self._relay.list_subscriptions.add(user_id, self)
        self.answer(FollowingSessions())

    def unfollow_sessions(self) -> None:
        if self._list_of is not None:
            self._relay.list_subscriptions.remove(self._list_of, self)
            for session_id in self._changed.keys() - self._watched.keys():
                del self._changed[session_id]
        self._list_of, self._must_read_list = None, False

    def unfollow_session(self, session_id: str) -> None:
        """Stop showing the session and its exchanges."""
        self._unwatch(session_id)
        if self._list_of is None:
            # Of a client that follows all sessions it is what that tells.
            self._changed.pop(session_id, None)
        for exchange_id, cursor in list(self._cursors.items()):
            if cursor.log.session_id == session_id:
                self._drop(exchange_id)

    def stopped(self, stopped: ExchangeLog | Session | None) -> None:
        """Answer a stop with the end of the exchange or, if nothing runs in the session (None: a query), with `idle`.

        Repeated stops of an exchange are answered with one `idle` each after its end.
        """
        if not isinstance(stopped, ExchangeLog):
            self.idle(stopped)
            return
        self._stops[stopped.exchange_id] = self._stops.get(stopped.exchange_id, 0) + 1
        if stopped.exchange_id not in self._cursors:
            # A waiting exchange has ended already: show at least its final.
            self.follow(stopped, stopped.last_seq if stopped.final is None else stopped.final.seq - 1)

    def answer(self, event: Event) -> None:
        """Show an event that belongs to no exchange."""
        self._answers.append(event)
        self._pacer.wake()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Keep the feed open during a shutdown while the block handles a request of the client."""
        self._is_answering = True
        try:
            yield
        finally:
            self._is_answering = False
            if self._notice.is_due:
                self._pacer.wake()

    async def room(self) -> None:
        """Wait until few answers are unsent, so that a client can't send requests without reading the answers."""
        while self.close_code is None and self._is_behind():
            self._room.clear()
            # The transport bounds it: it ends the feed of a client that does not read.
            await self._room.wait()

    def end(self, code: CloseCode) -> None:
        """End the feed after one more round. Only the first code counts."""
        self.close_code = self.close_code or code
        self._pacer.wake()
        self._room.set()

    def end_after(self, left_s: float | None) -> None:
        """End the feed in `left_s` seconds, when the client's token expires (None: never). Replaces earlier calls."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if left_s is not None:
            self._expiry = asyncio.get_running_loop().call_later(left_s, self.end, CloseCode.SIGN_IN_AGAIN)

    def close(self) -> None:
        """Unfollow everything, and stop the exchanges that are to stop with this feed."""
        self.end_after(None)
        self._pacer.cancel()
        self.unfollow_sessions()
        for session_id in list(self._watched):
            self._unwatch(session_id)
        for exchange_id in self._owned:
            running = self._relay.running(exchange_id)
            if running is not None:
                running.stop()
        for exchange_id in list(self._cursors):
            self._drop(exchange_id)

    def exchange_started(self, log: ExchangeLog) -> None:
        followed = self._cursors.get(log.exchange_id)
        if followed is None or followed.log is not log:
            self.follow(log, followed.position if followed is not None else 0)

    def session_changed(self, session: Session) -> None:
        # One who follows all sessions is told what ListUpdates reads, which is never older.
        if session.user_id != self._list_of:
            self._changed[session.id] = SessionChanged(session=session)
            self._pacer.wake()

    def session_told(self, told: SessionChanged | SessionDeleted) -> None:
        session_id = told.session_id if isinstance(told, SessionDeleted) else told.session.id
        unsent = self._changed.get(session_id)
        if isinstance(told, SessionChanged) and told.status is None and isinstance(unsent, SessionChanged):
            # A new title, say, after the end of an exchange that the client has not been told.
            if unsent.status is not None and unsent.status.ended:
                told = told.model_copy(update={"status": unsent.status})
        self._changed[session_id] = told
        if len(self._changed) > _CHANGED_AT_MOST:
            self.missed()
        self._pacer.wake()

    def missed(self) -> None:
        self._changed.clear()
        self._must_read_list = True
        self._pacer.wake()

    def _due(self) -> Iterator[Event]:
        """The events of a round: answers, new events of each cursor, changed sessions."""
        while self._answers:
            yield self._answers.pop(0)
        self._room.set()
        for exchange_id, cursor in list(self._cursors.items()):
            for event in cursor.take():
                yield event
                if isinstance(event, Final) and self._cursors.get(exchange_id) is cursor:
                    repeated_stops = self._stops.get(exchange_id, 1) - 1
                    self._drop(exchange_id)
                    self._is_last_round |= exchange_id == self._only
                    yield from repeat(_idle(event.session), repeated_stops)
        if self._must_read_list:
            self._must_read_list = False
            yield FollowingSessions()
        while self._changed:
            yield self._changed.pop(next(iter(self._changed)))

    def _has_ended(self) -> bool:
        """Whether the feed has ended; ends it if the server is stopping and the client is idle."""
        if not self._is_last_round and self._notice.is_due and self._is_idle():
            self.end(CloseCode.RESTART)
            self._is_last_round = True
        return self._is_last_round

    def _is_idle(self) -> bool:
        """Whether the client can reconnect elsewhere: it follows nothing that runs here, and nothing is due."""
        if self._is_answering or self._pacer.is_due:
            return False
        return all(self._relay.running(exchange_id) is None for exchange_id in self._cursors)

    def _is_behind(self) -> bool:
        return len(self._answers) >= _ANSWERS_AT_MOST or len(self._stored_finals) >= _STORED_FINALS_AT_MOST

    def _watch(self, session_id: str, *, exchanges_too: bool) -> None:
        self._watched[session_id] = None
        self._relay.session_subscriptions.add(session_id, self, exchanges_too=exchanges_too)
        if len(self._watched) > _WATCHED_AT_MOST:
            self._unwatch(next(iter(self._watched)))

    def _unwatch(self, session_id: str) -> None:
        self._watched.pop(session_id, None)
        self._relay.session_subscriptions.remove(session_id, self)

    def _unfollow(self, exchange_id: str) -> None:
        cursor = self._cursors.pop(exchange_id, None)
        if cursor is not None:
            cursor.log.unfollow(cursor)
        self._stored_finals.discard(exchange_id)

    def _drop(self, exchange_id: str) -> None:
        """Unfollow the exchange, and forget its stops and that it stops with this feed."""
        self._unfollow(exchange_id)
        self._stops.pop(exchange_id, None)
        self._owned.discard(exchange_id)
        self._room.set()


def _has_stored_final(log: ExchangeLog, seq: int) -> bool:
    """Whether the log holds only a final from the store, and the client that has the events up to `seq` has it."""
    return log.is_stored_final and log.final is not None and log.final.seq <= seq


def _idle(session: Session | None) -> Idle:
    """The `idle` event of `session`; None is for a query."""
    return Idle(session_id=session.id if session else None, next_rank=session.next_rank if session else 0)
