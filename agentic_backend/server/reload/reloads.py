"""Reloads: reads the catalog, the chat profiles and the log level again while the server runs.

At most one reload runs, and one waits, however many are asked for. All is read and checked in a thread; then the event
loop swaps it in one step, or keeps what it has. Exchanges that run keep the agents that they began with.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentic_backend.agents.code.authors_modules import Stamp, stamp_of
from agentic_backend.agents.models.chat_models import ChatModels, ModelUnavailable
from agentic_backend.app import App
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.errors import AgentUnavailable
from agentic_backend.hosting.loading import Applications
from agentic_backend.server.reload.configuration import CatalogRefused, Configuration, ConfigurationFiles, Reread
from agentic_backend.server.reload.hangups import Hangups
from agentic_backend.server.service_notify import ServiceNotify, Supervisor
from agentic_backend.system_errors import summary_of
from agentic_backend.telemetry import know_secrets, set_log_level

log = logging.getLogger(__name__)

_MOST_TOLD = 50


# What is saved is served within a second, its imports included.
_EVERY_S = 0.5
# The times of files come from a clock that turns less often than the others.
_CLOCK_NS = 20_000_000


class SavedFiles:
    """Tells when one of some files is saved, in place or by a rename, by looking at them twice a second."""

    def __init__(self, files: Callable[[], Iterable[Path]], saved: Callable[[], None], read_at_ns: int) -> None:
        """`files` gives the files to look at, at each look; `saved` is called in a thread of its own.

        `read_at_ns` is when they were read, in nanoseconds since 1970: what was saved since counts too.
        """
        self._files = files
        self._saved = saved
        self._read_at_ns = read_at_ns
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the files while the context is open."""
        # A daemon: a file system that hangs doesn't keep the process from ending.
        threading.Thread(target=self._watch, name="saved-files", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        stamps = self._look()
        if any(_changed_ns(file) > self._read_at_ns - _CLOCK_NS for file in stamps):
            self._saved()
        while not self._over.wait(_EVERY_S):
            before, stamps = stamps, self._look()
            if before != stamps and not self._over.is_set():
                self._saved()

    def _look(self) -> dict[Path, Stamp]:
        return {file: stamp_of(file) for file in self._files()}


def _changed_ns(file: Path) -> int:
    """When the file was saved, in place or by a rename; 0 if it is not there."""
    try:
        return os.stat(file).st_ctime_ns
    except (OSError, ValueError):
        return 0


class Reloads:
    """Made before the server starts, by the command that starts it."""

    def __init__(
        self,
        files: ConfigurationFiles,
        configuration: Configuration,
        models: ChatModels,
        hangups: Hangups,
        *,
        on_save: bool = False,
    ) -> None:
        """`configuration` and `models` are what the server starts with; `on_save`: reload when a file is saved too."""
        self._files = files
        self._started_with = configuration
        """What was read at the start. Its agents become those of each reload."""
        self._models = models
        self._hangups = hangups
        self._on_save = on_save
        self._followed = 0
        """The signals that the latest reading has followed."""
        self.supervisor: Supervisor = ServiceNotify()
        """Told of each reload; set by the process that serves."""

    @property
    def applications(self) -> Applications:
        """Those that were loaded at the start."""
        return self._started_with.applications

    def catch_up(self) -> None:
        """Follow the signals that came before the server starts: in a worker, also those since its parent has read."""
        if self._hangups.count > self._followed:
            self._followed = self._hangups.count
            try:
                self._take(self._files.reread(self._started_with, self._models))
            except Exception as error:
                # Whatever it is, the server starts with what its parent has read.
                self._refuse(error)

    async def run(self, app: App) -> None:
        """Reload whenever it is told to, until it is cancelled."""
        loop, wanted = asyncio.get_running_loop(), asyncio.Event()

        def want() -> None:
            # The loop may be closed already.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wanted.set)

        self._hangups.told = want
        if self._hangups.count > self._followed:
            wanted.set()
        with self._saved_files_watched(want):
            while True:
                await wanted.wait()
                wanted.clear()
                self._followed = self._hangups.count
                if app.relay.draining:
                    log.info("catalog not reloaded, as the server ends")
                else:
                    self.supervisor.reloading()
                    await self._reload(app)
                    self.supervisor.ready()

    async def _reload(self, app: App) -> None:
        reloads = app.kpi.reloads
        outdated: Sequence[str] = ()
        try:
            outdated = self._take(await self._read())
        except Exception as error:
            self._refuse(error)
            reloads.ended("failed")
        else:
            reloads.ended("ok")
            reloads.loaded()
            # Their modules may have changed too.
            await app.database_agents.refresh_if_possible(anew=True)
        if self._on_save:
            # The pages of an author read the agents again; after a SIGHUP, many would read at once.
            app.relay.list_subscriptions.missed()
        await app.factory.teardown_agents(outdated)

    async def _read(self) -> Reread:
        """Read in a thread. Raises what `reread` raises, and AgentUnavailable if it does not end."""
        return await self._started_with.agents.imports.run(
            lambda: self._files.reread(self._started_with, self._models), lambda reread: reread.aside.put_back()
        )

    def _take(self, reread: Reread) -> Sequence[str]:
        """Serve what was read from now on; return the ids of the agents that are no more what they were."""
        settings = reread.configuration.settings
        # Before anything of it is built, and could be quoted.
        know_secrets(reread.configuration.agents.secrets)
        self._models.add(reread.models)
        agents = self._started_with.agents
        change = agents.become(reread.configuration.agents)
        agents.reload_ended()
        reread.aside.forget()
        set_log_level(settings.log.level, self._started_with.settings.log.packages)
        needs_restart = self._started_with.needing_a_restart(reread.configuration)
        told = {"added": change.added, "changed": change.changed, "removed": change.removed}
        log.info(
            "catalog reloaded",
            extra={
                **{name: list(ids[:_MOST_TOLD]) for name, ids in told.items()},
                "log_level": settings.log.level,
                "needs_restart": needs_restart[:_MOST_TOLD],
            },
        )
        changes = {**told, "needs a restart:": needs_restart}
        self._say("; ".join(f"{name} {', '.join(ids)}" for name, ids in changes.items() if ids), heading="Reloaded: ")
        return [*change.changed, *change.removed]

    def _refuse(self, error: Exception) -> None:
        is_told = isinstance(error, ConfigError | CatalogRefused | ModelUnavailable | AgentUnavailable)
        problems = _problems_of(error) if is_told else [summary_of(error)]
        log.error(
            "catalog not reloaded", exc_info=None if is_told else error, extra={"problems": problems[:_MOST_TOLD]}
        )
        self._started_with.agents.reload_ended(problems[:_MOST_TOLD])
        self._say("\n".join(problems), heading="Not reloaded; what was there goes on:\n")

    def _say(self, text: str, heading: str) -> None:
        """Tell an author who saves files, at the console."""
        if self._on_save and text:
            # The terminal may be gone.
            with contextlib.suppress(OSError):
                print(f"{heading}{text}\n", end="", flush=True)

    def _saved_files_watched(self, want: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        if not self._on_save:
            return contextlib.nullcontext()
        return SavedFiles(lambda: self._files.files(self._started_with), want, self._files.read_at_ns).watched()


def _problems_of(error: Exception) -> list[str]:
    return [str(problem) for problem in getattr(error, "problems", [])] or [str(error)]
