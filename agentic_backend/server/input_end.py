"""The end of a server with its standard input: for one that another process has started for itself."""

import os
import signal
import threading

_STDIN = 0


def end_with_input() -> None:
    """Send this process SIGTERM once its standard input ends, as it does when the process at its other end does."""
    threading.Thread(target=_wait_and_end, name="input-end", daemon=True).start()


def _wait_and_end() -> None:
    while os.read(_STDIN, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
