"""AuthorsCalls: awaits an author's code in a task of its own, for a bounded time.

The code may raise anything, hang, ignore its cancellation, or stop its own task. Whatever it does ends as its answer or
as a CallFailed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import Any, TypeVar

from agentic_backend.agents.models.provider_failures import is_outage
from agentic_backend.agents.run.at_work import AtWork, begin_work
from agentic_backend.disclosure.exception_detail import place_of
from agentic_backend.loop.loop_load import wait_served
from agentic_backend.system_errors import system_words_of

log = logging.getLogger(__name__)

T = TypeVar("T")

# Calls that ignore their cancellation and still run; beyond this number nothing more is called.
_GIVEN_UP_AT_MOST = 20
_LONGEST_NAME = 100

TIMEOUT, TOO_MANY = "timeout", "too_many_running"


class CallFailed(Exception):
    """`error` is the type of the exception, or one of the words above; `where` is the author's line, if it raised."""

    def __init__(self, error: str, where: str | None = None, *, was_away: bool = False) -> None:
        """`was_away`: the code, or what it depends on, whatever it was called with."""
        super().__init__(error)
        self.error = error
        self.where = where
        self.was_away = was_away


class AuthorsCalls:
    def __init__(self, name: str) -> None:
        """`name` is whose code it is, for the log of what blocks the loop."""
        self._name = name
        self._given_up: set[asyncio.Task[object]] = set()
        """The calls that were given up and have not ended."""

    async def result(
        self,
        call: Callable[[], Awaitable[T | CallFailed]],
        timeout_s: float,
        log_fields: Mapping[str, object],
        context: Context | None = None,
    ) -> T:
        """What `call` answers within `timeout_s` seconds in which the loop served.

        It runs in `context`, else in a copy of the caller's. Raises CallFailed, also the one that `call` answers.
        """
        task = self.begun(call, log_fields, context)
        try:
            await wait_served(task, timeout_s)
        finally:
            self._give_up(task)
        if not task.done():
            raise CallFailed(TIMEOUT, was_away=True)
        return answer_of(task)

    def begun(
        self,
        call: Callable[[], Awaitable[T | CallFailed]],
        log_fields: Mapping[str, object],
        context: Context | None = None,
    ) -> "asyncio.Task[T | CallFailed]":
        """The task of a call that whoever begins it also ends, by `ended`. Raises CallFailed if too many hang."""
        if len(self._given_up) >= _GIVEN_UP_AT_MOST:
            raise CallFailed(TOO_MANY, was_away=True)
        # In a task and a context of its own: nothing that it does to its task touches the caller's.
        return asyncio.create_task(self._guarded(call, log_fields), name=self._name, context=context)

    async def ended(self, task: asyncio.Task[Any], timeout_s: float) -> None:
        """Cancel a task, and wait until it has tidied up; one that takes longer is given up."""
        if not task.done():
            _cancel(task)
            try:
                await wait_served(task, timeout_s)
            finally:
                self._give_up(task)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            self._given_up.add(task)
            task.add_done_callback(self._given_up.discard)
            _cancel(task)

    async def done(
        self, work: Callable[[], Awaitable[object]], timeout_s: float, log_fields: Mapping[str, object]
    ) -> None:
        """Await what `work` answers within `timeout_s` seconds, and drop it, as `result` does. Raises CallFailed.

        What gets the author's method belongs into `work` too: it may be code of the author.
        """

        async def call() -> None:
            await work()

        # Whatever it holds, nothing is looked for in it.
        await self.result(call, timeout_s, log_fields)

    async def aclose(self, timeout_s: float) -> None:
        """Cancel the calls that were given up, and wait for them, at most so long."""
        for task in self._given_up:
            _cancel(task)
        if self._given_up:
            await asyncio.wait(set(self._given_up), timeout=timeout_s)

    async def _guarded(
        self, call: Callable[[], Awaitable[T | CallFailed]], log_fields: Mapping[str, object]
    ) -> T | CallFailed:
        """The answer, or the failure: a task that raises SystemExit would end the event loop."""
        begin_work(AtWork(self._name, log_fields, lambda data: None))
        try:
            return await call()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return _failure_of(error)


def answer_of(task: "asyncio.Task[T | CallFailed]") -> T:
    """What a task that is done has answered. Raises CallFailed."""
    if task.cancelled():
        raise CallFailed("CancelledError")
    answer = task.result()
    if isinstance(answer, CallFailed):
        raise answer
    return answer


def _cancel(task: asyncio.Task[object]) -> None:
    try:
        task.cancel()
    except BaseException:
        # What the task waits for is told first, and may be the author's.
        log.warning("call can't be cancelled", extra={"task": task.get_name()})


def _failure_of(error: BaseException) -> CallFailed:
    """What the call has failed with, in values of the server's own."""
    try:
        name = type(error).__name__
        told = name if type(name) is str and len(name) <= _LONGEST_NAME and name.isprintable() else "Exception"
        named = ": ".join(filter(None, [told, system_words_of(error)]))
        return CallFailed(named, place_of(error), was_away=is_outage(error))
    except BaseException:
        # What describes it may be code of the author too.
        return CallFailed("Exception")
