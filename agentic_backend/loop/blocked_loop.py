"""BlockedLoop: finds code that blocks the event loop, and says who it works for and which line it is at.

The loop notes at every tick that it is alive. A thread looks as often; if the loop is late, it takes samples of what
the loop's thread does. A block is one step of one task, or one callback: many short steps make the loop late too, but
none of them blocks it. Time in which the process got no processor, or was suspended, does not count.
"""

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Protocol

from cachetools import TTLCache

from agentic_backend.disclosure.exception_detail import is_authors, shown_place
from agentic_backend.kpi import Kpi
from agentic_backend.loop.thread_frames import thread_frames

log = logging.getLogger(__name__)

_TICKS = 5
"""Ticks in the shortest block that is told."""
_TOLD_WHILE_IT_LASTS_S = 0.8
"""A block is told at its end, or when it has lasted so long: it may never end."""
_MOST_FRAMES = 20
_MOST_FOLLOWED = 100
_TOLD_AGAIN_AFTER_S, _PLACES = 60.0, 256
"""A line that blocks again is told again after this time; so many lines are remembered."""

_FRAMEWORKS = ("agentic_backend", "langgraph", "langchain", "langchain_core", "langsmith")
"""Packages that call an author's code."""


class Worker(Protocol):
    """Who blocked code works for."""

    @property
    def agent_id(self) -> str: ...

    @property
    def node(self) -> str | None: ...

    @property
    def log_fields(self) -> Mapping[str, object]: ...

    def show_block(self, line: str, blocked_s: float) -> None:
        """Called in the event loop, once the block has ended."""


class FindWorker(Protocol):
    def __call__(self, context: Context) -> Worker | None:
        """The worker of a task with this context; called in another thread."""


@dataclass(slots=True)
class _Block:
    beat: float
    """When the loop was alive for the last time."""
    since: float
    """When it was blocked already."""
    step: object
    """The task, or the code of the callback; None if the loop has been seen idle."""
    line: str
    stack: Sequence[str]
    """From the innermost place to what the loop has called."""
    worker: Worker | None
    seen: float
    """When it was seen for the last time."""
    lost_s: float = 0.0
    """The time in which the process did not run."""
    is_told: bool = False

    def lasted_s(self, until: float) -> float:
        return until - self.since - self.lost_s


