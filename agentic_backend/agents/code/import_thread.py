"""ImportThread: runs what imports authors' modules, one at a time, and waits for nothing that does not end."""

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from agentic_backend.disclosure.exception_detail import type_of
from agentic_backend.errors import AgentUnavailable

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

LONGEST_S = 120.0
"""Of one work. Authors' code runs in it."""


class ImportThread:
    """Of one AgentManager: a reload, the agents of the database and their checks wait for each other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        """Of two who wait for the latest work's end, one begins the next."""
        self._ended: asyncio.Event | None = None
        """Set when the latest work ends, which may be after all have given it up; None before the first one."""
        self._until = 0.0
        """Until when it may run, by the loop's clock."""

    async def run(self, work: Callable[[], _Result], too_late: Callable[[_Result], None] = lambda _: None) -> _Result:
        """What `work` returns, in a thread. Raises what it raises, and AgentUnavailable if it does not end.

        `too_late` gets, in the event loop, what it returns when nobody waits for it any more.
        """
        async with self._turn:
            await self._end()
            loop = asyncio.get_running_loop()
            result: asyncio.Future[_Result] = loop.create_future()
            self._ended, self._until = asyncio.Event(), loop.time() + LONGEST_S
            _start(work, result, too_late, self._ended)
            try:
                await self._end()
            except BaseException:
                # Its thread can't be stopped. It may have ended in this very moment.
                if not result.cancel() and result.exception() is None:
                    too_late(result.result())
                raise
            return result.result()

    async def _end(self) -> None:
        """Wait for the end of the latest work. Raises AgentUnavailable if it runs for too long."""
        if self._ended is None or self._ended.is_set():
            return
        if asyncio.get_running_loop().time() >= self._until:
            raise AgentUnavailable("Code of an agent's module still runs, from an earlier import.")
        try:
            async with asyncio.timeout_at(self._until):
                await self._ended.wait()
        except TimeoutError:
            log.error("import of agents has not ended", extra={"longest_s": LONGEST_S})
            raise AgentUnavailable(f"The imports of agents have not ended within {LONGEST_S:g} s.") from None


def _start(
    work: Callable[[], _Result],
    result: "asyncio.Future[_Result]",
    too_late: Callable[[_Result], None],
    ended: asyncio.Event,
) -> None:
    """Do the work in a thread; then its outcome is in `result`, and `ended` is set."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()

    def succeed(value: _Result) -> None:
        ended.set()
        if result.done():
            too_late(value)
        else:
            result.set_result(value)

    def fail(error: Exception) -> None:
        ended.set()
        if not result.done():
            result.set_exception(error)

    def run() -> None:
        # The loop may be closed by the end.
        with contextlib.suppress(RuntimeError):
            try:
                value = context.run(work)
            except Exception as error:
                loop.call_soon_threadsafe(fail, error)
            except BaseException as error:
                loop.call_soon_threadsafe(fail, RuntimeError(type_of(error)))
            else:
                loop.call_soon_threadsafe(succeed, value)

    # A daemon: an author's import that never ends must not keep the process.
    threading.Thread(target=run, name="imports", daemon=True).start()
