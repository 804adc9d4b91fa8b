"""GraphStore: LangGraph's store for a graph that was compiled without one, over the items of the server's Store.

A graph sees the namespaces that it made itself; whose items they are is decided outside of it. Nothing is embedded, so
a search with a `query` is a search without one. There is no TTL.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from agentic_backend.agents.state.clean_values import clean_value
from agentic_backend.errors import LimitReached
from agentic_backend.loop.event_loop import running_loop
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.items import ItemBounds, ItemQuery, item_id
from agentic_backend.stores.records import ItemRecord

log = logging.getLogger(__name__)

_LONGEST_PLACE = 1_024
"""The most characters of a namespace, and of a key."""
_LARGEST_VALUE = 262_144
"""The most bytes of a value, as JSON."""
_MOST_OPS = 1_000
"""The most operations of one batch."""
_PAGE = 200
_PATIENCE_S = 120.0
"""How long a thread waits for the event loop; every operation of the Store has a shorter timeout."""
_ORDERS = {"$gt": (1,), "$gte": (1, 0), "$lt": (-1,), "$lte": (-1, 0)}


class GraphStore(BaseStore):
    """The items of one `owner`, for one run. What a run writes that `is_read_only` goes nowhere."""

    supports_ttl = False

    def __init__(self, store: Store, bounds: ItemBounds, owner: str, *, is_read_only: bool) -> None:
        self._store = store
        self._bounds = bounds
        self._owner = owner
        self._is_read_only = is_read_only
        self._loop = asyncio.get_running_loop()
        """The event loop that the Store belongs to."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run the operations from a thread. Raises InvalidStateError in the event loop, which would wait for itself."""
        if running_loop() is self._loop:
            raise asyncio.InvalidStateError(
                "The store was called without await in the event loop: use `await store.aget(…)`, `aput(…)`, "
                "`asearch(…)` there, or make the node or the tool a plain function."
            )
        running = asyncio.run_coroutine_threadsafe(self._run(list(ops)), self._loop)
        try:
            return running.result(_PATIENCE_S)
        except TimeoutError:
            running.cancel()
            raise

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        if running_loop() is self._loop:
            return await self._run(list(ops))
        # An author's own event loop, in a thread.
        async with asyncio.timeout(_PATIENCE_S):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run(list(ops)), self._loop))

    async def _run(self, ops: Sequence[Op]) -> list[Result]:
        """Read, then write, of each item the last: the reads see nothing of the writes beside them.

        Raises InvalidNamespaceError, TypeError, ValueError, LimitReached and StoreUnavailable.
        """
        if len(ops) > _MOST_OPS:
            raise LimitReached(f"The agent's store: a batch has at most {_MOST_OPS} operations.")
        for op in ops:
            _require_namespace(op)
        writes: dict[str, _Written] = {}
        for op in ops:
            if isinstance(op, PutOp):
                write = _Written(self._owner, op)
                writes[write.id] = write
                # Others have their turn between large values.
                await asyncio.sleep(0)
        items = await self._items({self._id_of(op) for op in ops if isinstance(op, GetOp)})
        results = [await self._result(op, items) for op in ops]
        await self._write(writes)
        return results

    async def _items(self, ids: Collection[str]) -> dict[str, ItemRecord]:
        return {item.id: item for item in await self._store.get_items(ids)} if ids else {}

    def _id_of(self, op: GetOp) -> str:
        return item_id(self._owner, ".".join(op.namespace), op.key)

    async def _result(self, op: Op, items: Mapping[str, ItemRecord]) -> Result:
        match op:
            case GetOp():
                found = items.get(self._id_of(op))
                return Item(**_fields(found)) if found is not None else None
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return _listed(op, await self._store.item_namespaces(self._owner))
        return None

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        """The page of the items that match; the Store reads no more than it needs for it."""
        found: list[SearchItem] = []
        read, wanted = 0, max(op.offset, 0) + max(op.limit, 0)
        while len(found) < wanted:
            limit = _PAGE if op.filter else min(_PAGE, wanted - len(found))
            rows = await self._store.find_items(ItemQuery(self._owner, ".".join(op.namespace_prefix), limit, read))
            # In a thread: values may be large.
            found += await asyncio.to_thread(_matching, rows, op.filter or {})
            read += len(rows)
            if len(rows) < limit:
                break
        return found[op.offset : wanted]

    async def _write(self, writes: Mapping[str, "_Written"]) -> None:
        if not writes:
            return
        if self._is_read_only:
            log.info("store writes of a query dropped", extra={"items": len(writes)})
            return
        now = self._store.now()
        items = [
            ItemRecord(
                id=write.id,
                owner=self._owner,
                namespace=write.namespace,
                key=write.key,
                value=write.value,
                value_bytes=len(write.value.encode()),
                created_at=now,
                updated_at=now,
            )
            for write in writes.values()
            if write.value is not None
        ]
        removed = [write.id for write in writes.values() if write.value is None]
        await self._store.put_items(items, removed, self._bounds)


