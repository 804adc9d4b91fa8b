"""Which agents hold the threads for blocking code, found by looking at them: no call notes anything for it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial
from types import BuiltinMethodType, FrameType

from agentic_backend.agents.run.at_work import found_at_work
from agentic_backend.loop.thread_frames import thread_frames

# The frame of `concurrent.futures` that runs a call.
_RUNS = ("concurrent.futures.thread", "run")


def busy_threads(threads: ThreadPoolExecutor) -> Counter[str]:
    """How many threads run code of each agent, by its id; empty for the server's own. From any thread."""
    frames = thread_frames()
    of_pool = [frames.get(thread.ident or 0) for thread in list(threads._threads)]
    return Counter(agent_id for frame in of_pool if frame is not None and (agent_id := _agent_in(frame)) is not None)


def _agent_in(frame: FrameType) -> str | None:
    """The agent whose code a thread runs; None if the thread waits for some."""
    current: FrameType | None = frame
    while current is not None:
        if (current.f_globals.get("__name__"), current.f_code.co_name) == _RUNS:
            return _agent_of(current.f_locals.get("self"))
        current = current.f_back
    return None


def _agent_of(call: object) -> str:
    """Python keeps the function, or from 3.14 on a tuple with it; `to_thread` runs it in a context."""
    function = call.fn if hasattr(call, "fn") else next(iter(getattr(call, "task", ())), None)
    # An author's callable is asked for nothing: one may raise.
    run = function.func if type(function) is partial else None
    context = run.__self__ if type(run) is BuiltinMethodType else None
    work = found_at_work(context) if isinstance(context, Context) else None
    return "" if work is None else work.agent_id
