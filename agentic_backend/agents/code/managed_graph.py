"""ManagedGraph: a context manager of an author's that yields a graph, entered and left by one task of its own.

What such a context holds, as a client's cancel scope, must be left in the task that entered it. The task lives from
`enter` until `aclose`; both may be cancelled by a timeout, and then cancel it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any

from agentic_backend.agents.code.authors_thread import in_thread

log = logging.getLogger(__name__)

Manager = AbstractAsyncContextManager[object] | AbstractContextManager[object]

_LEAVE_S = 2.0
"""How long a context may take to be left after entering it has failed, in seconds."""


class ManagedGraph:
    def __init__(self, manager: Manager, agent_id: str) -> None:
        self._agent_id = agent_id
        """For the log."""
        self._manager = manager if isinstance(manager, AbstractAsyncContextManager) else _in_threads(manager)
        self._entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        """What the context yields."""
        self._closing = asyncio.Event()
        """Set when the context is to be left."""
        self._task = asyncio.create_task(self._hold())
        """The task that enters and leaves it."""
        self._task.add_done_callback(self._tell_if_early)

    @property
    def has_ended(self) -> bool:
        """Whether the context is no longer held, as when a task group in it has failed."""
        return self._task.done()

    async def enter(self) -> object:
        """What the context yields. Raises what entering it raises."""
        try:
            await asyncio.wait({self._entered, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_LEAVE_S)
            raise
        if not self._entered.done():
            await self._task
        return self._entered.result()

    async def aclose(self) -> None:
        """Leave the context. Raises what leaving it raises."""
        if self.has_ended:
            return
        self._closing.set()
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        await self._task

    async def _hold(self) -> None:
        async with self._manager as made:
            self._entered.set_result(made)
            await self._closing.wait()

    def _tell_if_early(self, task: asyncio.Task[None]) -> None:
        if self._entered.done() and not self._closing.is_set() and not task.cancelled():
            log.error("graph context ended early", exc_info=task.exception(), extra={"agent_id": self._agent_id})


@asynccontextmanager
async def _in_threads(manager: AbstractContextManager[object]) -> AsyncIterator[object]:
    """A synchronous context, which may block: off the event loop."""
    entering = asyncio.create_task(in_thread(manager.__enter__))
    try:
        made = await asyncio.shield(entering)
    except asyncio.CancelledError:
        # Nothing cancels a thread: what it enters is left, as late as that may be.
        with suppress(Exception):
            await entering
            await in_thread(partial(manager.__exit__, None, None, None))
        raise
    try:
        yield made
    finally:
        await in_thread(partial(manager.__exit__, None, None, None))
