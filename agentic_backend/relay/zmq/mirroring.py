"""ZmqMirrors: copies the exchanges of other workers into logs; each subscribes to its exchange's topic."""

import asyncio
from collections.abc import Callable, Sequence

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.protocol.events import Reset
from agentic_backend.relay.control_messages import NotUnderstood
from agentic_backend.relay.encoded_events import decode_event
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.relay.log.mirror import Mirror, MirrorLosses
from agentic_backend.relay.zmq.messages import ReceivedEvents, exchange_of, topic_of


class ZmqMirrors:
    """`subscribe` is called with a topic and whether it is wanted; `ask_reset` with the id of an exchange of which
    events are missing.
    """

    def __init__(
        self, subscribe: Callable[[bytes, bool], None], ask_reset: Callable[[str], None], metrics: BroadcastMetrics
    ) -> None:
        self._subscribe = subscribe
        self._losses = MirrorLosses(ask_reset, metrics)
        self._mirrors: dict[str, Mirror] = {}
        """By exchange id."""
        self._received: dict[str, ReceivedEvents] = {}
        """Of the mirrored exchanges, by the same id."""

    def __len__(self) -> int:
        return len(self._mirrors)

    def mirror(self, mirrored: ExchangeLog) -> None:
        before = self._mirrors.get(mirrored.exchange_id)
        if mirrored.final is not None or (before is not None and before.log is mirrored):
            return
        self.end(mirrored.exchange_id)
        self._received[mirrored.exchange_id] = ReceivedEvents()
        mirror = self._mirrors[mirrored.exchange_id] = Mirror(mirrored, _now())
        # The owner sends everything so far to who subscribes; what comes before that can't be continued.
        mirror.asked_at = _now()
        self._subscribe(topic_of(mirrored.exchange_id), True)

    def end(self, exchange_id: str) -> None:
        """Stop mirroring the exchange."""
        if self._mirrors.pop(exchange_id, None) is not None:
            del self._received[exchange_id]
            self._subscribe(topic_of(exchange_id), False)

    def prune(self) -> None:
        """Remove mirrors of ended exchanges, and of logs without a reader for a while."""
        now = _now()
        for exchange_id in [id for id, mirror in self._mirrors.items() if mirror.is_over(now)]:
            self.end(exchange_id)

    def take(self, frames: Sequence[bytes]) -> None:
        """Take over the events of a message; one without events tells up to where there are some."""
        mirror = self._mirrors.get(exchange_of(frames[0]) or "")
        if mirror is None or (events := self._received[mirror.log.exchange_id].take(frames)) is None:
            return
        after, before = int(frames[1]), mirror.log.last_seq
        for data in events:
            try:
                event = decode_event(data)
            except NotUnderstood:
                self._losses.unreadable(mirror)
                continue
            if after == 0 or isinstance(event, Reset):
                # It is all that there is: what is missing now will not come by itself.
                mirror.asked_at = 0.0
            if not mirror.take(event, after):
                self._losses.missing(mirror, _now())
                return
            after = event.seq
        if after > mirror.log.last_seq:
            # A sign of events that did not come.
            self._losses.missing(mirror, _now())
        if mirror.log.last_seq > before and mirror.log.is_filling:
            mirror.log.filled()


def _now() -> float:
    return asyncio.get_running_loop().time()
