"""Workers: several processes that serve one port, each an instance of its own.

The parent binds the port and serves nothing itself; it is forked before it has an event loop or a thread. A worker that
dies is replaced, after a while if it dies often. The parent passes on what it is told, and ends when its workers have
ended; they end with it, however it does.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess

from agentic_backend.process_end import PASSED_ON, STOP_SIGNALS
from agentic_backend.sessions.departure import LONGEST_S
from agentic_backend.settings import Settings

log = logging.getLogger(__name__)

CANNOT_START = 1
_SETTLED_S, _RETRY_FIRST_S, _RETRY_AT_MOST_S = 10.0, 0.5, 30.0
# A worker ends by itself, within LONGEST_S after its grace period; one that is not gone so much later is killed.
_GONE_AFTER_S = 2.0
_SIGNALS = (*STOP_SIGNALS, PASSED_ON)

Work = Callable[[Settings, socket.socket], int]
"""Serves on the socket until a signal comes; the exit status."""


class _Worker:
    """The place of one worker, and the process that has it at the moment."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: ForkProcess | None = None
        self.started_at = self.start_at = 0.0
        self.retry_s = _RETRY_FIRST_S


class Workers:
    def __init__(self, settings: Settings, bound: socket.socket, work: Work) -> None:
        self._settings = settings
        self._bound = bound
        self._work = work
        self._workers = [_Worker(number) for number in range(settings.server.workers)]
        self._has_settled = False
        self._status = 0
        self._stop_by: float | None = None
        self._alive, self._parent = os.pipe()
        """A worker's end of it reads nothing until the parent is gone."""
        self._woken, self._wake = os.pipe()

    def run(self) -> int:
        """Until SIGINT or SIGTERM; the exit status. Only for the main thread of a process that has no other."""
        os.set_blocking(self._wake, False)
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: self._stop())
        while self._stop_by is None or any(worker.process for worker in self._workers):
            now = time.monotonic()
            for worker in self._workers:
                self._look_at(worker, now)
            self._wait(now)
        return self._status

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
            self._has_settled, worker.retry_s = True, _RETRY_FIRST_S

    def _start(self, worker: _Worker, now: float) -> None:
        worker.process = get_context("fork").Process(target=self._serve, args=(worker.number,))
        worker.started_at = now
        # One that comes while the process is forked would be answered by the worker, with the parent's means.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            worker.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _ended(self, worker: _Worker, status: int, now: float) -> None:
        process, worker.process = worker.process, None
        assert process is not None
        process.join()
        process.close()
        if self._stop_by is not None:
            return
        if status == CANNOT_START and not self._has_settled:
            # What keeps it from starting, which it has said, keeps the others too.
            self._status = CANNOT_START
            self._stop()
            return
        log.warning("a worker has ended", extra={"worker": worker.number, "status": status})
        worker.start_at = now + worker.retry_s
        worker.retry_s = min(worker.retry_s * 2, _RETRY_AT_MOST_S)

    def _stop(self) -> None:
        if self._stop_by is None:
            self._stop_by = time.monotonic() + self._settings.server.grace_s + LONGEST_S + _GONE_AFTER_S
            # Else connections would wait in it for somebody to take them.
            self._bound.close()
        for worker in self._workers:
            if worker.process is not None and worker.process.exitcode is None:
                assert worker.process.pid is not None
                os.kill(worker.process.pid, PASSED_ON)
        os.write(self._wake, b"!")

    def _wait(self, now: float) -> None:
        """Until a worker ends, a signal comes, or it is time for something; at most a second."""
        times = [worker.start_at for worker in self._workers if worker.process is None and worker.start_at > now]
        times += [self._stop_by] if self._stop_by is not None else []
        sentinels = [worker.process.sentinel for worker in self._workers if worker.process is not None]
        timeout_s = min([max(at - now, 0.01) for at in times] + [1.0])
        if self._woken in connection.wait([self._woken, *sentinels], timeout_s):
            os.read(self._woken, 100)

    def _serve(self, number: int) -> None:
        """What a worker does, in its process."""
        for signum in _SIGNALS:
            # Until the server listens to them.
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(self._parent)
        threading.Thread(target=_end_with_parent, args=(self._alive,), daemon=True).start()
        raise SystemExit(self._work(_settings_of(self._settings, number), self._bound))


def _settings_of(settings: Settings, number: int) -> Settings:
    """The settings of a worker: its internal listener has a port of its own, or any free one."""
    port = settings.server.internal_listener_port
    if not port:
        return settings
    server = settings.server.model_copy(update={"internal_port": port + number})
    return settings.model_copy(update={"server": server})


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os.kill(os.getpid(), PASSED_ON)