class _Written:
    """A write that has been checked. `value` is JSON text; None removes the item."""

    def __init__(self, owner: str, op: PutOp) -> None:
        self.namespace, self.key = ".".join(op.namespace), op.key
        if max(len(self.namespace), len(self.key)) > _LONGEST_PLACE:
            raise LimitReached(f"The agent's store: a namespace and a key have at most {_LONGEST_PLACE} characters.")
        is_larger = _is_surely_larger(op.value, _LARGEST_VALUE)
        self.value = None if op.value is None or is_larger else _json(clean_value(op.value))
        if is_larger or (self.value is not None and len(self.value.encode()) > _LARGEST_VALUE):
            raise LimitReached(f"The agent's store: a value has at most {_LARGEST_VALUE} bytes of JSON.")
        self.id = item_id(owner, self.namespace, self.key)


def _require_namespace(op: Op) -> None:
    """Raises InvalidNamespaceError."""
    validate_op_namespace(op)
    if isinstance(op, GetOp | PutOp) and not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")


def _is_surely_larger(value: Any, most: int) -> bool:
    """Whether `value` has more than `most` bytes as JSON, by a count that is too low and ends there.

    `json.dumps` itself holds the event loop for as long as a value is large.
    """
    size, waiting = 0, [value]
    while waiting and size <= most:
        one = waiting.pop()
        size += 1
        if isinstance(one, str | list | tuple | dict):
            size += len(one)
        if size > most:
            break
        if isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one
    return size > most


def _json(value: Mapping[str, Any]) -> str:
    """`value` as JSON. Raises TypeError or ValueError if it is none."""
    return json.dumps(dict(value), ensure_ascii=False, allow_nan=False)


def _fields(item: ItemRecord) -> dict[str, Any]:
    return {
        "namespace": tuple(item.namespace.split(".")),
        "key": item.key,
        "value": json.loads(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _matching(rows: Sequence[ItemRecord], conditions: Mapping[str, Any]) -> list[SearchItem]:
    items = (SearchItem(**_fields(row)) for row in rows)
    return [item for item in items if all(_holds(item.value.get(name), one) for name, one in conditions.items())]


def _holds(value: Any, condition: Any) -> bool:
    """Whether `value` is as the condition says: an equal value, a mapping of operators, or one of nested conditions."""
    if isinstance(condition, Mapping):
        if any(name.startswith("$") for name in condition):
            return all(_compares(value, operator, other) for operator, other in condition.items())
        return isinstance(value, Mapping) and all(_holds(value.get(name), one) for name, one in condition.items())
    if isinstance(condition, list | tuple):
        return isinstance(value, list) and len(value) == len(condition) and all(map(_holds, value, condition))
    return bool(value == condition)


def _compares(value: Any, operator: str, other: Any) -> bool:
    """Raises ValueError for an operator that LangGraph does not have."""
    if operator in ("$eq", "$ne"):
        return bool(value == other) is (operator == "$eq")
    if operator not in _ORDERS:
        raise ValueError(f"Unsupported operator: {operator}")
    if not isinstance(value, str) or not isinstance(other, str):
        try:
            value, other = float(value), float(other)
        except (TypeError, ValueError):
            # What can't be compared doesn't match.
            return False
    return ((value > other) - (value < other)) in _ORDERS[operator]


def _listed(op: ListNamespacesOp, namespaces: Iterable[str]) -> list[tuple[str, ...]]:
    places = (tuple(namespace.split(".")) for namespace in namespaces)
    found = {
        place if op.max_depth is None else place[: op.max_depth]
        for place in places
        if all(_is_at(condition, place) for condition in op.match_conditions or ())
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _is_at(condition: MatchCondition, place: tuple[str, ...]) -> bool:
    if len(place) < len(condition.path):
        return False
    return all(wanted in ("*", label) for wanted, label in _pairs(condition, place))


def _pairs(condition: MatchCondition, place: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The labels of a condition, and those of the place that they stand for."""
    if condition.match_type == "suffix":
        return zip(reversed(condition.path), reversed(place), strict=False)
    return zip(condition.path, place, strict=False)
