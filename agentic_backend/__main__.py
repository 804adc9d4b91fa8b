"""The command line: `agentic-backend`, and `python -m agentic_backend`."""

import os
import signal
import sys


def main() -> int:
    """Run a command; return its exit status."""
    _open_missing_streams()
    if sys.argv[1:2] == ["serve"]:
        # Before the imports, which take seconds: a hangup kills no server that starts. It has read nothing yet.
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if sys.argv[1:2] == ["chat"]:
        from agentic_backend.terminal.command import main as chat

        return chat(sys.argv[2:])
    from agentic_backend.cli import main as run

    return run()


def _open_missing_streams() -> None:
    """Open streams that the caller has closed: else the next file or socket would be in their place."""
    for stream, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            # The lowest free number is taken, which is this one.
            setattr(sys, name, open(os.devnull, mode))
            os.set_inheritable(stream, True)


if __name__ == "__main__":
    sys.exit(main())
