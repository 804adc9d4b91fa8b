"""The command `chat`: its arguments. It imports nothing of the server, which takes seconds."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

PURPOSE = "chat with an agent in the terminal, or through pipes: a line is a question"
_OF_SERVER = ("config", "data", "store", "catalog")


def main(arguments: Sequence[str]) -> int:
    """Chat, with the arguments that follow `chat`; return the exit status."""
    parser = argparse.ArgumentParser(prog="agentic-backend chat", description=PURPOSE.capitalize() + ".")
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="its id or name; without it the default one")
    parser.add_argument(
        "--url", help="a running server, such as http://127.0.0.1:8000; without it one is started for this chat"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="has the user's token; without it CHAT_TOKEN has, if set"
    )
    started = parser.add_argument_group("the server that is started", "They are those of `serve`.")
    started.add_argument("--config", help="the settings file")
    started.add_argument("--data", help="directory of the database")
    started.add_argument("--store", help="the database: sqlite:FILE or mongodb://HOST/DATABASE")
    started.add_argument("--catalog", help="the agents catalog")


def run(options: argparse.Namespace) -> int:
    """Chat with these options; return the exit status."""
    from agentic_backend.terminal.client import chat

    flags = {"host": "127.0.0.1", "port": "0", "internal-port": "null", "workers": "1", "log-level": "warning"}
    flags |= {name: getattr(options, name) for name in _OF_SERVER if getattr(options, name) is not None}
    serve = [sys.executable, "-m", "agentic_backend", "serve", "--until-input-ends"]
    serve += [f"--{name}={value}" for name, value in flags.items()]
    return chat(agent=options.agent, url=options.url, token_file=options.token_file, serve=serve)
