"""A service as a program that listens on loopback and prints its port; tests start, pause and kill it."""

import os
import signal
import subprocess

_END_S = 30


class Program:
    """Listens on the same port at each start."""

    def __init__(self, *command: str) -> None:
        """`command` runs with the port as its last argument, 0 for any, and prints its actual port."""
        self.port = 0
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; return when it listens."""
        command = [*self._command, str(self.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._command[0]} ended with {self._process.wait(_END_S)}"
        self.port = int(line)

    def pause(self) -> None:
        """Suspend it: it stops answering, and its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        # One thread takes the signal and stops the others, which may answer until then.
        os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """Kill it, as a power failure would; it may have crashed already."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate(timeout=_END_S)