class BlockedLoop:
    """Watches the running loop, which has to be the one of the current thread, from `start` to `close`."""

    def __init__(self, kpi: Kpi, limit_s: float, worker_of: FindWorker) -> None:
        self._kpi = kpi
        self._limit_s = limit_s
        self._worker_of = worker_of
        self._tick_s = limit_s / _TICKS
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="blocked-loop", daemon=True)
        # When the loop was alive for the last time, and the frame that runs it: nothing above it is at work.
        self._beat, self._base = time.monotonic(), sys._getframe()
        self._next_beat: asyncio.TimerHandle | None = None
        self._block: _Block | None = None
        """What blocks the loop, as far as the thread has seen; the loop ends it."""
        self._followed: deque[_Block] = deque(maxlen=_MOST_FOLLOWED)
        """Those that another step has followed before the loop was alive again."""
        self._told: TTLCache[tuple[str, str], bool] = TTLCache(_PLACES, _TOLD_AGAIN_AFTER_S)
        """The lines that were told lately, by the agent's id and the line."""
        self._lock = threading.Lock()

    def start(self) -> None:
        self._live()
        self._thread.start()

    def close(self) -> None:
        if self._next_beat is not None:
            self._next_beat.cancel()
        self._ended.set()
        self._thread.join()

    def _live(self) -> None:
        """A tick of the loop: it is alive, so whatever blocked it has ended."""
        now, block, before = time.monotonic(), self._block, self._beat
        self._beat, self._base = now, sys._getframe(1)
        self._next_beat = self._loop.call_later(self._tick_s, self._live)
        while self._followed:
            followed = self._followed.popleft()
            self._end(followed, followed.lasted_s(followed.seen))
        if block is not None and block.beat == before and block.step is not None:
            self._end(block, block.lasted_s(now))

    def _end(self, block: _Block, blocked_s: float) -> None:
        if blocked_s < self._limit_s:
            return
        self._kpi.process.loop_blocked(block.worker.agent_id if block.worker else "", blocked_s)
        if not block.is_told:
            self._tell(block, blocked_s)
        if block.worker is not None:
            block.worker.show_block(block.line, blocked_s)

    def _watch(self) -> None:
        looked_at, cpu_s = time.monotonic(), self._cpu_s()
        while not self._ended.wait(self._tick_s):
            now, used_s = time.monotonic(), self._cpu_s()
            # A thread that holds the interpreter delays this one too, but then it uses the processor.
            lost_s = max(0.0, now - looked_at - self._tick_s - (used_s - cpu_s))
            looked_at, cpu_s = now, used_s
            try:
                self._look(now, lost_s)
            except Exception:
                # What a task works on is in an author's hands. The next look may succeed.
                if self._is_news("", "look"):
                    log.exception("event loop watch failed")

    def _look(self, now: float, lost_s: float) -> None:
        beat = self._beat
        if now - beat < 2 * self._tick_s:
            # Forget the last block: it holds its task, and all that this holds.
            self._block = None
            return
        before = self._block if self._block is not None and self._block.beat == beat else None
        frame, task = thread_frames().get(self._loop_thread), asyncio.current_task(self._loop)
        step = None if frame is None else self._step(frame, task)
        if before is not None and before.step is not None and before.step is not step:
            self._followed.append(before)
        if frame is None or step is None:
            # The loop waits, or has not got the processor: a step that begins from here on is another one.
            self._block = _Block(beat, now, None, "", (), None, now)
            return
        if before is not None and before.step is step:
            before.seen, before.lost_s = now, before.lost_s + lost_s
        else:
            since = beat + self._tick_s if before is None else now
            before = self._block = _Block(
                beat, since, step, self._line(frame), self._stack(frame), self._worker(task), now, lost_s
            )
        if not before.is_told and before.lasted_s(now) >= max(_TOLD_WHILE_IT_LASTS_S, self._limit_s):
            before.is_told = True
            self._tell(before, before.lasted_s(now))

    def _tell(self, block: _Block, blocked_s: float) -> None:
        worker = block.worker
        if not self._is_news(worker.agent_id if worker else "", block.line):
            return
        fields = {**worker.log_fields, "agent_id": worker.agent_id, "node": worker.node} if worker else {}
        log.warning(
            "code blocks the event loop",
            extra={**fields, "line": block.line, "blocked_ms": round(blocked_s * 1000), "stack": block.stack},
        )

    def _is_news(self, agent_id: str, line: str) -> bool:
        with self._lock:
            if (agent_id, line) in self._told:
                return False
            self._told[agent_id, line] = True
        return True

    def _worker(self, task: asyncio.Task[object] | None) -> Worker | None:
        context = None if task is None else _context_of(task)
        return None if context is None else self._worker_of(context)

    def _step(self, frame: FrameType, task: asyncio.Task[object] | None) -> object:
        """The task that runs, or the code of the callback; None if the loop waits."""
        if task is not None:
            return task
        return None if self._is_idle(frame) else self._callback(frame)

    def _is_idle(self, frame: FrameType) -> bool:
        # uvloop waits in C, asyncio's own loop in a selector.
        return frame is self._base or frame.f_globals.get("__name__") == "selectors"

    def _callback(self, frame: FrameType) -> object:
        """The code of the callback that the loop runs."""
        return [frame, *self._frames(frame)][-1].f_code

    def _frames(self, frame: FrameType) -> Iterator[FrameType]:
        """From the innermost frame to the one that the loop has called."""
        current: FrameType | None = frame
        while current is not None and current is not self._base:
            if current.f_globals.get("__name__") == "asyncio.events":
                # From here on it is asyncio's own loop.
                return
            yield current
            current = current.f_back

    def _line(self, frame: FrameType) -> str:
        """The innermost line of an author's, else the one by which a library was called, else the innermost."""
        frames = list(self._frames(frame)) or [frame]
        own = next((one for one in frames if is_authors(one.f_code.co_filename)), None)
        others = (one for one in reversed(frames) if _is_of_a_library(one))
        found = own or next(others, frames[0])
        return shown_place(found.f_code.co_filename, found.f_lineno, found.f_code.co_name)

    def _stack(self, frame: FrameType) -> list[str]:
        frames = islice(self._frames(frame), _MOST_FRAMES)
        return [shown_place(one.f_code.co_filename, one.f_lineno, one.f_code.co_name) for one in frames]

    def _cpu_s(self) -> float:
        """The processor time of the loop's thread, in seconds; where it can't be told, the time itself."""
        try:
            return time.clock_gettime(time.pthread_getcpuclockid(self._loop_thread))
        except (AttributeError, OSError):
            return time.monotonic()


@contextmanager
def watched_loop(kpi: Kpi, limit_s: float | None, worker_of: FindWorker) -> Iterator[None]:
    """Watch the running loop while the context is open; `limit_s` None switches it off."""
    if limit_s is None:
        yield
        return
    watch = BlockedLoop(kpi, limit_s, worker_of)
    watch.start()
    try:
        yield
    finally:
        watch.close()


def _context_of(task: asyncio.Task[object]) -> Context | None:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Before Python 3.12 only the garbage collector tells; the task's own context comes first.
    return next((one for one in gc.get_referents(task) if isinstance(one, Context)), None)


def _is_of_a_library(frame: FrameType) -> bool:
    """Whether it is of an installed package that an author calls, and not of one that calls authors."""
    name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return name not in (*_FRAMEWORKS, *sys.stdlib_module_names)
