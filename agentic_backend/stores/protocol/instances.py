"""Instances: the server processes that share a store, their signs of life, and the time that they agree on."""

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol


class InstanceStore(Protocol):
    """The operations of a Store on the instances that use it."""

    def heartbeat(self, instance_id: str, every_s: float) -> AbstractAsyncContextManager[None]:
        """Keep the instance in `beats`, and increment its counter while the context is open.

        The counter also moves while the event loop is blocked, for up to a minute. Raises StoreUnavailable.
        """
        ...

    async def beats(self) -> dict[str, int]:
        """The counters of all instances that have not ended, by their ids; empty if the store serves one instance."""
        ...

    async def forget_instance(self, instance_id: str, last_beat: int) -> None:
        """Remove an instance whose counter is still `last_beat`; if it is alive, it returns with its next beat."""
        ...

    def now(self) -> datetime:
        """The current time for rows, the same for all instances: the database's, if they share one."""
        ...

    async def compare_clocks(self) -> float | None:
        """Adopt the database's time; return by how many seconds this machine's is ahead, None if it is what counts."""
        ...
