"""What runs in worker processes of the tests: it works, hangs, dies, floods, and answers rubbish."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import time
from typing import Any

PATH = "support.worker_code"


class Counter:
    """Counts its calls, so that a test sees whether it is still the same."""

    def __init__(self, start: int = 0) -> None:
        self._count = start
        self._kept: list[object] = []

    def count(self) -> int:
        self._count += 1
        return self._count

    def echo(self, value: object) -> object:
        return value

    def pid(self) -> int:
        return os.getpid()

    def nap(self, seconds: float, value: object = None) -> object:
        time.sleep(seconds)
        return value

    def fail(self) -> None:
        raise ValueError("hunter2")

    def leave(self) -> None:
        sys.exit(3)

    def die(self, number: int = signal.SIGKILL) -> None:
        os.kill(os.getpid(), number)

    def fault(self) -> None:
        ctypes.string_at(0)

    def fill(self) -> None:
        self._kept = [bytearray(1 << 30)]

    def map_much(self) -> None:
        self._kept = [mmap.mmap(-1, 1 << 30)]

    def flood(self) -> int:
        for descriptor in (1, 2):
            for _ in range(64):
                os.write(descriptor, b"x" * 1024 * 1024)
        print("hunter2")
        return 64

    def fork(self) -> list[int]:
        """A child, one in a session of its own, and a program, all of which go on."""
        pids = []
        for is_alone in (False, True):
            if (pid := os.fork()) == 0:
                if is_alone:
                    os.setsid()
                time.sleep(3600)
                os._exit(0)
            pids.append(pid)
        program = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        self._kept.append(program)
        return [*pids, program.pid]

    def scribble(self, data: bytes) -> None:
        """Write to the server past the program."""
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, data)
            except OSError:
                continue

    def large(self, kind: str) -> Any:
        return {"text": "x" * 5_000_000, "bytes": b"x" * 33 * 1024 * 1024, "fits": b"x" * 31 * 1024 * 1024}[kind]

    def odd(self, kind: str) -> Any:
        return {"object": object(), "nan": float("nan"), "surrogate": "\ud800", "key": {1: 2}}[kind]

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def limits(self) -> dict[str, int]:
        with open("/proc/self/oom_score_adj") as score:
            return {"nice": os.nice(0), "oom": int(score.read())}

    def keeper(self) -> int:
        return os.getppid()

    def stop_keeper(self) -> int:
        os.kill(os.getppid(), signal.SIGSTOP)
        return os.getppid()


class NeverMade:
    def __init__(self) -> None:
        raise RuntimeError("hunter2")


class NeverReady:
    def __init__(self) -> None:
        time.sleep(3600)
