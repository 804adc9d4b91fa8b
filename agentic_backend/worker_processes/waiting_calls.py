"""WaitingCalls: the calls that wait for a worker, in turns of those for whom they are made. No I/O."""

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from agentic_backend.worker_processes.frames import Frame

MOST_CALLS, MOST_BYTES = 100, 64 * 1024 * 1024
"""So many calls wait, and so many bytes of their arguments."""


@dataclass(eq=False, slots=True)
class WaitingCall:
    """A call. Nobody waits for its `answer` any more once that is done."""

    user_id: str
    method: str
    frame: Frame = field(repr=False)
    timeout_s: float
    answer: "asyncio.Future[Any]" = field(repr=False)


class WaitingCalls:
    def __init__(self) -> None:
        self._by_user: OrderedDict[str, deque[WaitingCall]] = OrderedDict()
        """The calls of each user in their order; whose turn is next stands first."""
        self._bytes = 0
        self.count = 0

    def has_room(self, frame: Frame) -> bool:
        return self.count < MOST_CALLS and self._bytes + frame.size <= MOST_BYTES

    def add(self, call: WaitingCall) -> None:
        self._by_user.setdefault(call.user_id, deque()).append(call)
        self._count(call, 1)

    def take(self) -> WaitingCall | None:
        """The next call: the first one of the user who has waited for a turn longest."""
        if not self._by_user:
            return None
        user_id, calls = self._by_user.popitem(last=False)
        call = calls.popleft()
        if calls:
            self._by_user[user_id] = calls
        self._count(call, -1)
        return call

    def discard(self, call: WaitingCall) -> None:
        """Take it out, if it still waits."""
        calls = self._by_user.get(call.user_id)
        if calls is None or call not in calls:
            return
        calls.remove(call)
        if not calls:
            del self._by_user[call.user_id]
        self._count(call, -1)

    def _count(self, call: WaitingCall, change: int) -> None:
        self.count += change
        self._bytes += change * call.frame.size
