"""The arguments of `agentic-backend eval`. It imports nothing of what runs evals, which takes seconds."""

import argparse
from pathlib import Path

_MOST_PARALLEL = 64


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="the questions and checks: docs/evals.md")
    command.add_argument("--parallel", type=_parallel, default=4, metavar="N", help="cases that run at once; 4")
    command.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    command.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit's XML")
    command.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="the results of a run before (--json): say what got better and worse; status 3 if anything got worse",
    )
    command.add_argument(
        "--url",
        help="a running server, with the token in the variable CHAT_TOKEN; without it the agents of the catalog are "
        "served within the command",
    )
    command.add_argument("--config", type=Path, help="the settings file")
    command.add_argument("--catalog", dest="catalog", help="the agents catalog")


def _parallel(text: str) -> int:
    number = int(text)
    if not 0 < number <= _MOST_PARALLEL:
        raise argparse.ArgumentTypeError(f"expected 1 to {_MOST_PARALLEL}")
    return number
