"""A process that has imported what the server imports, and forks for each command: most of a start is imports.

`python -m support.fork_server FD` reads requests from the socket FD. Each is a JSON object (`arguments`, `cwd`,
`environment`) with four descriptors: the command's stdin, stdout and stderr, and a pipe, on which the process writes a
line with the command's id, and one with its exit status, as `subprocess` has it. It ends when the socket is closed.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import sys
import time
from collections.abc import Mapping

_PROGRAM = "agentic_backend"
_MOST_BYTES = 1 << 17

# What `serve` imports with the settings as they are shipped, from the top.
_IMPORTED = ("command_line.commands", "app", "server.process", "mcp.mcp_runtime", "policy.hooks.module_supervisor")


def search_path(environment: Mapping[str, str]) -> list[str]:
    """The directories of PYTHONPATH."""
    return [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    for name in _IMPORTED:
        importlib.import_module(f"{_PROGRAM}.{name}")
    gc.collect()
    gc.freeze()
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                selector.unregister(key.fd)
                _tell_end(key.fd, *key.data)
                continue
            request, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
            if not request:
                return
            pid = os.fork()
            if pid == 0:
                _run(**json.loads(request), streams=descriptors[:3])
                return
            for stream in descriptors[:3]:
                os.close(stream)
            told = descriptors[3]
            _tell(told, pid)
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))


def _tell_end(process: int, pid: int, told: int) -> None:
    os.close(process)
    _tell(told, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(told)


def _tell(pipe: int, number: int) -> None:
    # A test that has been given up reads it no more; the others still need this process.
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, b"%d\n" % number)


def _run(arguments: list[str], cwd: str, environment: dict[str, str], streams: list[int]) -> None:
    """Be the command in this process, as `python -m agentic_backend` would, with nothing of the fork server open."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(cwd)
    inherited = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)
    # The first is the directory in which the fork server was started.
    sys.path[0] = cwd
    here = set(search_path(inherited))
    sys.path[1:] = search_path(environment) + [entry for entry in sys.path[1:] if entry not in here]
    sys.argv = [_PROGRAM, *arguments]
    runpy.run_module(_PROGRAM, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
