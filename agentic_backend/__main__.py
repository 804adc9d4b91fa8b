"""The command line: `agentic-backend`, and `python -m agentic_backend`."""

import signal
import sys


def main() -> int:
    """Run a command; return its exit status."""
    if sys.argv[1:2] == ["serve"]:
        # Before the imports, which take seconds: a hangup kills no server that starts. It has read nothing yet.
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    from agentic_backend.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
