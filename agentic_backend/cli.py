"""The command line: `agentic-backend serve`, `chat`, `validate`, `schema`, `new-agent`, `eval` and others."""

import argparse
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog_schema import catalog_schema
from agentic_backend.agents.models import ChatModels, ModelUnavailable, load_models
from agentic_backend.config.loading import FLAGS, default_settings_file, load_settings
from agentic_backend.config.located_yaml import ConfigError
from agentic_backend.config.secret_files import read_secret_files
from agentic_backend.config.settings import Settings
from agentic_backend.errors import StoreUnavailable
from agentic_backend.evals.command import add_arguments as add_eval_arguments
from agentic_backend.evals.command import evaluate
from agentic_backend.event_loop import is_code_left
from agentic_backend.explain import explain
from agentic_backend.known_secrets import secrets_in
from agentic_backend.migrate import migrate
from agentic_backend.neighbours import Found, check_all
from agentic_backend.new_agent.templates import TEMPLATES
from agentic_backend.new_agent.writing import new_agent
from agentic_backend.policy.module_supervisor import CannotStartModule
from agentic_backend.relay.peers import Peers
from agentic_backend.server.configuration import Configuration, ConfigurationFiles
from agentic_backend.server.garbage import collect_rarely
from agentic_backend.server.hangups import Hangups
from agentic_backend.server.input_end import end_with_input
from agentic_backend.server.process import Joint, bind, run
from agentic_backend.server.process_end import leave_now
from agentic_backend.server.reloads import Reloads
from agentic_backend.server.service_notify import ServiceNotify, Supervisor
from agentic_backend.server.worker_directories import held_for_workers
from agentic_backend.server.workers import CANNOT_START, Workers
from agentic_backend.stores.opening import CannotOpenStore
from agentic_backend.telemetry import StderrHandler, configure_logging, hold_records, is_holding_records, know_secrets
from agentic_backend.terminal import command as chat
from agentic_backend.trial_build import build_all

log = logging.getLogger(__name__)

_LONGEST_S = 600


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 if the server could not run, 2 if the configuration is wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command in ("chat", "schema", "new-agent"):
        return _without_settings(options)
    # The settings say in which form; whatever is logged before waits for that.
    hold_records()
    if options.command == "migrate":
        configure_logging("info", secrets=secrets_in({"from": options.source, "to": options.target}))
        return migrate(options.source, options.target)
    hangups = Hangups()
    if options.command == "serve":
        hangups.hear()
        if options.until_input_ends:
            end_with_input()
    # Authors' modules are in the working directory, which is not on the path of a console script.
    sys.path.insert(0, os.getcwd())
    try:
        read_secret_files(os.environ)
        if options.command == "explain":
            settings = load_settings(options.config or default_settings_file(), _overrides(options))
            _logging("warning", settings)
            return explain(options.exchange, settings, options.log, content=options.content)
        files = ConfigurationFiles(options.config, _overrides(options))
        settings = files.settings()
        level = settings.log.level if options.command == "serve" else "warning"
        output = _logging(level, settings)
        configuration = _read(files, settings)
        if options.command == "validate":
            return _validate(configuration, options)
        if options.command == "eval":
            return evaluate(configuration, options)
        return _serve(configuration, files, hangups, output, on_save=options.reload)
    except (ConfigError, ModelUnavailable) as error:
        return _refused(error)
    finally:
        if options.command == "serve":
            hangups.ignore()


def _without_settings(options: argparse.Namespace) -> int:
    """Run a command that needs none; return its exit status."""
    if options.command == "chat":
        return chat.run(options)
    if options.command == "new-agent":
        return new_agent(options.name, options.template, Path())
    print(json.dumps(catalog_schema(), indent=2, ensure_ascii=False))
    return 0


def _read(files: ConfigurationFiles, settings: Settings) -> Configuration:
    """What the files say; logs the problems of the catalog."""
    configuration = files.read(settings)
    know_secrets(configuration.agents.secrets)
    for problem in configuration.agents.problems:
        log.error("catalog problem", extra={"problem": str(problem)})
    return configuration


def _logging(level: str, settings: Settings, more: Collection[str] = ()) -> StderrHandler:
    """`more` are secrets beside those of the settings."""
    secrets = [*secrets_in(settings.model_dump()), *more]
    return configure_logging(level, settings.log.packages, settings.log.format, secrets)


def _refused(error: ConfigError | ModelUnavailable) -> int:
    """Log what is wrong with the configuration; return the exit status."""
    if is_holding_records():
        # The settings are what is wrong.
        configure_logging("info")
    if isinstance(error, ConfigError):
        for problem in error.problems:
            log.error("configuration problem", extra={"problem": str(problem)})
    else:
        log.error("model problem", extra={"problem": str(error)})
    return 2


