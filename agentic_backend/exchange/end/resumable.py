"""Whether an ended exchange can be resumed, as its `final` and the list of its session's exchanges tell."""

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import SessionRecord


async def is_resumable(
    store: Store, exchange_id: str, status: ExchangeStatus, session: SessionRecord | None
) -> bool | None:
    """Whether the exchange, whose end is stored, has something to go on from, in a `session` that takes asks.

    None if it was not interrupted, or the store can't tell now: an end is shown without waiting for that.
    """
    if status is not ExchangeStatus.INTERRUPTED:
        return None
    if session is None or session.state is not SessionState.ACTIVE:
        return False
    try:
        return await store.can_go_on(exchange_id)
    except StoreUnavailable:
        return None
