"""Backlog: for how long what was admitted waits for this process. Beyond a limit the process is overloaded and nothing
new is admitted: an answer that comes after minutes is of no use, and those that run would wait longer for it.
"""

import logging
import math
import random
from collections.abc import Callable, Mapping

from agentic_backend.errors import Overloaded

log = logging.getLogger(__name__)

# It is overloaded until what waits, waits for no longer than this share of the limit. Otherwise it would admit one ask
# and refuse the next, and nobody could tell what it does.
_ENDS_AT = 0.5
# The longest that somebody is told to wait with the next ask, in seconds.
_LONGEST_RETRY_S = 30


class Backlog:
    """From any thread."""

    def __init__(self, waits: Mapping[str, Callable[[], float]] | None = None, longest_s: float = math.inf) -> None:
        """`waits` tell how long each kind of work waits now, in seconds."""
        self._waits = waits or {}
        self._longest_s = longest_s
        self._is_overloaded = False

    @property
    def age_s(self) -> float:
        return max((wait_s() for wait_s in self._waits.values()), default=0.0)

    def look(self) -> bool:
        """Whether the process is overloaded now; the log says when that begins and ends."""
        was, limit_s = self._is_overloaded, self._longest_s * (_ENDS_AT if self._is_overloaded else 1)
        self._is_overloaded = self.age_s > limit_s
        if self._is_overloaded and not was:
            waits = {f"{name}_s": round(wait_s(), 3) for name, wait_s in self._waits.items()}
            log.warning("overloaded, asks are refused", extra=waits)
        elif was and not self._is_overloaded:
            log.info("no longer overloaded")
        return self._is_overloaded

    def check(self) -> None:
        """Raise Overloaded if nothing new may be admitted."""
        if self.look():
            # Not all at the same moment.
            retry_after_s = math.ceil(self.age_s * random.uniform(1, 2))
            raise Overloaded(retry_after_s=min(retry_after_s, _LONGEST_RETRY_S))
