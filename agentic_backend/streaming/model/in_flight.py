"""InFlight: what a run's graph is doing: the nodes, tools and model calls that have begun and not ended.

LangChain reports them as runs, each with its parent. No I/O and no clock: times are passed in, in seconds of one
monotonic clock. Callbacks may come from several threads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from uuid import UUID


class Kind(Enum):
    NODE = "node"
    TOOL = "tool"
    MODEL = "model"
    OTHER = "other"
    """Only connects a run with its parent."""


@dataclass(slots=True)
class Work:
    kind: Kind
    name: str
    parent: UUID | None
    sign_at: float
    """The time of its last sign of life: its start, or the start or end of work within it."""
    is_called: bool
    """Whether a model has called it, so that it has an end: LangChain does not report that a tool was cancelled, but
    every call gets a result."""


class InFlight:
    def __init__(self, at: float) -> None:
        self._runs: dict[UUID, Work] = {}
        self.last_sign = at
        """The time of the last sign of life of any work."""
        self.in_line = 0
        """How many of its streams have a chunk, and wait for the streams of others."""

    def begin(
        self, run_id: UUID, parent: UUID | None, kind: Kind, name: str, at: float, *, is_called: bool = False
    ) -> None:
        self._runs[run_id] = Work(kind, name, parent, at, is_called)
        self._sign(parent, at)

    def end(self, run_id: UUID, at: float) -> Work | None:
        """Note an end, and return what has ended; None if it is not known."""
        work = self._runs.pop(run_id, None)
        self._sign(work.parent if work else None, at)
        return work

    def progress(self, at: float) -> None:
        """Some tool has reported its progress; LangGraph does not say which."""
        for work in list(self._runs.values()):
            work.sign_at = at

    def innermost(self) -> list[Work]:
        """The nodes, tools and model calls within which no other works."""
        at_work = self._at_work()
        enclosing = {id(outer) for work in at_work if work.kind is not Kind.OTHER for outer in self._around(work)}
        return [work for work in at_work if work.kind is not Kind.OTHER and id(work) not in enclosing]

    def runs_a_tool(self) -> bool:
        return any(work.kind is Kind.TOOL for work in self._at_work())

    def _at_work(self) -> list[Work]:
        """What has begun, without what was cancelled: LangChain does not report that, but the end of its parent."""
        for run_id, work in list(self._runs.items()):
            outermost = [work, *self._around(work)][-1]
            if outermost.parent is not None:
                self._runs.pop(run_id, None)
        return list(self._runs.values())

    def _around(self, work: Work) -> Iterator[Work]:
        while work.parent is not None and (outer := self._runs.get(work.parent)) is not None:
            yield outer
            work = outer

    def _sign(self, parent: UUID | None, at: float) -> None:
        self.last_sign = at
        while parent is not None and (work := self._runs.get(parent)) is not None:
            work.sign_at = at
            parent = work.parent
