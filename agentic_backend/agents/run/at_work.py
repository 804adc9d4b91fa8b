"""AtWork: which agent a task works for, and in which node; kept in the context of the task, which its tasks inherit."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.runnables.config import var_child_runnable_config


@dataclass(frozen=True, slots=True)
class AtWork:
    agent_id: str
    log_fields: Mapping[str, object]
    """The ids of its exchange."""
    show: Callable[[Mapping[str, Any]], None]
    """Shows progress to those who follow the exchange, if they may see how the agent is made."""
    node: str | None = None
    retried: Callable[[], None] = lambda: None
    """Counts that a call of a model is tried again. From any thread."""

    def show_block(self, line: str, blocked_s: float) -> None:
        blocked_ms = round(blocked_s * 1000)
        who = f"The node '{self.node}' of" if self.node else "The code of"
        message = f"{who} '{self.agent_id}' blocked the server for {blocked_ms} ms: {line}"
        self.show({"message": message, "blocked_ms": blocked_ms, "node": self.node, "line": line, "kept": True})


_at_work: ContextVar[AtWork | None] = ContextVar("at_work", default=None)


@contextmanager
def at_work(work: AtWork) -> Iterator[None]:
    """What runs inside, and the tasks that it makes, work for this agent."""
    token = _at_work.set(work)
    try:
        yield
    finally:
        _at_work.reset(token)


def begin_work(work: AtWork) -> None:
    """The task that calls this works for this agent to its end; so do the tasks that it makes."""
    _at_work.set(work)


@contextmanager
def at_work_for(expert_id: str) -> Iterator[None]:
    """What runs inside works for an expert, in the exchange of its leader."""
    leader = _at_work.get()
    if leader is None:
        yield
        return
    with at_work(replace(leader, agent_id=expert_id)):
        yield


def agent_at_work() -> str | None:
    """The id of the agent that the caller works for; None outside of an exchange."""
    work = _at_work.get()
    return None if work is None else work.agent_id


def note_retry() -> None:
    """The caller tries a call of a model again."""
    if (work := _at_work.get()) is not None:
        work.retried()


def found_at_work(context: Context) -> AtWork | None:
    """Whom a task with this context works for."""
    work = context.get(_at_work)
    if work is None:
        return None
    config = context.get(var_child_runnable_config) or {}
    node = (config.get("metadata") or {}).get("langgraph_node")
    return replace(work, node=None if node is None else str(node))
