"""RunningRun: one run from its beginning to its one end. It alone writes the run's record.

What it changes of a session counts with its end, in one write: where its server is killed in the middle, the session is
as it was before.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from agentic_backend.application import (
    AgenticError,
    Application,
    ApplicationUnavailable,
    LimitReached,
    ModelTimeout,
    RecordConflict,
    RecordWrite,
    Stored,
    User,
)
from agentic_backend.applications.retrieval.runs.profiles import ChatProfile, Steps
from agentic_backend.applications.retrieval.runs.records import MOST_TURNS, RUNS, ChatTurn, Run, run_view
from agentic_backend.applications.retrieval.runs.sessions import Sessions, StoredSession
from agentic_backend.applications.retrieval.runs.steps import Answered, Past, Pipeline, without_texts
from agentic_backend.applications.retrieval.runs.views import (
    RunEnded,
    RunEvent,
    RunFault,
    RunRequest,
    RunView,
    SessionCreated,
    SessionTerminated,
    Status,
    TurnAdded,
)

RUN_S = 240.0
"""How long a run may take."""
_END_S = 5.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run is to go by, and the session that it was asked for."""

    workflow_id: str
    chat_profile_id: str
    steps: Steps
    profile: ChatProfile
    session: StoredSession | None


class RunningRun:
    def __init__(
        self,
        application: Application,
        pipeline: Pipeline,
        sessions: Sessions,
        user: User,
        stored: Stored[Run],
        asked: RunRequest,
        choice: Choice,
    ) -> None:
        self.id = stored.key
        self.user = user
        self.changed = asyncio.Event()
        """Set with the next thing that happens; then another one takes its place."""
        self._application = application
        self._pipeline = pipeline
        self._sessions = sessions
        self._stored = stored
        self._asked = asked
        self._choice = choice
        self._session: StoredSession | None = None
        self._has_made_session = False

    @property
    def view(self) -> RunView:
        """As it stands."""
        return run_view(self.id, self._stored.value)

    async def run(self) -> RunView:
        """Do it. Raises what keeps it from an answer."""
        try:
            async with asyncio.timeout(RUN_S):
                return await self._answered()
        except AgenticError as error:
            await self._fail(error)
            raise
        except TimeoutError:
            raise await self._fail(ModelTimeout("The run took too long.")) from None
        except asyncio.CancelledError:
            # The server ends, and whoever waits for the run is told.
            raise await self._fail(ApplicationUnavailable()) from None
        except Exception:
            await self._fail(AgenticError())
            raise

    async def _answered(self) -> RunView:
        past = await self._past() if self._asked.mode == "chat" else None
        if past is None and self._asked.session_id is not None:
            if await self._sessions.remove(self.user, self._asked.session_id):
                await self._tell(SessionTerminated(session_id=self._asked.session_id))
        within = self._session.key if self._session is not None else self.id
        steps = self._choice.steps
        answered = await self._pipeline.answer(self.user, self._asked.query, steps, past, self._tell, within)
        return await self._end(answered)

    async def _past(self) -> Past:
        """What the session brings, which is made where there is none, and compacted where it is long."""
        choice, session = self._choice, self._choice.session
        if session is None or self._sessions.has_expired(session):
            expired = session.key if session is not None else None
            session = await self._sessions.add(self.user, choice.workflow_id, choice.chat_profile_id)
            self._session, self._has_made_session = session, True
            await self._tell(SessionCreated(session_id=session.key, replaces=expired), session_id=session.key)
        elif session.value.total_turns >= MOST_TURNS:
            raise LimitReached(f"A chat session has at most {MOST_TURNS} turns.")
        session, compacted = await self._sessions.compact(self.user, session, choice.profile)
        self._session = session
        if compacted is not None:
            await self._tell(compacted, history_compacted=True)
        turns = await self._sessions.turns(self.user, session)
        return Past(session.value, [each.value for each in turns], choice.profile)

    async def _end(self, answered: Answered) -> RunView:
        session, answer = self._session, without_texts(answered.answer)
        status: Status = "withheld" if answered.is_withheld else "completed"
        events: list[RunEvent] = []
        writes: list[RecordWrite] = []
        number = None
        if session is not None and not answered.is_withheld:
            number = session.value.total_turns + 1
            turn = ChatTurn(
                session_id=session.key,
                turn_number=number,
                query=answered.query,
                query_for_model=answered.for_model.query,
                answer_for_model=answered.for_model.answer,
                answer=answer,
                run_id=self.id,
                tokens=answered.tokens,
            )
            names = {"workflow_id": self._choice.workflow_id, "chat_profile_id": self._choice.chat_profile_id}
            writes += self._sessions.adding(self.user, session, turn, **names)
            events.append(TurnAdded(session_id=session.key, turn_number=number, tokens=turn.tokens))
        events.append(RunEnded(status=status, turn_number=number, answer=answer))
        ended = self._told(events, status=status, turn_number=number, answer=answer)
        runs = self._application.records_of(RUNS).of_user(self.user.id)
        try:
            await self._application.write([runs.changing(self._stored, ended), *writes])
        except RecordConflict:
            raise RecordConflict("Meanwhile another turn of the session has ended, or it was deleted.") from None
        self._wake()
        return run_view(self.id, ended, answered.answer)

    async def _fail(self, error: AgenticError) -> AgenticError:
        """Store why it has failed, as far as that can be done now."""
        fault = RunFault(code=error.code, content=error.content)
        events: list[RunEvent] = [RunEnded(status="failed", error=fault)]
        with suppress(AgenticError, TimeoutError):
            async with asyncio.timeout(_END_S):
                if (session := self._session) is not None:
                    if self._has_made_session:
                        # Nobody has been told of it, and it has no turn.
                        await self._sessions.remove(self.user, session.key)
                    if await self._sessions.find(self.user, session.key) is None:
                        events.insert(0, SessionTerminated(session_id=session.key))
                await self._store(self._told(events, status="failed", error=fault))
        self._wake()
        return error

    async def _tell(self, *events: RunEvent, **values: object) -> None:
        await self._store(self._told(events, **values))
        self._wake()

    def _told(self, events: Sequence[RunEvent], **values: object) -> Run:
        told = (*self._stored.value.events, *(each.model_dump_json() for each in events))
        return self._stored.value.model_copy(update={**values, "events": told})

    async def _store(self, value: Run) -> None:
        self._stored = await self._application.records_of(RUNS).of_user(self.user.id).change(self._stored, value)

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()
