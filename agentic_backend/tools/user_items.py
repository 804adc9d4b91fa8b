"""UserItems: what standard tools keep for the user of their run, among the items of the Store.

A call that is repeated, because its run was interrupted, writes the same item again.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.tools import ToolException

from agentic_backend.agents.runtime_context import current_context
from agentic_backend.errors import LimitReached, StoreUnavailable
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery, item_id
from agentic_backend.stores.records import ItemRecord

MOST_LISTED = 100


class UserItems:
    def __init__(self, store: Store, bounds: ItemBounds) -> None:
        self._store = store
        self._bounds = bounds

    async def add(self, namespace: str, value: Mapping[str, Any], call_id: str) -> dict[str, Any]:
        """Keep `value` for the user; return it with its id. Raises ToolException."""
        context = current_context()
        if context.session_id is None:
            raise ToolException("Nothing is kept in a query: ask in a session.")
        key, now, text = context.idempotency_key(call_id), self._store.now(), json.dumps(value, ensure_ascii=False)
        item = ItemRecord(
            id=item_id(context.user_id, namespace, key),
            owner=context.user_id,
            namespace=namespace,
            key=key,
            value=text,
            value_bytes=len(text.encode()),
            created_at=now,
            updated_at=now,
        )
        try:
            await self._store.put_items([item], (), self._bounds)
        except (LimitReached, StoreUnavailable) as error:
            raise ToolException(error.content) from error
        return {"id": key, **value, "created_at": now.isoformat()}

    async def listed(self, namespace: str) -> Sequence[dict[str, Any]]:
        """The user's newest items, at most MOST_LISTED. Raises ToolException."""
        query = ItemQuery(current_context().user_id, namespace, MOST_LISTED)
        try:
            found = await self._store.find_items(query)
        except StoreUnavailable as error:
            raise ToolException(error.content) from error
        return [{"id": item.key, **json.loads(item.value), "created_at": item.created_at.isoformat()} for item in found]
