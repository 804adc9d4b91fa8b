"""Mirror: a log that is filled with the events that another instance publishes; MirrorLosses: what it did not get."""

import logging
from collections.abc import Callable

from agentic_backend.kpi.groups.broadcast import BroadcastMetrics
from agentic_backend.protocol.events import ExchangeEvent, Reset
from agentic_backend.relay.log.exchange_log import ExchangeLog

log = logging.getLogger(__name__)

UNFOLLOWED_S = 30.0
"""How long a log without a reader is filled on."""
_ASK_EVERY_S = 1.0


class Mirror:
    """Takes over events that continue at the log's end, or a `reset`. Times are of the event loop."""

    def __init__(self, mirrored: ExchangeLog, now: float) -> None:
        self.log = mirrored
        self.asked_at = 0.0
        """When the owner was last asked for a `reset`."""
        self.has_told = False
        """Whether an unreadable event was logged already."""
        self._followed_at = now
        """When the log was last seen to have a reader."""

    def is_over(self, now: float) -> bool:
        """Whether the exchange has ended, or the log has had no reader for a while."""
        if self.log.is_followed:
            self._followed_at = now
        return self.log.final is not None or now - self._followed_at > UNFOLLOWED_S

    def take(self, event: ExchangeEvent, after: int) -> bool:
        """Take the event over unless it is here; `after` is the seq of the one before it. False if that is missing."""
        if event.seq <= self.log.last_seq:
            return True
        if not isinstance(event, Reset) and after != self.log.last_seq:
            return False
        self.log.take_over(event)
        return True

    def may_ask(self, now: float) -> bool:
        """Whether to ask the owner for a `reset` now: not too often."""
        if now - self.asked_at < _ASK_EVERY_S:
            return False
        self.asked_at = now
        return True


class MirrorLosses:
    """Counts the events that mirrors miss or can't read, and sees to what follows.

    `ask_reset` is called with the id of an exchange whose events do not continue at the end of its log.
    """

    def __init__(self, ask_reset: Callable[[str], None], metrics: BroadcastMetrics) -> None:
        self._ask_reset = ask_reset
        self._metrics = metrics

    def missing(self, mirror: Mirror, now: float) -> None:
        """Ask the owner for a `reset`, unless it was asked just now."""
        if mirror.may_ask(now):
            self._metrics.lost("gap")
            self._ask_reset(mirror.log.exchange_id)

    def unreadable(self, mirror: Mirror) -> None:
        """Log it, once for each mirror."""
        self._metrics.lost("unreadable")
        if not mirror.has_told:
            mirror.has_told = True
            log.warning("broadcast entry not understood", extra={"exchange_id": mirror.log.exchange_id})
