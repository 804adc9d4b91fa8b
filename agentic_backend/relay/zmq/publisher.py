"""ZmqPublisher: sends the control messages of a worker to the others, and the events of exchanges that they mirror.

A worker that mirrors an exchange subscribes to its topic, which its owner notices: it then sends all events so far, and
from then on each new one. So an exchange that nobody follows elsewhere costs nothing. Those who have earlier events
skip them. A socket that publishes never waits: if a worker reads too slowly, messages to it are lost beyond a number,
which it notices by the `after` of events and the number of control messages.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from cachetools import TTLCache

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.protocol.events import ExchangeEvent, Final
from agentic_backend.relay.control_messages import ControlMessage, StartedHere, StopWanted, Told
from agentic_backend.relay.log.exchange_log import Cursor, ExchangeLog
from agentic_backend.relay.zmq.messages import control_frames, event_messages, exchange_of

log = logging.getLogger(__name__)

# How long text gathers, so that not every token costs a message; people don't notice the delay.
_TEXT_INTERVAL_S = 0.04
# Longer than it takes to replace a worker.
_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S = 1_000, 30
_ANEW = -1
# At one a second, longer than a worker stands still that is not taken for dead.
_SIGNS = 30


class ZmqPublisher:
    """Its methods return at once. `send` sends the frames of one message, and doesn't wait either."""

    def __init__(self, instance_id: str, send: Callable[[list[bytes]], None], metrics: BroadcastMetrics) -> None:
        self._instance_id = instance_id
        self._send = send
        self._number = 0
        """The number of the last control message."""
        self._logs: WeakValueDictionary[str, ExchangeLog] = WeakValueDictionary()
        """The logs that are published, as long as something else keeps them alive, by exchange id."""
        self._mirrored: set[str] = set()
        """The exchanges that other workers mirror, of whatever owner; they see to it that these are not too many."""
        self._cursors: dict[str, Cursor] = {}
        """The places up to which events were sent, of published logs that are mirrored."""
        self._due: dict[str, None] = {}
        """The exchanges with unsent events, oldest first."""
        self._signs: dict[str, int] = {}
        """How often to tell of an exchange up to where its events were sent, by its id."""
        self._sending: asyncio.Handle | None = None
        """Sends what is due in the loop's next turn."""
        self._gathering: asyncio.TimerHandle | None = None
        """Runs while text gathers, then sends what is due."""
        self._stops: TTLCache[str, StopWanted] = TTLCache(_STOPS_AT_MOST, _STOP_TOLD_AGAIN_S)
        """Recent requests to stop, by exchange id: they are repeated to workers that join."""
        metrics.backlog("exchanges", lambda: len(self._due))

    def publish(self, published: ExchangeLog) -> None:
        self.let_go(published.exchange_id)
        self._logs[published.exchange_id] = published
        if published.exchange_id in self._mirrored:
            # Those who mirror it may have another beginning.
            self._follow(published, _ANEW if published.last_seq else 0)

    def let_go(self, exchange_id: str) -> None:
        """Publish the exchange no longer: it doesn't run here."""
        published = self._logs.pop(exchange_id, None)
        if published is not None:
            self._unfollow(published)

    def begin_anew(self, exchange_id: str) -> None:
        """Send a `reset` of the exchange, if it is published here."""
        self._send_again(exchange_id, _ANEW)

    def subscribed(self, topic: bytes, is_wanted: bool) -> None:
        """A worker, perhaps not the first one, wants messages of this topic; or none does any longer."""
        exchange_id = exchange_of(topic)
        if exchange_id is None:
            if is_wanted:
                self.tell_again()
                self.sign()
        elif is_wanted:
            self._mirrored.add(exchange_id)
            self._send_again(exchange_id, 0)
        else:
            self._mirrored.discard(exchange_id)
            published = self._logs.get(exchange_id)
            if published is not None:
                self._unfollow(published)

    def tell(self, told: Told) -> None:
        """Send a message to the other workers."""
        self._number += 1
        message = ControlMessage(sender=self._instance_id, told=told).encode()
        self._send(control_frames(self._instance_id, self._number, message))

    def sign(self) -> None:
        """Tell the others the number of the last message, so that they notice if they have missed it."""
        self._send(control_frames(self._instance_id, self._number, b""))

    def sign_exchanges(self) -> None:
        """The same of the last events of exchanges. One of these signs may be lost too; but not all of them."""
        for exchange_id, signs in list(self._signs.items()):
            self._signs[exchange_id] = signs - 1
            if signs == 1 or exchange_id not in self._cursors:
                del self._signs[exchange_id]
            else:
                self._send_events_of(exchange_id, self._cursors[exchange_id].position, ())

    def stop(self, exchange_id: str) -> None:
        """Ask the exchange's owner to stop it; repeated for a while to workers that join."""
        told = self._stops[exchange_id] = StopWanted(exchange_id=exchange_id)
        self.tell(told)

    def started(self, published: ExchangeLog) -> None:
        if published.session_id is not None:
            ids = {"session_id": published.session_id, "exchange_id": published.exchange_id}
            self.tell(StartedHere(**ids, user_id=published.user_id))

    def tell_again(self) -> None:
        """Send again which exchanges run here and which are to be stopped; workers that know ignore it."""
        for published in list(self._logs.values()):
            if published.final is None and not published.is_waiting:
                self.started(published)
        for told in list(self._stops.values()):
            self.tell(told)

    def send_due(self) -> None:
        """Send all unsent events."""
        for handle in (self._sending, self._gathering):
            if handle is not None:
                handle.cancel()
        self._sending = self._gathering = None
        while self._due:
            self._send_events(next(iter(self._due)))

    def _send_again(self, exchange_id: str, after_seq: int) -> None:
        """Send what the log has after this place, or a `reset`; first what those who follow lack."""
        published = self._logs.get(exchange_id)
        if published is None or exchange_id not in self._mirrored:
            return
        if exchange_id not in self._cursors:
            self._follow(published, after_seq)
            return
        self._send_events(exchange_id)
        again = published.follow(after_seq, _nothing)
        self._send_all(exchange_id, again)
        published.unfollow(again)

    def _follow(self, published: ExchangeLog, after_seq: int) -> None:
        exchange_id = published.exchange_id
        loop = asyncio.get_running_loop()

        def wake() -> None:
            self._due[exchange_id] = None
            if self._sending is None:
                self._sending = loop.call_soon(self.send_due)

        def wake_for_text() -> None:
            self._due[exchange_id] = None
            if self._gathering is None:
                self._gathering = loop.call_later(_TEXT_INTERVAL_S, self.send_due)

        self._cursors[exchange_id] = published.follow(after_seq, wake, wake_for_text)
        if published.last_seq:
            wake()

    def _unfollow(self, published: ExchangeLog) -> None:
        self._due.pop(published.exchange_id, None)
        cursor = self._cursors.pop(published.exchange_id, None)
        if cursor is not None:
            published.unfollow(cursor)

    def _send_events(self, exchange_id: str) -> None:
        self._due.pop(exchange_id, None)
        published, cursor = self._logs.get(exchange_id), self._cursors.get(exchange_id)
        if published is None or cursor is None:
            return
        events = self._send_all(exchange_id, cursor)
        if events and isinstance(events[-1], Final):
            # Who comes later reads the log again as long as it is kept, then the store.
            self._unfollow(published)

    def _send_all(self, exchange_id: str, cursor: Cursor) -> list[ExchangeEvent]:
        after = cursor.position
        events = cursor.take()
        if events:
            self._send_events_of(exchange_id, after, events)
            self._signs[exchange_id] = _SIGNS
        return events

    def _send_events_of(self, exchange_id: str, after: int, events: Sequence[ExchangeEvent]) -> None:
        for frames in event_messages(exchange_id, max(after, 0), events):
            self._send(frames)


def _nothing() -> None:
    """Wakes nobody."""
