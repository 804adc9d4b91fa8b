"""The command `agentic-backend eval`."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

from agentic_backend.agents.models.chat_models import ChatModels, load_models
from agentic_backend.client import Chat, ChatError
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem
from agentic_backend.errors import StoreUnavailable
from agentic_backend.evals.comparison import Comparison
from agentic_backend.evals.eval_file import Evals, read_evals
from agentic_backend.evals.judge import Judge
from agentic_backend.evals.junit import junit_of
from agentic_backend.evals.progress import Progress
from agentic_backend.evals.report import comparison_lines, lines_of
from agentic_backend.evals.results import CaseResult, Results, read_results
from agentic_backend.evals.runner import EvalRunner
from agentic_backend.evals.target import own_server, running_server
from agentic_backend.loop.event_loop import command_loop, is_code_left, run_until_ended
from agentic_backend.policy.hooks.module_supervisor import CannotStartModule
from agentic_backend.server.process_end import leave_now
from agentic_backend.server.reload.configuration import Configuration
from agentic_backend.stores.opening import CannotOpenStore
from agentic_backend.telemetry import set_log_level

PASSED, FAILED, WORSE, INTERRUPTED = 0, 1, 3, 130


def evaluate(configuration: Configuration, options: argparse.Namespace) -> int:
    """Run the evals; return the exit status: 0, 1 if something has not passed or the agents can't be reached, 3 if
    something got worse. Raises ConfigError and ModelUnavailable.
    """
    evals = read_evals(options.file)
    before = read_results(options.compare) if options.compare is not None else None
    models = _models_of(configuration, evals)
    _check_names(configuration, evals, models, is_elsewhere=options.url is not None)
    _check_writable(options.json, options.junit)
    # What the log would say of an exchange, the report says in fewer words.
    set_log_level("critical", ())
    progress = Progress(sys.stderr, sum(case.repeat for case in evals.cases))
    ended: list[CaseResult] = []

    def note(result: CaseResult) -> None:
        ended.append(result)
        progress.ended(result)

    def results_of(cases: Sequence[CaseResult]) -> Results:
        took_s = round(time.monotonic() - began, 3)
        return Results(file=str(options.file), began_at=began_at, took_s=took_s, cases=list(cases))

    def tell_of_interrupt() -> None:
        progress.interrupted()
        # No file: one that lacks cases would be compared with as if it were whole.
        print(*lines_of(results_of(ended)), sep="\n", flush=True)

    def leave_at_once() -> None:
        tell_of_interrupt()
        leave_now(INTERRUPTED)

    target = (
        own_server(configuration.settings, configuration.agents, models)
        if options.url is None
        else running_server(options.url)
    )
    began_at, began = datetime.now(UTC), time.monotonic()
    try:
        cases = _run(target, evals, models, progress, note, options.parallel, leave_at_once)
    except (ChatError, OSError, CannotOpenStore, CannotStartModule, StoreUnavailable) as error:
        print(f"The evals could not be run: {error}", file=sys.stderr)
        return _left(FAILED)
    except KeyboardInterrupt:
        # It ends anyway, and a further one would cut the table.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        tell_of_interrupt()
        return _left(INTERRUPTED)
    return _left(_report(results_of(cases), before, options))


def _run(
    target: AbstractAsyncContextManager[Chat],
    evals: Evals,
    models: ChatModels,
    progress: Progress,
    note: Callable[[CaseResult], None],
    parallel: int,
    again: Callable[[], object],
) -> list[CaseResult]:
    """Raises KeyboardInterrupt after all has been closed, and what the target raises; `again`: see run_until_ended."""

    async def run() -> list[CaseResult]:
        async with target as chat:
            progress.begin()
            try:
                return await EvalRunner(chat, Judge(models), parallel, note).run(evals.cases)
            finally:
                progress.clear()

    with command_loop() as loop:
        return run_until_ended(loop, run(), again)


def _report(results: Results, before: Results | None, options: argparse.Namespace) -> int:
    """Print and write the results; return the exit status."""
    print(*lines_of(results), sep="\n")
    comparison = None
    if before is not None:
        comparison = Comparison.of(before, results)
        print(*comparison_lines(comparison), sep="\n")
    sys.stdout.flush()
    written = True
    if options.json is not None:
        written &= _write(options.json, results.model_dump_json(indent=2).encode() + b"\n")
    if options.junit is not None:
        written &= _write(options.junit, junit_of(results))
    if comparison is not None and comparison.is_worse:
        return WORSE
    return PASSED if written and results.count("passed") == len(results.cases) else FAILED


def _write(path: Path, content: bytes) -> bool:
    try:
        path.write_bytes(content)
    except OSError as error:
        print(f"{path} can't be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def _models_of(configuration: Configuration, evals: Evals) -> ChatModels:
    """The models of the settings, of the catalog's entries, and of the judges."""
    settings = configuration.settings
    also = configuration.models | evals.provider_models
    return load_models(settings.models, settings.openai_model, also, fast_streams=settings.fast_streams)


def _check_names(configuration: Configuration, evals: Evals, models: ChatModels, *, is_elsewhere: bool) -> None:
    """Raises ConfigError if a case names an agent or a model that is not there."""
    agents = None if is_elsewhere else configuration.agents.known_ids
    missing = models.missing(evals.provider_models)
    known = {*configuration.settings.models, *(evals.provider_models - missing)}
    problems: Sequence[ConfigProblem] = list(evals.unknown(agents, known))
    if problems:
        raise ConfigError(problems)


def _check_writable(*files: Path | None) -> None:
    """Raises ConfigError if a file surely can't be written at the end."""
    wrong = [file for file in files if file is not None and not _may_be_written(file)]
    if wrong:
        raise ConfigError([ConfigProblem(str(file), None, None, "", "can't be written") for file in wrong])


def _may_be_written(file: Path) -> bool:
    return not file.is_dir() and os.access(file if file.exists() else file.parent, os.W_OK)


def _left(status: int) -> int:
    """`status`; ends the process with it if code of an agent still blocks a thread, for which Python would wait."""
    if is_code_left():
        leave_now(status)
    return status
