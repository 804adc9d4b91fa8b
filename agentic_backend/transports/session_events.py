"""SessionEvents: one session as an SSE client follows it: what runs in it, every later exchange, and its changes."""

from collections import deque
from collections.abc import AsyncIterator, Iterator

from sse_starlette import ServerSentEvent

from agentic_backend.broadcast.exchange_log import Cursor, ExchangeLog
from agentic_backend.protocol.events import Event, Final, Idle, SessionChanged
from agentic_backend.protocol.messages import Session
from agentic_backend.sessions.relay import Relay
from agentic_backend.transports.pacing import Pacer, text_interval_s
from agentic_backend.transports.sse import TEXT_INTERVAL_S, EndOfTime, rendered


class SessionEvents:
    """A Follower of the relay while `events` is read. `session` is as it was when `running` was found in it."""

    def __init__(self, relay: Relay, session: Session, running: ExchangeLog | None) -> None:
        self._relay = relay
        self._session = session
        self._running = running
        self._cursors: dict[str, Cursor] = {}
        self._unsent: deque[Event] = deque()
        self._pacer = Pacer(lambda: text_interval_s(TEXT_INTERVAL_S, relay.running_count))

    def exchange_started(self, log: ExchangeLog) -> None:
        followed = self._cursors.get(log.exchange_id)
        if followed is None or followed.log is not log:
            self._follow(log, followed.position if followed is not None else 0)

    def session_changed(self, session: Session) -> None:
        self._send(SessionChanged(session=session))

    async def events(
        self, resumed: ExchangeLog | Final | None, seq: int, at_most_s: float | None
    ) -> AsyncIterator[ServerSentEvent]:
        """Until the client has gone, or for `at_most_s` seconds; its exchanges go on.

        Where the server goes down: until nothing of the session is at work here.

        Of `resumed` it has the events up to `seq`; what else runs comes from its beginning.
        """
        end = EndOfTime(at_most_s, self._pacer)
        self._relay.watch(self._session.id, self, exchanges_too=True)
        with self._relay.departure.tells(self._pacer.wake) as leaving:
            try:
                self._begin(resumed, seq)
                while not end.has_come:
                    for event in self._due():
                        yield rendered(event)
                    if leaving.is_due and self._is_idle():
                        return
                    # Unbounded, as the session is; the response sends pings meanwhile.
                    await self._pacer.due()
            finally:
                end.cancel()
                self._pacer.cancel()
                self._relay.unwatch(self._session.id, self)
                for exchange_id in list(self._cursors):
                    self._drop(exchange_id)

    def _due(self) -> Iterator[Event]:
        """What is to be sent now."""
        while self._unsent:
            yield self._unsent.popleft()
        for exchange_id, cursor in list(self._cursors.items()):
            for event in cursor.take():
                yield event
                if isinstance(event, Final) and self._cursors.get(exchange_id) is cursor:
                    self._drop(exchange_id)

    def _is_idle(self) -> bool:
        at_work = any(self._relay.is_at_work(cursor.log) for cursor in self._cursors.values())
        return not self._pacer.is_due and not at_work

    def _begin(self, resumed: ExchangeLog | Final | None, seq: int) -> None:
        if isinstance(resumed, ExchangeLog):
            self._follow(resumed, seq)
        elif resumed is not None and resumed.seq > seq:
            self._send(resumed)
        # One may have begun since the session was read.
        begun = self._relay.running_in(self._session.id)
        running = begun.log if begun is not None else self._running
        if running is not None:
            self.exchange_started(running)
        elif not self._cursors:
            self._send(Idle(session_id=self._session.id, next_rank=self._session.next_rank))

    def _follow(self, log: ExchangeLog, after_seq: int) -> None:
        if log.exchange_id in self._cursors:
            self._drop(log.exchange_id)
        self._cursors[log.exchange_id] = log.follow(after_seq, self._pacer.wake, self._pacer.wake_for_text)
        self._pacer.wake()

    def _drop(self, exchange_id: str) -> None:
        cursor = self._cursors.pop(exchange_id)
        cursor.log.unfollow(cursor)

    def _send(self, event: Event) -> None:
        self._unsent.append(event)
        self._pacer.wake()
