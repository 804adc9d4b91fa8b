"""A store that can be made unavailable."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from agentic_backend.errors import StoreUnavailable
from agentic_backend.stores.base import Store


class HeldAnswer:
    """`reached` is set when the operation is done; its result is returned after `released` is set."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


class FailingStore:
    """Forwards every operation to `real`; those that are away raise StoreUnavailable and do nothing.

    `refused` has the names of the operations that failed so, `waiting` of those that have come to wait (see `hold`).
    """

    def __init__(self, real: Store) -> None:
        self.real = real
        self.refused: list[str] = []
        self.waiting: list[str] = []
        self._is_away: Callable[[str], bool] = lambda operation: False
        self._lost_answers: list[str] = []
        self._lost_requests: list[str] = []
        self._held: dict[str, asyncio.Event] = {}
        self._delays_s: dict[str, float] = {}
        self._held_answers: dict[tuple[str, int], HeldAnswer] = {}
        self._calls: Counter[str] = Counter()

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def go_away(self, *operations: str) -> None:
        """Make these operations fail from now on, or all if none is named."""
        self._is_away = lambda operation: not operations or operation in operations

    def come_back(self) -> None:
        self._is_away = lambda operation: False

    @contextmanager
    def away(self, *operations: str) -> Iterator[None]:
        self.go_away(*operations)
        yield
        self.come_back()

    def hold(self, operation: str) -> asyncio.Event:
        """Make this operation wait for the returned event from now on."""
        self._held[operation] = asyncio.Event()
        return self._held[operation]

    def hold_answer(self, operation: str, number: int = 1) -> HeldAnswer:
        """Hold back the result of the `number`-th call of this operation from now on, until it is released."""
        held = self._held_answers[operation, self._calls[operation] + number] = HeldAnswer()
        return held

    def slow_down(self, operation: str, by_s: float) -> None:
        """Delay this operation by `by_s` seconds from now on."""
        self._delays_s[operation] = by_s

    def lose_next_answer(self, operation: str) -> None:
        """Make the next call of `operation` raise StoreUnavailable after it is done."""

        self._lost_answers.append(operation)

    def lose_next_request(self, operation: str) -> None:
        """Make the next call of `operation` raise StoreUnavailable without effect."""
        self._lost_requests.append(operation)

    def now(self) -> datetime:
        return self.real.now()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        operation = getattr(self.real, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_away(name) or taken(name, self._lost_requests):
                self.refused.append(name)
                raise StoreUnavailable
            if name in self._held:
                self.waiting.append(name)
                await self._held[name].wait()
            if name in self._delays_s:
                await asyncio.sleep(self._delays_s[name])
            self._calls[name] += 1
            held = self._held_answers.pop((name, self._calls[name]), None)
            result = await operation(*args, **kwargs)
            if held is not None:
                held.reached.set()
                await held.released.wait()
            if taken(name, self._lost_answers):
                raise StoreUnavailable
            return result

        return call


def taken(name: str, names: list[str]) -> bool:
    """Remove `name` from `names`; return whether it was in the list."""
    if name not in names:
        return False
    names.remove(name)
    return True
