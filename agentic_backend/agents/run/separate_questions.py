"""Keeps the questions of a graph apart, so that each reaches a person and each answer its question.

LangGraph gives the answers to the interrupts of one of its tasks in the order in which they are called, and code that
runs at the same time within a task calls them in another order at each run. So each of several calls of a ToolNode runs
in a task of its own, as `create_agent` sends them: they ask together, each under an id of its own, and a call that has
ended keeps its result while another one waits. Any other interrupt beside which code of the same task still runs is
refused before a person sees it.

It also notes which function asks, so that its author can be told of it.

Invariant: both hold for every graph that a run reaches, also for those that only the code of a node knows, so they are
set on LangGraph's own classes. The check looks at who awaits whom, and only when something asks.
"""

import asyncio
import concurrent.futures
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.thread import _WorkItem
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from langchain_core.messages.tool import ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph._internal._constants import CONF, CONFIG_KEY_CALL, CONFIG_KEY_CHECKPOINT_NS
from langgraph._internal._scratchpad import PregelScratchpad
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.prebuilt import ToolNode
from langgraph.pregel import _algo
from langgraph.pregel._retry import run_with_retry
from langgraph.pregel._runner import FuturesDict
from langgraph.types import Command, _interrupt_id

from agentic_backend.errors import AmbiguousInterrupt

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 5.0
"""How long a thread waits for the event loop, which has a callback to run."""

_Future = asyncio.Future[Any] | concurrent.futures.Future[Any]
_ainvoke, _invoke = ToolNode.ainvoke, ToolNode.invoke


@dataclass
class _Run:
    task: asyncio.Task[Any] | None
    """The asyncio task that runs the outermost graph."""
    refused: AmbiguousInterrupt | None = None
    """The first interrupt that was refused."""
    askers: dict[str, CodeType] = field(default_factory=dict)
    """The functions that have asked, by the ids of their interrupts."""


_run: ContextVar[_Run] = ContextVar("run")


def keep_questions_apart() -> None:
    """Call it in the asyncio task that is about to run a graph."""
    _run.set(_Run(asyncio.current_task()))
    if vars(ToolNode).get("ainvoke") is not _ainvoke_apart:
        ToolNode.ainvoke = _ainvoke_apart  # type: ignore[method-assign, assignment]
        ToolNode.invoke = _invoke_apart  # type: ignore[method-assign, assignment]
        _algo.PregelScratchpad = _Scratchpad  # type: ignore[attr-defined, assignment]


def require_none_refused() -> None:
    """Raise AmbiguousInterrupt if one was refused in the run of this task: its question would be lost at a pause."""
    if (run := _run.get(None)) is not None and run.refused is not None:
        raise run.refused


def askers() -> Mapping[str, CodeType]:
    """The functions that have asked in the run of this task, by the ids of their interrupts."""
    run = _run.get(None)
    return run.askers if run is not None else {}


class _Refused(AmbiguousInterrupt, GraphBubbleUp):
    """Passes what makes results or retries of failures, such as a ToolNode."""


class _HandedOver(NamedTuple):
    """What a call has raised as a ParentCommand."""

    command: Command[Any]
    namespace: str


