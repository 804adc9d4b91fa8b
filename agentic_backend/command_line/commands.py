"""The commands that read what the server reads, or its store: `serve`, `validate`, `eval`, `explain`, `redelete`,
`migrate`, and those of applications.

What only one of them needs is imported when it runs: a server starts without it.
"""

import argparse
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.models.chat_models import ChatModels, ModelUnavailable, load_models
from agentic_backend.config.loading import FLAGS, default_settings_file, load_settings
from agentic_backend.config.secret_files import read_secret_files
from agentic_backend.config.settings import Settings
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.disclosure.redaction import redact
from agentic_backend.errors import StoreUnavailable
from agentic_backend.loop.event_loop import is_code_left
from agentic_backend.policy.hooks.module_supervisor import CannotStartModule
from agentic_backend.relay.zmq.peers import Peers
from agentic_backend.server.memory import collect_rarely
from agentic_backend.server.process import Joint, bind, run
from agentic_backend.server.process_end import end_with_input, leave_now
from agentic_backend.server.reload.configuration import Configuration, ConfigurationFiles
from agentic_backend.server.reload.hangups import Hangups
from agentic_backend.server.reload.reloads import Reloads
from agentic_backend.server.service_notify import ServiceNotify, Supervisor
from agentic_backend.server.workers.worker_directories import held_for_workers
from agentic_backend.server.workers.workers import CANNOT_START, Workers
from agentic_backend.stores.opening import CannotOpenStore
from agentic_backend.system_errors import reason_of
from agentic_backend.telemetry import StderrHandler, configure_logging, hold_records, is_holding_records, know_secrets

if TYPE_CHECKING:
    from agentic_backend.command_line.neighbours import Found

log = logging.getLogger(__name__)


def run_command(options: argparse.Namespace) -> int:
    """Run the command of these options; return its exit status as `cli.main` does."""
    # The settings say in which form; whatever is logged before waits for that.
    hold_records()
    if options.command == "migrate":
        from agentic_backend.command_line.migrate import migrate

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
        if options.command in ("explain", "redelete"):
            return _run_on_store(options)
        files = ConfigurationFiles(options.config, _overrides(options))
        settings = files.settings()
        level = settings.log.level if _tells_all(options) else "warning"
        output = _logging(level, settings)
        configuration = _read(files, settings)
        if options.command == "validate":
            return _validate(configuration, options)
        if options.command == "eval":
            from agentic_backend.evals.command import evaluate

            return evaluate(configuration, options)
        if options.command is None:
            return _run_application_command(configuration, options)
        return _serve(configuration, files, hangups, output, on_save=options.reload)
    except (ConfigError, ModelUnavailable) as error:
        return _refused(error)
    finally:
        if options.command == "serve":
            hangups.ignore()


def _tells_all(options: argparse.Namespace) -> bool:
    """Whether the log has what the settings say, instead of warnings."""
    return options.command == "serve" or (options.command is None and getattr(options, "log.level") is not None)


def _run_on_store(options: argparse.Namespace) -> int:
    """Run a command that needs the settings alone, and no agents."""
    settings = load_settings(options.config or default_settings_file(), _overrides(options))
    _logging("warning", settings)
    if options.command == "redelete":
        from agentic_backend.command_line.redelete import redelete

        return redelete(settings, options.since, dry_run=options.dry_run)
    from agentic_backend.command_line.explain import explain

    return explain(options.exchange, settings, options.log, content=options.content)


def _run_application_command(configuration: Configuration, options: argparse.Namespace) -> int:
    from agentic_backend.command_line.application_command import run_application_command

    status = run_application_command(configuration, _models_of, options)
    if is_code_left():
        leave_now(status)
    return status


def _read(files: ConfigurationFiles, settings: Settings) -> Configuration:
    """What the files say; logs the problems of the catalog and of the applications."""
    configuration = files.read(settings)
    know_secrets(configuration.agents.secrets)
    for problem in configuration.applications.problems:
        log.error("application problem", extra={"problem": str(problem)})
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
        from agentic_backend.command_line.neighbours import check_all

        models = _models_of(configuration)
        # What the log would say is said below, in fewer words.
        _logging("critical", configuration.settings, configuration.agents.secrets)
        status = max(status, 2 if models.problems else 0)
        found = check_all(configuration, models, options.limit_s)
    if options.json:
        # Those of an author's code may quote what it was given.
        secrets = [*secrets_in(configuration.settings.model_dump()), *configuration.agents.secrets]
        problems = [*configuration.agents.problems, *configuration.applications.problems]
        told = {
            "agents": [agent.settings.id for agent in configuration.agents.served()],
            "applications": [loaded.id for loaded in configuration.applications.loaded],
            "problems": [redact(str(problem), secrets) for problem in problems],
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
    settings, agents, applications = configuration.settings, configuration.agents, configuration.applications
    problems = [*agents.problems, *applications.problems]
    served = _counted(len(agents.served()), "agent")
    if applications.loaded:
        served += " and " + _counted(len(applications.loaded), "application")
    print(f"{served} can be served, {_counted(len(problems), 'problem')}")
    checked = (
        "Checked: the settings, the chat profiles, the policies, the catalog's entries, what applications declare, the "
        "import of each class_path."
    )
    if not build:
        left = (
            "" if deep else "; --deep, which connects to the store, Redis, the realm, the models, MCP servers and APIs"
        )
        print(f"{checked} Not checked: what --build does, which builds the agents, their models and MCP servers{left}.")
        return 2 if problems else 0
    from agentic_backend.command_line.trial_build import build_all

    # What is told of each agent below says more than warnings.
    _logging("error", settings, agents.secrets)
    models = _models_of(configuration)
    faults = bool(models.problems)
    for built in build_all(settings, agents, models):
        faults |= built.fault is not None
        print(built, flush=True)
    left = "" if deep else " Not checked: what --deep does, which also connects to the store, Redis and the realm."
    print(f"{checked} Built: the agents, their models (none was called), their MCP servers.{left}", flush=True)
    return 2 if problems or faults else 0


def _models_of(configuration: Configuration) -> ChatModels:
    """The models of the settings, the catalog's entries and the policies; logs what can't be built."""
    settings = configuration.settings
    models = load_models(
        settings.models,
        settings.openai_model,
        configuration.models,
        fast_streams=settings.fast_streams,
        embeddings=settings.embeddings,
    )
    for problem in models.problems:
        log.error("model problem", extra={"problem": problem})
    return models


def _serve(
    configuration: Configuration, files: ConfigurationFiles, hangups: Hangups, output: StderrHandler, *, on_save: bool
) -> int:
    settings, models = configuration.settings, _models_of(configuration)
    reloads = Reloads(files, configuration, models, hangups, on_save=on_save)
    # From here on it serves; all that its start has found is told.
    output.limits_floods = True
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
        return _cannot_start(reason_of(error))
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
        return _cannot_start(reason_of(error))
    except (CannotOpenStore, CannotStartModule, StoreUnavailable) as error:
        return _cannot_start(error)
    return 0


def _cannot_start(reason: object) -> int:
    log.critical("server can't start", extra={"reason": str(reason)})
    return CANNOT_START


def _overrides(options: argparse.Namespace) -> dict[str, object]:
    return {key: value for key, value in vars(options).items() if key in FLAGS and value is not None}


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
