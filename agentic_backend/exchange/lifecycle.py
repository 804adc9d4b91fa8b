"""Lifecycle: the phase of an exchange while this process runs it, and its cancellation.

Owned by its exchange. Every change of phase goes through `enter`, which checks the transition. `cancel` only records a
cancellation: the exchange's own task acts on it.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from agentic_backend.errors import AgenticError, Interrupted
from agentic_backend.protocol.events import ErrorDetail
from agentic_backend.protocol.messages import ExchangeStatus

T = TypeVar("T")

# Retries of a write during a shutdown: even if the store is available, its answer may get lost.
_LAST_TRIES, _LAST_TRIES_EVERY_S = 3, 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of an exchange has ended. `AWAITING_HUMAN` ends the run, but not the exchange."""

    status: ExchangeStatus
    error: AgenticError | None = None
    detail: ErrorDetail | None = None
    """The exception behind the error, if the user may see it."""


OK = Outcome(ExchangeStatus.OK)
PAUSED = Outcome(ExchangeStatus.AWAITING_HUMAN)
BLOCKED = Outcome(ExchangeStatus.BLOCKED)
STOPPED = Outcome(ExchangeStatus.STOPPED)
INTERRUPTED = Outcome(ExchangeStatus.INTERRUPTED, Interrupted())


class Phase(StrEnum):
    """The last three settle the exchange on this instance: this process writes nothing more of it."""

    RUNNING = "running"
    """Its agent is being built, or its graph runs."""
    PAUSING = "pausing"
    """Its graph waits for a person; the pause is being stored."""
    ENDING = "ending"
    """No more drafts are accepted; its end is being stored."""
    WAITING = "waiting"
    """It waits for a person and has no owner."""
    ENDED = "ended"
    """Its end is stored and shown."""
    LEFT = "left"
    """It ends or continues elsewhere: another instance owns it, or recovery will end it from the store."""


_NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.RUNNING: frozenset({Phase.PAUSING, Phase.ENDING, Phase.LEFT}),
    Phase.PAUSING: frozenset({Phase.WAITING, Phase.ENDING, Phase.LEFT}),
    Phase.ENDING: frozenset({Phase.ENDED, Phase.LEFT}),
    Phase.WAITING: frozenset(),
    Phase.ENDED: frozenset(),
    Phase.LEFT: frozenset(),
}


class Lifecycle:
    def __init__(self) -> None:
        self.phase = Phase.RUNNING
        """The current phase; only `enter` changes it."""
        self.cancelled: Outcome | None = None
        """The requested outcome; the first request wins."""
        self.wakeup = asyncio.Event()
        """Set when its task has work: messages to write, a cancellation, the graph's end. The task clears it."""
        self.settled = asyncio.Event()
        """Set once the exchange is settled on this instance."""
        self.process_goes = asyncio.Event()
        """Set when the process shuts down: no time is left to wait for an unavailable store."""
        self._was_cancelled = asyncio.Event()
        """Set together with `cancelled`, so that tasks can wait for it."""
        self._hurried = asyncio.Event()
        """Set when it is stopped, or the process shuts down: from then on nothing may take long."""
        self._last_tries = _LAST_TRIES
        """The remaining retries of a write during a shutdown."""

    @property
    def is_open(self) -> bool:
        """Whether it still accepts drafts of its graph."""
        return self.phase in (Phase.RUNNING, Phase.PAUSING)

    def enter(self, phase: Phase) -> None:
        """Change to `phase`, which must be allowed after the current one."""
        assert phase in _NEXT[self.phase], f"an exchange that is {self.phase} can't become {phase}"
        self.phase = phase
        if not _NEXT[phase]:
            self.settled.set()

    def leave(self) -> None:
        """Leave the exchange to other instances, unless it is settled."""
        if not self.settled.is_set():
            self.enter(Phase.LEFT)

    def cancel(self, outcome: Outcome) -> None:
        """Request its end with `outcome`. Only the first call before the exchange ends decides it."""
        if outcome is STOPPED:
            self._hurried.set()
        if self.cancelled is None and self.is_open:
            self.cancelled = outcome
            self._was_cancelled.set()
            self.wakeup.set()

    @property
    def is_hurried(self) -> bool:
        """Whether it is stopped, even while it ends, or the process shuts down."""
        return self._hurried.is_set()

    def interrupt(self) -> None:
        """Request its end because the process shuts down."""
        self.process_goes.set()
        self._hurried.set()
        self.cancel(INTERRUPTED)

    async def unless_hurried(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`; None, once it has ended, if a stop or a shutdown comes first."""
        task, hurry = asyncio.create_task(work), asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait({task, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            return None
        finally:
            for one in (task, hurry):
                one.cancel()
            await asyncio.wait({task, hurry})

    async def while_process_stays(self, longest_s: float) -> bool:
        """Wait up to `longest_s` or until the shutdown; False during a shutdown once no retries remain."""
        if self.process_goes.is_set():
            self._last_tries -= 1
            await asyncio.sleep(_LAST_TRIES_EVERY_S)
            return self._last_tries >= 0
        await wait_for(self.process_goes, longest_s)
        return True

    async def while_not_cancelled(self, longest_s: float) -> bool:
        """Wait up to `longest_s` or until the cancellation; False if the exchange was cancelled before the call.

        An exchange cancelled by a shutdown still has its last retries.
        """
        if self.cancelled is not None:
            return self.cancelled is INTERRUPTED and await self.while_process_stays(longest_s)
        await wait_for(self._was_cancelled, longest_s)
        return True


async def wait_for(event: asyncio.Event, longest_s: float) -> None:
    """Wait until `event` is set, for at most `longest_s` seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