async def _ainvoke_apart(node: ToolNode, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
    """ToolNode.ainvoke, with several calls in tasks of their own."""
    config = ensure_config() if config is None else config
    calls, form = node._parse_input(input)
    if len(calls) < 2 or CONFIG_KEY_CALL not in config.get(CONF, {}):
        return await _ainvoke(node, input, config, **kwargs)
    state = node._extract_state(input, config)
    if config.get("max_concurrency"):
        # Its own task has one of the places: those of its calls might never get one.
        return _combined(node, form, [await _ainvoke(node, _sent(one, state), config) for one in calls])

    async def run(one: ToolCall) -> Any:
        try:
            return await _ainvoke(node, _sent(one, state), get_config())
        except ParentCommand as command:
            return _HandedOver(command.args[0], _namespace(get_config()))

    async def ended(future: asyncio.Future[Any]) -> Any:
        try:
            return await future
        except GraphInterrupt as asked:
            return asked

    return _combined(node, form, await asyncio.gather(*map(ended, _begun(node, run, calls, config))), config)


def _invoke_apart(node: ToolNode, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
    """ToolNode.invoke, with several calls in tasks of their own."""
    config = ensure_config() if config is None else config
    calls, form = node._parse_input(input)
    if len(calls) < 2 or CONFIG_KEY_CALL not in config.get(CONF, {}):
        return _invoke(node, input, config, **kwargs)
    state = node._extract_state(input, config)
    if config.get("max_concurrency") or asyncio._get_running_loop() is not None:
        # In the event loop nothing can be waited for.
        return _combined(node, form, [_invoke(node, _sent(one, state), config) for one in calls])

    def run(one: ToolCall) -> Any:
        try:
            return _invoke(node, _sent(one, state), get_config())
        except ParentCommand as command:
            return _HandedOver(command.args[0], _namespace(get_config()))

    def ended(future: concurrent.futures.Future[Any]) -> Any:
        try:
            return future.result()
        except GraphInterrupt as asked:
            return asked

    return _combined(node, form, [*map(ended, _begun(node, run, calls, config))], config)


def _sent(call: ToolCall, state: Any) -> dict[str, Any]:
    """The input of a ToolNode for one call, in the form that is sent to it by `Send`."""
    return {"__type": "tool_call_with_context", "tool_call": call, "state": state}


def _begun(node: ToolNode, run: Callable[..., Any], calls: Sequence[ToolCall], config: RunnableConfig) -> list[Any]:
    """A future for each call. LangGraph names their tasks by their order, so that it finds them again."""
    run.__name__ = node.name or "tools"
    begin = config[CONF][CONFIG_KEY_CALL]
    return [begin(run, ((call,), {}), callbacks=config.get("callbacks")) for call in calls]


def _combined(node: ToolNode, form: Any, outputs: Sequence[Any], config: RunnableConfig | None = None) -> Any:
    """What the node returns for what its calls have come to. Raises GraphInterrupt with all that they ask."""
    asking = [output for output in outputs if isinstance(output, GraphInterrupt)]
    if asking:
        raise GraphInterrupt(tuple(one for asked in asking for one in asked.args[0]))
    for output in outputs:
        if isinstance(output, _HandedOver):
            command, namespace = output
            # To the task of a call, the graph of this node is not the parent.
            raise ParentCommand(
                replace(command, graph=_namespace(config or {})) if command.graph == namespace else command
            )
    return node._combine_tool_outputs([*_single(outputs)], form)


def _single(outputs: Sequence[Any]) -> Iterator[Any]:
    """The messages and commands in what a ToolNode returns for each single call."""
    for output in outputs:
        for one in output if isinstance(output, list) else [output]:
            if isinstance(one, Command):
                yield one
            else:
                for messages in one.values():
                    yield from messages


def _namespace(config: RunnableConfig) -> str:
    return str(config.get(CONF, {}).get(CONFIG_KEY_CHECKPOINT_NS, ""))


class _Scratchpad(PregelScratchpad):
    """What LangGraph knows of the interrupts of a task. Raises AmbiguousInterrupt for one that it might confuse."""

    __slots__ = ()

    def __init__(self, *, interrupt_counter: Callable[[], int], **others: Any) -> None:
        def counted() -> int:
            if _asks_beside_others(sys._getframe()):
                refused = _refusal(sys._getframe(2))
                if (run := _run.get(None)) is not None:
                    run.refused = run.refused or refused
                raise refused
            index = interrupt_counter()
            if (run := _run.get(None)) is not None:
                # The frame of `interrupt`, and the one that called it.
                run.askers[_interrupt_id(_namespace(get_config()), index)] = sys._getframe(2).f_code
            return index

        super().__init__(interrupt_counter=counted, **others)


def _refusal(asking: FrameType) -> _Refused:
    node = str(get_config().get("metadata", {}).get("langgraph_node", ""))
    name, place = asking.f_code.co_name, f"{Path(asking.f_code.co_filename).name}:{asking.f_lineno}"
    log.error("interrupt refused", extra={"node": node, "function": name, "line": place})
    return _Refused(
        f"'{name}' ({place}) asks a person while other code runs beside it in the same step '{node}', so that an "
        "answer could reach another question. Ask one after the other, or give each its own task: by `Send`, by "
        "`@task`, or as a call of a ToolNode."
    )


class _Link(NamedTuple):
    """Who waits for a future."""

    future: _Future | None
    pending: int = 1
    """How many futures it still waits for."""
    in_wait: bool = False


def _asks_beside_others(frame: FrameType) -> bool:
    if asyncio._get_running_loop() is not None:
        return _has_company(asyncio.current_task())
    work, is_awaited = _work_of_thread(frame)
    run = _run.get(None)
    if work is None or run is None or run.task is None:
        return False
    # By the time that the loop looks, what began the thread's work awaits it.
    found: concurrent.futures.Future[bool] = concurrent.futures.Future()
    run.task.get_loop().call_soon_threadsafe(lambda: found.set_result(_has_company(work, is_awaited=is_awaited)))
    try:
        return found.result(_LONGEST_WAIT_S)
    except TimeoutError:
        # The loop itself waits for the thread, as it does for those of a pool.
        return True


def _work_of_thread(frame: FrameType | None) -> tuple[_Future | None, bool]:
    """The future of what the thread does, and whether LangGraph does it, for a task or a single call, and awaits it."""
    is_awaited = False
    while frame is not None:
        is_awaited |= frame.f_code in (run_with_retry.__code__, ToolNode._run_one.__code__)
        if isinstance(work := frame.f_locals.get("self"), _WorkItem):
            return work.future, is_awaited
        frame = frame.f_back
    return None, is_awaited


def _has_company(future: _Future | None, *, is_awaited: bool = False) -> bool:
    """Whether other code runs in the same task of LangGraph, or of one around it, as what ends with `future`."""
    run = _run.get(None)
    while future is not None and not (run and future is run.task) and not future.done():
        callbacks = _callbacks(future)
        is_task = any(
            isinstance(getattr(getattr(one, "func", None), "__self__", None), FuturesDict) for one in callbacks
        )
        links = [link for one in callbacks if (link := _link(one)).in_wait or not is_task]
        # What nobody waits for goes on beside what has begun it. The tasks of LangGraph go on beside each other.
        if not is_task and (any(link.pending > 1 for link in links) or not (callbacks or is_awaited)):
            return True
        future = next((link.future for link in links if link.future is not None), None)
    return False


def _callbacks(future: _Future) -> list[Any]:
    if isinstance(future, concurrent.futures.Future):
        return list(future._done_callbacks)  # type: ignore[attr-defined]
    return [callback for callback, _ in getattr(future, "_callbacks", None) or ()]


def _link(callback: Any) -> _Link:
    """What a callback of a future tells of who waits for it; asyncio and LangGraph keep that in its closure."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return _Link(owner)
    if isinstance(owner, asyncio.TaskGroup):
        return _Link(getattr(owner, "_parent_task", None), len(getattr(owner, "_tasks", ())))
    held: dict[Any, Any]
    if isinstance(callback, partial):
        held = dict(enumerate(callback.args))
    else:
        cells = getattr(callback, "__closure__", None) or ()
        names = callback.__code__.co_freevars if cells else ()
        held = dict(zip(names, (cell.cell_contents for cell in cells), strict=True))
    pending = held["nfuts"] - held["nfinished"] if "nfuts" in held else held.get("counter", 1)
    above = held.get("outer", held.get("waiter", held.get("destination", held.get(0))))
    is_future = isinstance(above, asyncio.Future | concurrent.futures.Future)
    return _Link(above if is_future else None, pending, "waiter" in held)
