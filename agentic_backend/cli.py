"""The command line: `agentic-backend serve`, `chat`, `validate`, `schema`, `new-agent`, `eval` and others.

Each command imports what it needs when it runs, so that the help and the version need nothing of it.
"""

import argparse
import gc
import json
import sys
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from agentic_backend.evals.arguments import add_arguments as add_eval_arguments
from agentic_backend.new_agent.templates import TEMPLATES
from agentic_backend.terminal import command as chat

_LONGEST_S = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 if the server could not run, 2 if the configuration is wrong."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    if options.command == "chat":
        return chat.run(options)
    # What modules make stays. To look for garbage meanwhile takes a fifth of the time, and finds none.
    gc.disable()
    try:
        run = _imported(options.command)
    finally:
        gc.enable()
    return run(options)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    """What was typed. Of a command that is not the server's own, `command` is None; `word` is then its name, and
    `arguments` what it is given, beside options of the server's. Raises SystemExit as argparse does.
    """
    parser, own = _parser()
    if not arguments or arguments[0].startswith("-") or arguments[0] in own:
        return parser.parse_args(arguments)
    word, *rest = arguments
    options_of_server = argparse.ArgumentParser(prog=f"{parser.prog} {word}", add_help=False, allow_abbrev=False)
    _add_application_arguments(options_of_server)
    options = argparse.Namespace(command=None, word=word)
    _, options.arguments = options_of_server.parse_known_args(rest, options)
    return options


def _imported(command: str | None) -> Callable[[argparse.Namespace], int]:
    """What runs this command."""
    if command == "new-agent":
        from agentic_backend.new_agent.writing import new_agent

        return lambda options: new_agent(options.name, options.template, Path())
    if command == "new-application":
        from agentic_backend.new_agent.writing import new_application

        return lambda options: new_application(options.name, Path())
    if command == "schema":
        from agentic_backend.agents.catalog.catalog_schema import catalog_schema

        def print_schema(options: argparse.Namespace) -> int:
            print(json.dumps(catalog_schema(), indent=2, ensure_ascii=False))
            return 0

        return print_schema
    from agentic_backend.command_line.commands import run_command

    return run_command


def _parser() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """What reads the server's own commands, and their names."""
    parser = argparse.ArgumentParser(
        prog="agentic-backend",
        description="A real-time chat server for LangGraph agents.",
        epilog="The applications that the settings name have commands of their own.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('agentic-backend')}")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, purpose: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")

    _add_serve_arguments(command("serve", "start the server"))
    chat.add_arguments(command("chat", chat.PURPOSE))
    _add_validate_arguments(command("validate", "check settings and catalog, then exit"))
    command("schema", "print the JSON Schema of the agents catalog, by which editors complete and check it")
    _add_new_agent_arguments(
        command("new-agent", "write an agent into this folder: its module, its catalog entry, and a test that passes")
    )
    command(
        "new-application", "write an application into this folder: its module, its entry in the settings, and a test"
    ).add_argument("name", metavar="NAME", help="its id, such as house-words")
    add_eval_arguments(command("eval", "ask agents the questions of a file, and check what they do"))
    _add_migrate_arguments(
        command(
            "migrate",
            "copy everything from a SQLite file to a MongoDB or back, while no server runs on them; can be repeated",
        )
    )
    _add_explain_arguments(
        command(
            "explain",
            "tell one exchange's story from the store and, with --log, from the log; beside a running server too",
        )
    )
    _add_redelete_arguments(
        command(
            "redelete",
            "delete again in a restored database what was deleted after its backup, as a server does when it starts",
        )
    )
    return parser, commands.choices


def _add_serve_arguments(command: argparse.ArgumentParser) -> None:
    _add_settings_arguments(command)
    command.add_argument(
        "--reload",
        action="store_true",
        help="also reload the catalog and the agents' modules whenever one of their files is saved; for authors",
    )
    # For `chat`, whose server must not outlive it.
    command.add_argument("--until-input-ends", action="store_true", help=argparse.SUPPRESS)


def _add_validate_arguments(command: argparse.ArgumentParser) -> None:
    _add_settings_arguments(command)
    command.add_argument(
        "--build",
        action="store_true",
        help="also build every agent, its model and its MCP servers, as the server would; no model is called",
    )
    command.add_argument(
        "--deep",
        action="store_true",
        help="also connect to the store, Redis, the realm, every model, MCP server and HTTP API, and ask each "
        "application; a model that can't be looked up at its provider is called, which costs a few tokens",
    )
    command.add_argument(
        "--time-limit", dest="limit_s", type=_seconds, default=5.0, help="seconds for each connection of --deep; 5"
    )
    command.add_argument("--json", action="store_true", help="print the findings as one JSON object")


def _add_new_agent_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the agent's id, such as help-desk")
    command.add_argument("--template", choices=TEMPLATES, default=TEMPLATES[0], help="what it begins as; yaml")


def _add_migrate_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL",
        help="what is copied: sqlite:FILE or mongodb://HOST/DATABASE",
    )
    command.add_argument("--to", dest="target", required=True, metavar="URL", help="where to: the other kind")


def _add_application_arguments(command: argparse.ArgumentParser) -> None:
    _add_store_arguments(command)
    command.add_argument("--catalog", dest="catalog", help="the agents catalog")
    command.add_argument("--log-level", dest="log.level", help="debug, info, warning or error; warning")


def _add_explain_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("exchange", metavar="EXCHANGE", help="the exchange's id")
    command.add_argument("--log", type=Path, metavar="FILE", help="the server's log, as lines of JSON")
    command.add_argument("--content", action="store_true", help="also show what was said")
    _add_store_arguments(command)


def _add_redelete_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    command.add_argument(
        "--since",
        type=_time,
        metavar="TIME",
        help="look at deletions from this time on, such as 2026-01-31 or 2026-01-31T08:00Z; from where the database is",
    )
    _add_store_arguments(command)


def _add_settings_arguments(command: argparse.ArgumentParser) -> None:
    """The flags of a command that reads what the server reads."""
    command.add_argument("--host", dest="server.host", help="address to listen on")
    command.add_argument("--port", dest="server.port", help="port to listen on; 0 takes any free one")
    command.add_argument(
        "--internal-port", dest="server.internal_port", help="port of metrics and health; 0 switches them off"
    )
    _add_store_arguments(command)
    command.add_argument(
        "--broadcast", dest="broadcast.url", help="the Redis between servers on one database: redis://HOST/0"
    )
    command.add_argument(
        "--workers",
        dest="server.workers",
        help="processes that serve the port; auto: one for each core",
    )
    command.add_argument("--catalog", dest="catalog", help="the agents catalog")
    command.add_argument("--log-level", dest="log.level", help="debug, info, warning or error")
    command.add_argument(
        "--allow-remote-developer",
        dest="auth.developer.allow_remote",
        action="store_const",
        const="true",
        help="let everybody who can reach the server be anybody",
    )


def _add_store_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, help="the settings file")
    command.add_argument("--data", dest="data.directory", help="directory of the database")
    command.add_argument("--store", dest="store.url", help="the database: sqlite:FILE or mongodb://HOST/DATABASE")


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected more than 0 and at most {_LONGEST_S} seconds")
    return seconds
