"""Runs a command that an application declares, on the store and the models of the settings."""

import argparse
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.disclosure.exception_detail import text_of, type_of
from agentic_backend.disclosure.known_secrets import secrets_in
from agentic_backend.errors import AgenticError
from agentic_backend.hosting.declared_commands import DeclaredCommand
from agentic_backend.hosting.hosted_application import HostedApplication
from agentic_backend.hosting.loading import LoadedApplication
from agentic_backend.hosting.offered_services import offered_services
from agentic_backend.kpi import Kpi
from agentic_backend.loop.event_loop import command_loop, is_cancelled, run_until_ended
from agentic_backend.policy.usage.budgets import Budgets
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.policy.usage.usage_ledger import UsageLedger
from agentic_backend.server.reload.configuration import Configuration
from agentic_backend.stores.opening import CannotOpenStore, open_store, sqlite_file
from agentic_backend.stores.private_files import private_directory
from agentic_backend.system_errors import reason_of

_DONE, _FAILED, _WRONG, _INTERRUPTED = 0, 1, 2, 130


def run_application_command(
    configuration: Configuration, models_of: Callable[[Configuration], ChatModels], options: argparse.Namespace
) -> int:
    """Run the command `word` of the options with their `arguments`; return the exit status: 0, 1 if it failed, 2 if
    there is no such command, 130 after Ctrl-C.
    """
    declared = {each.name: (loaded, each) for loaded in configuration.applications.loaded for each in loaded.commands}
    if options.word not in declared:
        known = (
            f"applications have {', '.join(declared)}" if declared else "the settings name no application that has any"
        )
        print(f"There is no command {options.word!r}; {known}, and --help lists the server's.", file=sys.stderr)
        return _WRONG
    application, command = declared[options.word]
    auth = configuration.settings.auth
    parser = parser_of(command, auth.developer.user if auth.mode == "developer" else None)
    try:
        values = vars(parser.parse_args(options.arguments))
    except SystemExit as ended:
        # So argparse ends after its help and after an error.
        return _WRONG if ended.code else _DONE
    file = sqlite_file(configuration.settings.store.url, configuration.settings.data.directory)
    try:
        if file is not None:
            # No server may have run yet.
            private_directory(file.parent)
        with command_loop() as loop:
            return run_until_ended(loop, _run(configuration, models_of(configuration), application, command, values))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        return _told(reason_of(error))
    except CannotOpenStore as error:
        return _told(str(error))


def parser_of(command: DeclaredCommand, developer: str | None) -> argparse.ArgumentParser:
    """What reads what the command is given; `developer`: see DeclaredCommand."""
    parser = argparse.ArgumentParser(
        prog=f"agentic-backend {command.name}",
        description=command.description,
        epilog="It takes --config, --data, --store, --catalog and --log-level too, as the server does.",
    )
    command.add_to(parser, developer)
    return parser


async def _run(
    configuration: Configuration,
    models: ChatModels,
    application: LoadedApplication,
    command: DeclaredCommand,
    values: dict[str, object],
) -> int:
    settings, kpi = configuration.settings, Kpi()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(aclosing(await open_store(settings, kpi.dependencies.store_operation)))
        budgets = Budgets(store, settings.budgets)
        ledger = await stack.enter_async_context(aclosing(UsageLedger(store, Prices(settings.prices), kpi, budgets)))
        hosted = await stack.enter_async_context(aclosing(HostedApplication(application, store, kpi)))
        said = configuration.agents.said_to_applications
        await hosted.start(offered_services(application, store, models, ledger, kpi.applications, said=said))
        if not hosted.is_serving:
            return _told(f"The application '{application.title}' does not start; see above.")
        try:
            await command.handler(**values)
        except AgenticError as error:
            return _told(error.content)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # The command is an author's code.
            if is_cancelled():
                raise
            secrets = [*secrets_in(settings.model_dump()), *configuration.agents.secrets]
            return _told(f"{type_of(error)}: {text_of(error, secrets)}")
    return _DONE


def _told(problem: str) -> int:
    print(f"The command failed: {problem}", file=sys.stderr)
    return _FAILED
