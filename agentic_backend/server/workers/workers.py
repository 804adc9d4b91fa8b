"""Workers: several processes that serve one port, each a separate instance.

The parent binds the port but serves nothing; it forks the workers before it has an event loop or a thread. It replaces
a worker that dies, with growing delays, and where a service manager watches the server, one whose event loop hangs. The
service manager is told that the server is ready once all workers are, and after a reload again once all have ended
theirs. The parent forwards stop signals and SIGHUP to the workers and ends after them; workers stop when the parent
ends for any reason. One more process serves their metrics and health at one port (see joint_listener); it ends with the
parent.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess

from agentic_backend.backoff import backoff
from agentic_backend.config.settings import Settings
from agentic_backend.relay.drain import LONGEST_S
from agentic_backend.server.process import Joint, address_of
from agentic_backend.server.process_end import PASSED_ON, STOP_SIGNALS
from agentic_backend.server.reload.hangups import Hangups
from agentic_backend.server.service_notify import Supervisor
from agentic_backend.server.workers.joint_listener import WorkerPorts, serve_jointly

log = logging.getLogger(__name__)

# The exit status of a worker that could not start.
CANNOT_START = 1
# A worker that has run for this long has started successfully.
_SETTLED_S, _FIRST_RETRY_S, _LONGEST_RETRY_S = 10.0, 0.5, 30.0
# A worker ends itself within LONGEST_S after its grace period; after this further delay the parent kills it.
_GONE_AFTER_S = 2.0
# The parent looks at its workers at least so often. Where it could not, it was suspended, and so were they.
_LOOK_S = 1.0
# What a handler writes to wake the parent; what other handlers write says no more.
_HANGUP = b"h"
_SIGNALS = (*STOP_SIGNALS, PASSED_ON)
_BLOCKED = (*_SIGNALS, signal.SIGHUP)

Work = Callable[[socket.socket, Joint | None, int, Supervisor], int]
"""Serves on the socket as the worker of this number until a signal, and tells the parent of it; returns the exit
status.
"""


#
# Each is a byte; the first says that it is ready.

READY, _ALIVE = b"r", b"!"


class WorkerPipe:
    """On it a worker tells its parent that it is ready, at first and after each reload, and that it is alive.

    It is the worker's Supervisor; the parent reads the other end.
    """

    def __init__(self, end: int, silent_at_most_s: float | None) -> None:
        # Written without waiting: a parent that does not read has its own troubles.
        os.set_blocking(end, False)
        self._end = end
        self._silent_at_most_s = silent_at_most_s
        self._is_ready = False

    @property
    def silent_at_most_s(self) -> float | None:
        return self._silent_at_most_s

    def ready(self) -> None:
        self._is_ready = True
        self._say(READY)

    def reloading(self) -> None:
        """The parent, which has passed the signal on, has said so."""

    def stopping(self) -> None:
        """The parent sees it end."""

    def alive(self) -> None:
        if self._is_ready:
            self._say(_ALIVE)

    def _say(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._end, what)


class _Worker:
    """The slot of one worker, and its current process."""

    def __init__(self, number: int) -> None:
        self.number = number
        """Counts from 0."""
        self.process: ForkProcess | None = None
        """None before the first start, and while a restart is delayed."""
        # When the process was started, and the earliest time of the next start; as `time.monotonic`.
        self.started_at = self.start_at = 0.0
        self.delays = backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        """The delays before the next starts."""
        self.pipe: int | None = None
        """The end of its pipe on which the process tells that it is alive; None if there is no process."""
        # Whether the process serves, and for how long it has been silent since then, in seconds.
        self.is_ready, self.silent_s = False, 0.0
        self.is_reloading = False
        """Whether it was told to reload and has not said that it is ready again."""


class Workers:
    def __init__(
        self,
        settings: Settings,
        bound: socket.socket,
        internal: socket.socket | None,
        work: Work,
        service: Supervisor,
        hangups: Hangups,
    ) -> None:
        """`bound` is the socket of the public listener, `internal` that of the joint internal one, if there is one.

        `hangups` are passed on to the workers; a later worker has their count from its start.
        """
        self._settings = settings
        self._bound = bound
        self._internal = internal
        self._ports = WorkerPorts(settings.server.workers)
        """Where the joint listener finds the workers."""
        # The process of the joint listener, and the earliest time of its next start.
        self._joint: ForkProcess | None = None
        self._joint_start_at, self._joint_delays = 0.0, backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        self._work = work
        self._service = service
        self._hangups = hangups
        # Whether all workers have been ready, and whether they reload; the service manager was told of both.
        self._is_ready = self._is_reloading = False
        self._looked_at = time.monotonic()
        """When the parent looked at its workers for the last time."""
        self._workers = [_Worker(number) for number in range(settings.server.workers)]
        self._has_settled = False
        """Whether any worker has started successfully. Until then, a worker that can't start stops all workers."""
        self._status = 0
        """The parent's exit status."""
        self._stop_by: float | None = None
        """When remaining workers are killed; None before the stop."""
        # A pipe without writes. Only the parent has `_parent` open, so a worker's read of `_alive` returns when the
        # parent ends.
        self._alive, self._parent = os.pipe()
        # A pipe through which signal handlers wake the parent.
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        """Run workers until SIGINT or SIGTERM; return the exit status.

        Call it only in the main thread of a process without other threads.
        """
        os.set_blocking(self._wake, False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: self._stop())
        self._hangups.told = self._wake_to_reload
        while self._stop_by is None or any(worker.process for worker in self._workers):
            now = time.monotonic()
            for worker in self._workers:
                self._look_at(worker, now)
            self._look_at_joint(now)
            self._looked_at = now
            self._service.alive()
            self._wait(now)
        if self._joint is not None:
            # It holds nothing that has to be saved.
            self._joint.kill()
            self._joint.join()
        return self._status

    def _wake_to_reload(self) -> None:
        # Many signals at once are one reload.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, _HANGUP)

    def _reload(self) -> None:
        """Each worker reloads by itself, in its own time."""
        self._pass_on(signal.SIGHUP)
        # Before all are ready, and after the end has begun, it is none.
        if self._is_ready and self._stop_by is None:
            self._is_reloading = True
            for worker in self._workers:
                worker.is_reloading = worker.is_ready
            self._service.reloading()

    def _look_at(self, worker: _Worker, now: float) -> None:
        if worker.process is None:
            if self._stop_by is None and now >= worker.start_at:
                self._start(worker, now)
            return
        if worker.process.exitcode is not None:
            self._ended(worker, worker.process.exitcode, now)
        elif self._stop_by is not None and now >= self._stop_by:
            worker.process.kill()
        elif now - worker.started_at >= _SETTLED_S:
            self._has_settled, worker.delays = True, backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        if self._stop_by is None and worker.is_ready and worker.process is not None:
            self._end_if_silent(worker.process, worker, min(now - self._looked_at, 2 * _LOOK_S))

    def _look_at_joint(self, now: float) -> None:
        if self._joint is not None and self._joint.exitcode is not None:
            log.warning("joint listener ended", extra={"status": self._joint.exitcode})
            self._joint.join()
            self._joint.close()
            self._joint, self._joint_start_at = None, now + next(self._joint_delays)
        if self._internal is not None and self._joint is None and now >= self._joint_start_at:
            self._joint = self._forked(self._serve_jointly, self._internal)

    def _end_if_silent(self, process: ForkProcess, worker: _Worker, elapsed_s: float) -> None:
        limit_s = self._service.silent_at_most_s
        worker.silent_s += elapsed_s
        if limit_s is not None and worker.silent_s >= limit_s:
            log.error("worker hangs and is killed", extra={"worker": worker.number})
            process.kill()
            worker.silent_s = 0.0

    def _start(self, worker: _Worker, now: float) -> None:
        worker.pipe, end = os.pipe()
        worker.started_at, worker.silent_s = now, 0.0
        try:
            worker.process = self._forked(self._serve, worker.number, end)
        finally:
            os.close(end)

    def _forked(self, work: Callable[..., None], *arguments: object) -> ForkProcess:
        """A new process that does this work."""
        process = get_context("fork").Process(target=_logged, args=(work, *arguments))
        # Block signals during the fork: a new process still has the parent's handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        return process

    def _ended(self, worker: _Worker, status: int, now: float) -> None:
        process, worker.process = worker.process, None
        pipe, worker.pipe = worker.pipe, None
        assert process is not None and pipe is not None
        os.close(pipe)
        worker.is_ready = worker.is_reloading = False
        self._ports.tell(worker.number, 0)
        process.join()
        process.close()
        if self._stop_by is not None:
            return
        if status == CANNOT_START and not self._has_settled:
            # The same reason, which the worker has logged, prevents the others from starting.
            self._status = CANNOT_START
            self._stop()
            return
        log.warning("worker ended", extra={"worker": worker.number, "status": status})
        worker.start_at = now + next(worker.delays)

    def _stop(self) -> None:
        if self._stop_by is None:
            # From now on no worker is started; workers that still run at this time are killed.
            self._service.stopping()
            self._stop_by = time.monotonic() + self._settings.server.grace_s + LONGEST_S + _GONE_AFTER_S
            # Workers close their own listeners. If the parent's copy of the socket stayed open, the kernel would
            # continue to accept connections, and no process would serve them.
            self._bound.close()
        # Forward every signal: the second one cuts the workers' grace period short.
        self._pass_on(PASSED_ON)
        # Wake `run`, which may be waiting.
        os.write(self._wake, b"!")

    def _pass_on(self, number: int) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.process.exitcode is None:
                assert worker.process.pid is not None
                os.kill(worker.process.pid, number)

    def _wait(self, now: float) -> None:
        """Wait until a worker ends or is heard, a signal arrives, or a start or kill is due; `_LOOK_S` at most."""
        times = [worker.start_at for worker in self._workers if worker.process is None and worker.start_at > now]
        times += [self._stop_by] if self._stop_by is not None else []
        processes = [self._joint, *(worker.process for worker in self._workers)]
        sentinels = [process.sentinel for process in processes if process is not None]
        pipes = {worker.pipe: worker for worker in self._workers if worker.pipe is not None}
        timeout_s = min([max(at - now, 0.01) for at in times] + [_LOOK_S])
        heard = connection.wait([self._woken, *sentinels, *pipes], timeout_s)
        for pipe, worker in pipes.items():
            if pipe in heard and (said := os.read(pipe, 100)):
                worker.is_ready, worker.silent_s = True, 0.0
                worker.is_reloading &= READY not in said
        if self._woken in heard and _HANGUP in os.read(self._woken, 100):
            self._reload()
        self._tell_readiness()

    def _tell_readiness(self) -> None:
        """Tell the service manager that all workers are ready for the first time, or again after a reload."""
        has_become = not self._is_ready and all(worker.is_ready for worker in self._workers)
        has_reloaded = self._is_reloading and not any(worker.is_reloading for worker in self._workers)
        if self._stop_by is None and (has_become or has_reloaded):
            self._is_ready, self._is_reloading = True, False
            self._service.ready()

    def _serve(self, number: int, end: int) -> None:
        """Run the worker, in its own process."""
        # Until the server handles signals, a signal ends the worker.
        self._leave_parent(signal.SIG_DFL, PASSED_ON)
        joint = None
        if self._internal is not None:
            joint = Joint(address_of(self._internal), partial(self._ports.tell, number))
            self._internal.close()
        parent = WorkerPipe(end, self._service.silent_at_most_s)
        raise SystemExit(self._work(self._bound, joint, number, parent))

    def _serve_jointly(self, internal: socket.socket) -> None:
        """Run the joint listener, in its own process. It ends with the parent only, after all workers."""
        self._bound.close()
        self._leave_parent(signal.SIG_IGN, signal.SIGKILL)
        serve_jointly(self._settings, internal, self._ports)

    def _leave_parent(self, handler: signal.Handlers, at_end: signal.Signals) -> None:
        """Replace the parent's signal handlers in this process, which gets the signal `at_end` when the parent ends."""
        for signum in _SIGNALS:
            signal.signal(signum, handler)
        # It has the parent's handler of SIGHUP too, which passes on nothing here.
        self._hangups.told = None
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)
        # Close the process's copy, or the pipe would stay open after the parent ends.
        os.close(self._parent)
        threading.Thread(target=_end_with_parent, args=(self._alive, at_end), daemon=True).start()


def _logged(work: Callable[..., None], *arguments: object) -> None:
    """Do the work of a new process. Python's own output of an error would be no line of the log, and quote anything."""
    try:
        work(*arguments)
    except Exception as error:
        log.critical("uncaught error", exc_info=error)
        raise SystemExit(CANNOT_START) from None


def _end_with_parent(alive: int, at_end: signal.Signals) -> None:
    """Tell this process when the parent ends."""
    os.read(alive, 1)
    os.kill(os.getpid(), at_end)
