"""Whether an ended exchange can be resumed, as its `final` tells."""

from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.stores.base import Store


async def is_resumable(store: Store, exchange_id: str, status: ExchangeStatus) -> bool | None:
    """Whether the exchange, whose end is stored, has something to go on from.

    None if it was not interrupted, or the store can't tell now: an end is shown without waiting for that.
    """
    if status is not ExchangeStatus.INTERRUPTED:
        return None
    try:
        return await store.can_go_on(exchange_id)
    except StoreUnavailable:
        return None
