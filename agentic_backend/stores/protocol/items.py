"""Items: what graphs keep beside the sessions, for one user or for all; the agents' GraphStore makes LangGraph's store
of them.

An item has an owner, a namespace and a key. A namespace is its labels joined by periods, which no label contains.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from agentic_backend.stores.records import ItemRecord

SHARED = ""
"""The owner of what all users share; any other owner is a user's id."""


@dataclass(frozen=True, slots=True)
class ItemBounds:
    """The most that one owner may keep: items, and bytes of their values."""

    items: int = 10_000
    bytes: int = 16_777_216

    def allow(self, before: tuple[int, int], after: tuple[int, int]) -> bool:
        """Whether an owner may go from `before` to `after`: items and bytes. One who has too much may keep less."""
        return after[0] <= max(self.items, before[0]) and after[1] <= max(self.bytes, before[1])

    @property
    def reached(self) -> str:
        """What to tell if they don't allow it."""
        return f"The agent may keep no more than {self.items} items of {self.bytes} bytes over all."


@dataclass(frozen=True, slots=True)
class ItemQuery:
    """The owner's items whose namespace begins with `prefix`; "" begins every one."""

    owner: str
    prefix: str = ""
    limit: int = 100
    offset: int = 0

    @property
    def below(self) -> tuple[str, str]:
        """The namespaces below the prefix: the first possible one, and the first behind them."""
        # "/" is the character after ".".
        return f"{self.prefix}.", f"{self.prefix}/"


def item_id(owner: str, namespace: str, key: str) -> str:
    """The id of an item. No owner and no namespace contains a NUL."""
    return sha256("\0".join((owner, namespace, key)).encode()).hexdigest()


class ItemStore(Protocol):
    """The operations of a Store on items."""

    async def get_items(self, ids: Collection[str]) -> list[ItemRecord]:
        """The items with these ids, in any order; those that do not exist are left out."""
        ...

    async def put_items(self, items: Sequence[ItemRecord], removed: Collection[str], bounds: ItemBounds) -> None:
        """Store the items, all of one owner, and remove those with the ids `removed`.

        An item that exists keeps its `created_at`. Raises LimitReached, without having written anything, if the owner
        would keep too much; on a store without transactions, concurrent writes may exceed the bounds a little, and a
        write that fails may have stored the first items.
        """
        ...

    async def find_items(self, query: ItemQuery) -> list[ItemRecord]:
        """The items of `query`, the last updated first."""
        ...

    async def item_namespaces(self, owner: str) -> list[str]:
        """The namespaces in which the owner has items, in order."""
        ...
