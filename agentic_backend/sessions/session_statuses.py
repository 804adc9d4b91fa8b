"""The statuses of sessions: whether what is active in each runs or waits for a person."""

from collections.abc import Iterable

from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord


async def statuses_of(store: Store, sessions: Iterable[SessionRecord]) -> dict[str, ExchangeStatus]:
    """The statuses of the active exchanges of `sessions`, by session id, in one read; none for those without one."""
    active = {each.active_exchange_id: each.id for each in sessions if each.active_exchange_id is not None}
    statuses = await store.statuses(active.keys()) if active else {}
    # One that has ended since its session was read is told of by its end.
    return {active[exchange_id]: status for exchange_id, status in statuses.items() if not status.ended}
