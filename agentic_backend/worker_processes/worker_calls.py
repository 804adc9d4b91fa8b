"""WorkerCalls: the calls of one worker of an application, and the process that works on them.

One task starts the process, gives it one call after the other, and ends it. Nothing is there before the first call.
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any

from agentic_backend.backoff import backoff
from agentic_backend.errors import ApplicationUnavailable
from agentic_backend.kpi.groups.worker_processes import WorkerMetrics, WorkerSeries
from agentic_backend.loop.event_loop import in_thread_if_long
from agentic_backend.worker_processes.frames import length_within, packed
from agentic_backend.worker_processes.waiting_calls import WaitingCall, WaitingCalls
from agentic_backend.worker_processes.worker import LONGEST_CALL_S, Worker, is_time
from agentic_backend.worker_processes.worker_process import CodeRaised, ProcessLost, WorkerProcess

log = logging.getLogger(__name__)

_FIRST_REST_S, _LONGEST_REST_S = 1.0, 60.0
_FULL_RETRY_S = 1.0
# More than a call in the loop may look through.
_LOOKED_AT = 5_000


class WorkerCalls:
    def __init__(self, application_id: str, title: str, worker: Worker, series: WorkerSeries) -> None:
        self._worker = worker
        self._title = title
        self._series = series
        self._fields = {"application": application_id, "worker": worker.name}
        self._waiting = WaitingCalls()
        self._came = asyncio.Event()
        """Set when a call comes."""
        self._serving: asyncio.Task[None] | None = None
        """Works on the calls, from the first one on."""
        self._process: WorkerProcess | None = None
        self._is_closed = False
        self._rests = backoff(_FIRST_REST_S, _LONGEST_REST_S)
        """How long no new process is made, if one after the other is lost."""
        self._has_lost = False
        """Whether no call has ended well since a process was lost."""
        self._rests_until = 0.0
        """In seconds of the monotonic clock."""
        series.waits(lambda: self._waiting.count)

    async def call(self, user_id: str, method: str, arguments: Sequence[object], timeout_s: float) -> Any:
        """What the method answers. Raises ApplicationUnavailable, NotData, and ValueError for an odd time or name."""
        if not is_time(timeout_s, LONGEST_CALL_S):
            raise ValueError(f"timeout_s has to be more than 0 and at most {LONGEST_CALL_S}")
        if type(method) is not str or not method.isidentifier() or method.startswith("_"):
            raise ValueError(f"{method!r} is no name of a method")
        value = [method, list(arguments)]
        frame = await in_thread_if_long(length_within(value, _LOOKED_AT), packed, value)
        self._require_room(self._waiting.has_room(frame))
        call = WaitingCall(user_id, method, frame, timeout_s, asyncio.get_running_loop().create_future())
        self._waiting.add(call)
        self._came.set()
        if self._serving is None:
            # An empty context, because it is done for all who call.
            self._serving = asyncio.create_task(self._serve(), context=Context())
        try:
            async with asyncio.timeout(timeout_s):
                answer = await call.answer
        except TimeoutError:
            raise self._unavailable("has not answered in time") from None
        finally:
            self._waiting.discard(call)
            call.answer.cancel()
        if isinstance(answer, ApplicationUnavailable):
            raise answer
        return answer

    async def aclose(self) -> None:
        """End the process; calls that wait are refused."""
        self._is_closed = True
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving})
        self._refuse_all()

    def _require_room(self, has_room: bool) -> None:
        """Raises ApplicationUnavailable."""
        rests_s = self._rests_until - time.monotonic()
        if self._is_closed:
            raise self._unavailable("has been closed")
        if rests_s > 0:
            self._series.refused()
            raise self._unavailable("has failed, and is started again later", rests_s)
        if not has_room:
            self._series.refused()
            raise self._unavailable("has too much to do", _FULL_RETRY_S)

    def _unavailable(
        self, what: str, retry_s: float | None = None, *, retryable: bool = True
    ) -> ApplicationUnavailable:
        content = f"The worker '{self._worker.name}' of the application '{self._title}' {what}."
        wait_s = None if retry_s is None else float(math.ceil(retry_s))
        return ApplicationUnavailable(content, retry_after_s=wait_s, retryable=retryable)

    async def _serve(self) -> None:
        try:
            while True:
                call = await self._next()
                if call is None:
                    await self._end("idle")
                elif not call.answer.done():
                    await self._answer(call)
        finally:
            with suppress(asyncio.CancelledError):
                await self._end("closed")

    async def _next(self) -> WaitingCall | None:
        """The next call; None if the process has had none for long."""
        while (call := self._waiting.take()) is None:
            self._came.clear()
            try:
                async with asyncio.timeout(None if self._process is None else self._worker.idle_s):
                    await self._came.wait()
            except TimeoutError:
                return None
        return call

    async def _answer(self, call: WaitingCall) -> None:
        """Have the process do the call, and say how it has ended."""
        try:
            process = await self._started()
            if process is None:
                self._settle(call, self._unavailable("can't be started"))
                return
            outcome, answer = await self._done(process, call)
            if isinstance(answer, ProcessLost):
                await self._lost(outcome, call.method)
                self._settle(call, self._unavailable("has failed"))
            else:
                self._settle(call, answer)
        except asyncio.CancelledError:
            self._settle(call, self._unavailable("has been closed"))
            raise

    async def _done(self, process: WorkerProcess, call: WaitingCall) -> tuple[str, Any]:
        began, outcome = time.monotonic(), "ok"
        answer: Any
        try:
            answer = await process.call(call.frame, call.timeout_s)
            self._rests, self._has_lost = backoff(_FIRST_REST_S, _LONGEST_REST_S), False
        except CodeRaised as error:
            outcome, answer = "raised", self._unavailable("has failed", retryable=False)
            told = {"method": call.method, "error": error.error, "where": error.where}
            log.error("worker process raised", extra={**self._fields, **told})
        except ProcessLost as error:
            outcome, answer = error.loss, error
        self._series.called(outcome, time.monotonic() - began)
        return outcome, answer

    async def _started(self) -> WorkerProcess | None:
        """The process, which is started if there is none; None if it can't be."""
        if self._process is not None and self._process.has_ended:
            await self._lost("died", None)
        if self._process is not None:
            return self._process
        error, where = "", None
        try:
            self._process = await WorkerProcess.begun(self._worker)
            await self._process.make(self._worker)
        except OSError as failed:
            error = type(failed).__name__
        except CodeRaised as failed:
            error, where = failed.error, failed.where
        except ProcessLost as failed:
            error = failed.loss
        if not error:
            self._series.runs(is_running=True)
            return self._process
        told = {"error": error, "where": where, "exit": await self._end("start")}
        log.error("worker process can't start", extra={**self._fields, **told})
        self._rest()
        return None

    async def _lost(self, loss: str, method: str | None) -> None:
        told = {"reason": loss, "method": method, "exit": await self._end(loss)}
        log.error("worker process lost", extra={**self._fields, **told})
        # One call that the process doesn't survive costs the others a start, and no more.
        if self._has_lost:
            self._rest()
        self._has_lost = True

    def _rest(self) -> None:
        """Start no process for a while, and refuse what waits."""
        self._rests_until = time.monotonic() + next(self._rests)
        self._has_lost = True
        self._refuse_all()

    def _refuse_all(self) -> None:
        while (call := self._waiting.take()) is not None:
            self._settle(call, self._unavailable("has failed"))

    async def _end(self, reason: str) -> str:
        """End the process, if there is one; returns how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        self._series.runs(is_running=False)
        self._series.ended(reason)
        return await process.aclose()

    def _settle(self, call: WaitingCall, answer: Any) -> None:
        if not call.answer.done():
            call.answer.set_result(answer)


class Workers:
    """The workers of one application, by name."""

    def __init__(self, application_id: str, title: str, workers: Sequence[Worker], metrics: WorkerMetrics) -> None:
        self._calls: Mapping[str, WorkerCalls] = {
            worker.name: WorkerCalls(application_id, title, worker, metrics.of(application_id, worker.name))
            for worker in workers
        }

    async def call(self, name: str, user_id: str, method: str, arguments: Sequence[object], timeout_s: float) -> Any:
        """See Application.in_worker. Raises LookupError too."""
        if (calls := self._calls.get(name)) is None:
            raise LookupError(f"the application's 'workers' do not have {name!r}")
        return await calls.call(user_id, method, arguments, timeout_s)

    async def aclose(self) -> None:
        await asyncio.gather(*(calls.aclose() for calls in self._calls.values()))
