"""AgentFault: an agent that answers well under test, and would serve people badly.

What shows such an agent is noted while a test asks it.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOG = logging.getLogger("agentic_backend.loop.blocked_loop")
# The watch of the loop looks five times within the shortest block that it tells.
_LOOK_S = 0.05


class ScriptEnded(Exception):
    """The model was called once more than its script has turns."""


_missed: list[str] = []
"""The texts of what models have raised while a test asks an agent."""


def script_ended(turns: int) -> ScriptEnded:
    """The error of a model that is called once more than its script has `turns`; it is noted."""
    error = ScriptEnded(f"The script has {turns} turns, and the model is called once more.")
    _missed.append(str(error))
    return error


class AgentFault(AssertionError):
    """The agent swallows a model's errors, or blocks the event loop; the text says which."""


class Noted(logging.Handler):
    """What was noted of an ask."""

    def __init__(self, blocking_s: float | None) -> None:
        """`blocking_s` is how long the agent may block the event loop; None: as long as it likes."""
        super().__init__(logging.WARNING)
        self._blocking_s = blocking_s
        self.blocks: list[str] = []
        self._latest = 0.0
        self._beat = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        # Without an agent it is the server's own code, or the test's.
        agent_id, blocked_ms = getattr(record, "agent_id", None), getattr(record, "blocked_ms", 0)
        if agent_id is not None and self._blocking_s is not None and blocked_ms >= self._blocking_s * 1000:
            line = getattr(record, "line", "")
            self.blocks.append(f"the agent '{agent_id}' blocked the event loop for {blocked_ms} ms or longer: {line}")

    def beat(self) -> None:
        """Note how late the loop is, as long as the ask lasts."""
        self.end()
        now = self._loop.time()
        self._latest = max(self._latest, now - self._beat) if self._beat else 0.0
        self._beat, self._timer = now, self._loop.call_later(_LOOK_S, self.beat)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def check(self, error_type: str) -> None:
        """Raise AgentFault for what was noted; `error_type` is the class of the exception that has ended the run."""
        self.beat()
        if self._blocking_s is not None and self._latest > self._blocking_s:
            # The watch tells of a block when the loop has turned again.
            await asyncio.sleep(self._blocking_s)
        if self.blocks:
            raise AgentFault("; ".join(self.blocks))
        if _missed and error_type != f"{ScriptEnded.__module__}.{ScriptEnded.__qualname__}":
            raise AgentFault(f"the agent swallowed ScriptEnded: {_missed[0]}")


@contextmanager
def noting(blocking_s: float | None) -> Iterator[Noted]:
    """Note what is done inside; see Noted."""
    noted = Noted(blocking_s)
    _missed.clear()
    _LOG.addHandler(noted)
    noted.beat()
    try:
        yield noted
    finally:
        noted.end()
        _LOG.removeHandler(noted)
        _missed.clear()
