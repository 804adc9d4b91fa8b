"""Runs: begins them, each in a task of its own, which goes on whoever watches, and tells of them on any instance."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from agentic_backend.application import (
    AgenticError,
    ApplicationUnavailable,
    LimitReached,
    NotFound,
    Overloaded,
    OwnRecords,
    RateLimited,
    RecordConflict,
    Stored,
    User,
)
from agentic_backend.applications.retrieval.runs.profiles import DEFAULT, DEFAULT_WORKFLOW, Profiles
from agentic_backend.applications.retrieval.runs.records import RUNS, Run, run_view
from agentic_backend.applications.retrieval.runs.running_run import RUN_S, Choice, RunningRun
from agentic_backend.applications.retrieval.runs.sessions import Sessions
from agentic_backend.applications.retrieval.runs.steps import Pipeline
from agentic_backend.applications.retrieval.runs.views import (
    EVENTS,
    RunDetails,
    RunEnded,
    RunEvent,
    RunFault,
    RunRequest,
    RunView,
)

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

log = logging.getLogger(__name__)

_LOST = timedelta(seconds=RUN_S + 60)
"""A run of which nothing was heard for so long has ended with its server."""
_MOST_RUNNING, _MOST_OF_USER = 200, 4
_POLL_S, _POLL_HERE_S = 0.5, 5.0
_CLOSING_S = 6.0
_LOST_FAULT = RunFault(code=ApplicationUnavailable.code, content=ApplicationUnavailable.default)
_TRIES, _MADE_ROOM_FOR = 5, 20


class Runs:
    def __init__(self, application: "Retrieval", profiles: Profiles, sessions: Sessions) -> None:
        self._application = application
        self._profiles = profiles
        self._sessions = sessions
        self._pipeline = Pipeline(application)
        self._whose: dict[str, str] = {}
        """Whose each run is that goes here, by its id."""
        self._running: dict[str, RunningRun] = {}
        self._tasks: set[asyncio.Task[RunView]] = set()

    async def run(self, user: User, asked: RunRequest) -> RunView:
        """Begin a run, and wait for its end if that is asked for.

        Raises BadFrame for a profile that there is not, NotFound for a session, RateLimited, Overloaded, and what keeps
        the run from an answer.
        """
        if sum(owner == user.id for owner in self._whose.values()) >= _MOST_OF_USER:
            raise RateLimited("Too many runs at once; wait until one has ended.")
        if len(self._whose) >= _MOST_RUNNING:
            raise Overloaded
        run_id = uuid4().hex
        self._whose[run_id] = user.id
        try:
            running = await self._begun(user, asked, run_id)
        except BaseException:
            del self._whose[run_id]
            raise
        task = asyncio.create_task(running.run())
        self._running[run_id] = running
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._has_ended(running, task))
        # Whoever asks may go away; the run goes on.
        return await asyncio.shield(task) if asked.wait else running.view

    async def get(self, user: User, run_id: str) -> RunDetails:
        """A run of the user's, and what has happened in it so far. Raises NotFound."""
        value = (await self._stored(user, run_id)).value
        return RunDetails(run=run_view(run_id, value), events=[EVENTS.validate_json(each) for each in value.events])

    async def follow(self, user: User, run_id: str) -> AsyncIterator[RunEvent]:
        """What has happened in a run of the user's, and then what happens, until it ends. Raises NotFound."""
        told = 0
        while True:
            running = self._running.get(run_id)
            changed = running.changed if running is not None else None
            value = (await self._stored(user, run_id)).value
            for each in value.events[told:]:
                yield EVENTS.validate_json(each)
            if value.status != "running":
                if value.error == _LOST_FAULT:
                    yield RunEnded(status=value.status, error=value.error)
                return
            told = len(value.events)
            with suppress(TimeoutError):
                # Of a run elsewhere nothing wakes it; of one that goes here, something may not, as that has ended.
                async with asyncio.timeout(_POLL_S if changed is None else _POLL_HERE_S):
                    await (changed or asyncio.Event()).wait()

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_S)

    async def _begun(self, user: User, asked: RunRequest, run_id: str) -> RunningRun:
        session = None
        if asked.mode == "chat" and asked.session_id is not None:
            session = await self._sessions.find(user, asked.session_id)
            if session is None:
                raise NotFound("There is no such chat session.")
        # What the request does not name is as in the session.
        before = session.value if session is not None else None
        workflow_id = asked.workflow_id or (before.workflow_id if before else DEFAULT_WORKFLOW)
        profile_id = asked.chat_profile_id or (before.chat_profile_id if before else DEFAULT)
        steps, profile = self._profiles.workflow(workflow_id), self._profiles.chat(profile_id)
        choice = Choice(workflow_id, profile_id, steps, profile, session)
        in_session = session.key if session is not None and not self._sessions.has_expired(session) else None
        run = Run(mode=asked.mode, began_at=datetime.now(UTC), session_id=in_session)
        stored = await self._added(user, run, run_id)
        return RunningRun(self._application, self._pipeline, self._sessions, user, stored, asked, choice)

    async def _added(self, user: User, run: Run, run_id: str) -> Stored[Run]:
        """Store a new one; where the user has as many as they may have, the oldest go."""
        own = self._of(user)
        for _ in range(_TRIES):
            try:
                return await own.add(run, run_id)
            except LimitReached:
                page = await own.find("by_age", limit=_MADE_ROOM_FOR)
                with suppress(RecordConflict):
                    await self._application.write([own.removing(each) for each in page.records])
        raise LimitReached("You have too many runs.")

    async def _stored(self, user: User, run_id: str) -> Stored[Run]:
        """One of the user's; one that ended with its server has failed. Raises NotFound."""
        found = await self._of(user).get(run_id)
        if found is None:
            raise NotFound("There is no such run.")
        if found.value.status == "running" and datetime.now(UTC) - found.updated_at > _LOST:
            return replace(found, value=found.value.model_copy(update={"status": "failed", "error": _LOST_FAULT}))
        return found

    def _has_ended(self, running: RunningRun, task: asyncio.Task[RunView]) -> None:
        self._tasks.discard(task)
        self._running.pop(running.id, None)
        self._whose.pop(running.id, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, AgenticError):
            log.error("run failed", extra={"error": type(error).__name__})

    def _of(self, user: User) -> OwnRecords[Run]:
        return self._application.records_of(RUNS).of_user(user.id)