def _validate(configuration: Configuration, options: argparse.Namespace) -> int:
    """Say what was checked and found; return the exit status: 2 for the configuration, 1 for a neighbour."""
    with contextlib.redirect_stdout(None) if options.json else contextlib.nullcontext():
        status = _validate_files(configuration, build=options.build, deep=options.deep)
    found: Sequence[Found] = ()
    if options.deep:
        models = _models_of(configuration)
        # What the log would say is said below, in fewer words.
        _logging("critical", configuration.settings, configuration.agents.secrets)
        status = max(status, 2 if models.problems else 0)
        found = check_all(configuration, models, options.limit_s)
    if options.json:
        told = {
            "agents": [agent.settings.id for agent in configuration.agents.served()],
            "problems": [str(problem) for problem in configuration.agents.problems],
            "neighbours": [each.as_json() for each in found],
        }
        print(json.dumps(told, indent=2))
    else:
        for each in found:
            print(each)
    status = status or int(any(each.outcome == "fault" for each in found))
    if is_code_left():
        leave_now(status)
    return status


def _validate_files(configuration: Configuration, *, build: bool, deep: bool) -> int:
    """Check all but the neighbours; return the exit status."""
    settings, agents = configuration.settings, configuration.agents
    served, problems = len(agents.served()), len(agents.problems)
    print(f"{_counted(served, 'agent')} can be served, {_counted(problems, 'problem')}")
    checked = (
        "Checked: the settings, the chat profiles, the policies, the catalog's entries, the import of each class_path."
    )
    if not build:
        left = (
            "" if deep else "; --deep, which connects to the store, Redis, the realm, the models, MCP servers and APIs"
        )
        print(f"{checked} Not checked: what --build does, which builds the agents, their models and MCP servers{left}.")
        return 2 if agents.problems else 0
    # What is told of each agent below says more than warnings.
    _logging("error", settings, agents.secrets)
    models = _models_of(configuration)
    faults = bool(models.problems)
    for built in build_all(settings, agents, models):
        faults |= built.fault is not None
        print(built, flush=True)
    left = "" if deep else " Not checked: what --deep does, which also connects to the store, Redis and the realm."
    print(f"{checked} Built: the agents, their models (none was called), their MCP servers.{left}", flush=True)
    return 2 if agents.problems or faults else 0


def _models_of(configuration: Configuration) -> ChatModels:
    """The models of the settings, the catalog's entries and the policies; logs what can't be built."""
    settings = configuration.settings
    models = load_models(
        settings.models, settings.openai_model, configuration.models, fast_streams=settings.fast_streams
    )
    for problem in models.problems:
        log.error("model problem", extra={"problem": problem})
    return models


def _serve(
    configuration: Configuration, files: ConfigurationFiles, hangups: Hangups, output: StderrHandler, *, on_save: bool
) -> int:
    settings, models = configuration.settings, _models_of(configuration)
    reloads = Reloads(files, configuration, models, hangups, on_save=on_save)
    collect_rarely()
    service = ServiceNotify.take(os.environ)
    if settings.server.workers == 1:
        return _run(settings, configuration.agents, models, output, service, reloads)

    try:
        with ExitStack() as stack:
            sockets_directory = stack.enter_context(held_for_workers(settings))

            def work(bound: socket.socket, joint: Joint | None, number: int, parent: Supervisor) -> int:
                peers = None
                if sockets_directory is not None:
                    peers = Peers(sockets_directory, number, settings.server.workers)
                return _run(settings, configuration.agents, models, output, parent, reloads, bound, joint, peers)

            bound = stack.enter_context(bind(settings.server.host, settings.server.port))
            port = settings.server.internal_listener_port
            internal = None if port is None else stack.enter_context(bind(settings.server.internal_host, port))
            return Workers(settings, bound, internal, work, service, hangups).run()
    except OSError as error:
        return _cannot_start(f"{error.filename}: {error.strerror}")
    except CannotOpenStore as error:
        return _cannot_start(error)


def _run(
    settings: Settings,
    agents: AgentManager,
    models: ChatModels,
    output: StderrHandler,
    supervisor: Supervisor,
    reloads: Reloads,
    bound: socket.socket | None = None,
    joint: Joint | None = None,
    peers: Peers | None = None,
) -> int:
    """Serve in this process; return the exit status."""
    reloads.supervisor = supervisor
    reloads.catch_up()
    try:
        with output.in_background():
            run(settings, agents, models, supervisor, reloads, bound, joint, peers)
    except OSError as error:
        return _cannot_start(f"{error.filename}: {error.strerror}")
    except (CannotOpenStore, CannotStartModule, StoreUnavailable) as error:
        return _cannot_start(error)
    return 0


def _cannot_start(reason: object) -> int:
    log.critical("server can't start", extra={"reason": str(reason)})
    return CANNOT_START


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentic-backend", description="A real-time chat server for LangGraph agents."
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
    return parser


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
        help="also connect to the store, Redis, the realm, every model, MCP server and HTTP API; a model that "
        "can't be looked up at its provider is called, which costs a few tokens",
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


def _add_explain_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("exchange", metavar="EXCHANGE", help="the exchange's id")
    command.add_argument("--log", type=Path, metavar="FILE", help="the server's log, as lines of JSON")
    command.add_argument("--content", action="store_true", help="also show what was said")
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
    command.add_argument("--relay", dest="relay.url", help="an older name of --broadcast")
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


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected more than 0 and at most {_LONGEST_S} seconds")
    return seconds


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    return {key: value for key, value in vars(options).items() if key in FLAGS and value is not None}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
