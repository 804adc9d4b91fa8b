"""The program of a worker process: `python -I program.py DESCRIPTOR FOLDER…`.

DESCRIPTOR is a socket to the server, the FOLDERs are where modules are found. There are two processes. The worker runs
the application's code, is bounded, and stands back behind the server. The keeper imports nothing of it, waits for the
worker's end and for the server's, and leaves no process: whatever the worker has started is killed with it.

The server sends a frame that says what to make, and then one for each call; each is answered by one. An answer is
`{"answer": …}`, or `{"error": the type of the exception, "lines": its file, line and function, from the outside in}`.
"""

import contextlib
import ctypes
import importlib
import os
import resource
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MOST_LINES, _LONGEST_NAME = 20, 100


def main(descriptor: int, folders: list[str]) -> NoReturn:
    # What the worker leaves behind becomes the keeper's.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        try:
            _stand_back(keeper)
            sys.path[:] = folders
            os.set_inheritable(descriptor, False)
            _work(socket.socket(fileno=descriptor))
        finally:
            # Neither what an application has registered for the end, nor its threads, hold anything up.
            os._exit(1)
    _keep(worker, descriptor)


def _prctl(option: int, value: int) -> None:
    # Of Linux; others have no such call.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _keep(worker: int, descriptor: int) -> NoReturn:
    threading.Thread(target=_end_with_server, args=(worker, descriptor), daemon=True).start()
    # It is left unreaped, so that its number stays its own while it may be killed.
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    status = 0
    with contextlib.suppress(ChildProcessError):
        while True:
            _kill_children()
            pid, ended = os.wait()
            status = ended if pid == worker else status
    code = os.waitstatus_to_exitcode(status)
    # As shells tell of a signal.
    os._exit(code if code >= 0 else 128 - code)


def _end_with_server(worker: int, descriptor: int) -> None:
    """Wait until the server has closed its end of the socket, or is gone, and kill the worker."""
    hangup = select.poll()
    hangup.register(descriptor, 0)
    hangup.poll()
    os.kill(worker, signal.SIGKILL)


def _kill_children() -> None:
    children: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        # A thread may have ended meanwhile, and not every system has these files.
        with contextlib.suppress(OSError):
            children.update(map(int, file.read_text().split()))
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _stand_back(keeper: int) -> None:
    """Leave the processor to the server first, be ended before it where memory runs out, and end with the keeper."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    os.nice(10)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    # A crash leaves no file of the memory, in which texts of people are.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(server: socket.socket) -> None:
    from agentic_backend.worker_processes import frames

    target: Any = None
    # The end of the socket is to be the end of the worker, whatever it has started.
    os.register_at_fork(after_in_child=server.close)
    with server:
        while True:
            number, value = _received(server, frames)
            try:
                if target is None:
                    resource.setrlimit(resource.RLIMIT_AS, (value["memory_bytes"], value["memory_bytes"]))
                    module, _, name = value["class_path"].partition(":")
                    target = getattr(importlib.import_module(module), name)(**value["arguments"])
                    answer = None
                else:
                    answer = getattr(target, value[0])(*value[1])
                told = frames.packed({"answer": answer})
            except MemoryError:
                # What is left of it is not known.
                told = frames.packed({"error": "MemoryError", "lines": []})
            except BaseException as error:
                told = frames.packed(_told(error))
            for piece in told.numbered(number):
                server.sendall(piece)


def _told(error: BaseException) -> dict[str, object]:
    """What the server is told of an exception: never its text, which may quote what was given."""
    lines = [[frame.filename, frame.lineno, frame.name] for frame in traceback.extract_tb(error.__traceback__)]
    return {"error": type(error).__name__[:_LONGEST_NAME], "lines": lines[-_MOST_LINES:]}


def _received(server: socket.socket, frames: Any) -> tuple[int, Any]:
    number, told, count = frames.HEAD.unpack(_exactly(server, frames.HEAD.size))
    lengths = _exactly(server, frames.size_of_lengths(told, count))
    first, *pieces = [_exactly(server, length) for length in frames.lengths_in(told, lengths)]
    return number, frames.unpacked(first, pieces)


def _exactly(server: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    place = 0
    while place < size:
        read = server.recv_into(memoryview(data)[place:])
        if read == 0:
            # The server has gone.
            os._exit(0)
        place += read
    return bytes(data)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
