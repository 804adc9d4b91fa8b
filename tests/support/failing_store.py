"""A store that can go away for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store


class FailingStore:
    """Every operation of `real`, except that those that are away raise StoreUnavailable and do nothing.

    `refused` has the names of the operations that were tried meanwhile.
    """

    def __init__(self, real: Store) -> None:
        self.real = real
        self.refused: list[str] = []
        self._is_away: Callable[[str], bool] = lambda operation: False
        self._loses_answer: Callable[[str], bool] = lambda operation: False
        self._held: dict[str, asyncio.Event] = {}
        self._delays_s: dict[str, float] = {}

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def go_away(self, *operations: str) -> None:
        """From now on these operations fail, or all where none is named."""
        self._is_away = lambda operation: not operations or operation in operations

    def come_back(self) -> None:
        self._is_away = lambda operation: False

    @contextmanager
    def away(self, *operations: str) -> Iterator[None]:
        self.go_away(*operations)
        yield
        self.come_back()

    def hold(self, operation: str) -> asyncio.Event:
        """From now on this operation begins only when the event is set."""
        self._held[operation] = asyncio.Event()
        return self._held[operation]

    def slow_down(self, operation: str, by_s: float) -> None:
        """From now on this operation takes so much longer."""
        self._delays_s[operation] = by_s

    def lose_next_answer(self, operation: str) -> None:
        """The next call of `operation` is carried out, but raises StoreUnavailable all the same."""

        def loses(called: str) -> bool:
            if called != operation:
                return False
            self._loses_answer = lambda operation: False
            return True

        self._loses_answer = loses

    def now(self) -> datetime:
        return self.real.now()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        operation = getattr(self.real, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_away(name):
                self.refused.append(name)
                raise StoreUnavailable
            if name in self._held:
                await self._held[name].wait()
            if name in self._delays_s:
                await asyncio.sleep(self._delays_s[name])
            result = await operation(*args, **kwargs)
            if self._loses_answer(name):
                raise StoreUnavailable
            return result

        return call
