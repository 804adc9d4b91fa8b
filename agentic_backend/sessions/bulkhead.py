"""Bulkhead: limits how many pieces of one kind of work run at once, per user and in total.

Work beyond the limits waits for a short time, first come, first served. So one user's work delays that user, not the
others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from agentic_backend.errors import RateLimited

# How many pieces of a user's work may wait, as a multiple of those that may run; more are refused at once.
_WAITING = 4
_RETRY_AFTER_S = 1


@dataclass(slots=True)
class _User:
    """`count` is the number of running and waiting pieces of work."""

    room: asyncio.Semaphore
    count: int = 0


class Bulkhead:
    """A limit of None is no limit. `wait_s` is the longest wait in seconds; `content` tells clients of a refusal."""

    def __init__(self, *, per_user: int | None, in_all: int | None, wait_s: float, content: str) -> None:
        self._per_user = per_user
        self._in_all = None if in_all is None else asyncio.Semaphore(in_all)
        self._wait_s = wait_s
        self._content = content
        self._users: dict[str, _User] = {}
        """The users with running or waiting work, by user id."""

    @asynccontextmanager
    async def entered(self, user_id: str) -> AsyncIterator[None]:
        """Hold room for one piece of the user's work. Raises RateLimited if none is free in time."""
        if self._per_user is None:
            async with AsyncExitStack() as held:
                await self._enter(held, None)
                yield
            return
        user = self._users.setdefault(user_id, _User(asyncio.Semaphore(self._per_user)))
        if user.count >= self._per_user * (1 + _WAITING):
            raise self._refusal()
        user.count += 1
        try:
            async with AsyncExitStack() as held:
                await self._enter(held, user.room)
                yield
        finally:
            user.count -= 1
            if not user.count:
                del self._users[user_id]

    async def _enter(self, held: AsyncExitStack, of_user: asyncio.Semaphore | None) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                # The user's own room first: a user who waits for it takes no shared room.
                for room in (of_user, self._in_all):
                    if room is not None:
                        await held.enter_async_context(room)
        except TimeoutError:
            raise self._refusal() from None

    def _refusal(self) -> RateLimited:
        return RateLimited(self._content, retry_after_s=_RETRY_AFTER_S)
