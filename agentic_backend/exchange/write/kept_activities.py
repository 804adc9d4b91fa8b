"""KeptActivities: the records of an exchange's activities that a person sees again when they read the session.

Owned by the exchange's outbox, which stores them with the next messages. Kept are changes of the speaking agent,
handoffs, compactions, and progress that says so with `kept`: true; other progress is shown while it lasts. They are
bounded for each exchange, over all of its runs: what comes beyond that is shown live only.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import orjson

from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.stores.protocol.exchange_pages import ACTIVITIES_PER_EXCHANGE
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.streaming.transcode.drafts import ActivityDraft

BYTES_AT_MOST = 16_384
"""Of all that is kept of an exchange, as JSON."""


class KeptActivities:
    def __init__(
        self, exchange: ExchangeRecord, now: Callable[[], datetime], kept: Sequence[ActivityRecord] = ()
    ) -> None:
        """`kept` are those of the exchange's earlier runs."""
        self._exchange = exchange
        self._now = now
        self._count = len(kept)
        self._bytes = sum(_size_of(activity.data) for activity in kept)

    def record_of(self, activity: ActivityDraft, seq: int, after_rank: int) -> ActivityRecord | None:
        """Its record, with the `seq` of its event and the rank of the message before it; None if it is not kept."""
        if activity.kind == "progress" and activity.data.get("kept") is not True:
            return None
        size = _size_of(activity.data)
        if self._count >= ACTIVITIES_PER_EXCHANGE or self._bytes + size > BYTES_AT_MOST:
            return None
        self._count += 1
        self._bytes += size
        return ActivityRecord(
            id=f"{self._exchange.id}.{seq}",
            at=self._now(),
            session_id=self._exchange.session_id,
            exchange_id=self._exchange.id,
            user_id=self._exchange.user_id,
            seq=seq,
            after_rank=after_rank,
            kind=activity.kind,
            data=activity.data,
        )


def kept_activities_of(start: ExchangeStart, now: Callable[[], datetime]) -> KeptActivities | None:
    """Those of a run; None for a query, which stores nothing."""
    if start.session is None:
        return None
    return KeptActivities(start.record, now, () if start.resume_point is None else start.resume_point.activities)


def _size_of(data: dict[str, Any]) -> int:
    return len(orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS))
