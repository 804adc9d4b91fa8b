"""Follows one run: its events up to its end, its next pause, or the end of the client's time.

Whatever happens, `done` comes last, exactly once. A run belongs to its session: it goes on without followers.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import AgenticError
from agentic_backend.protocol.events import AwaitingHuman, ErrorInfo, Final
from agentic_backend.protocol.messages import ChatMessage, ExchangeStatus
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.relay.feed import Feed
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.telemetry.causes import because_of
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.chat_runs.events import (
    AgentSummary,
    RunDone,
    RunError,
    RunEvent,
    RunFailure,
    RunStatus,
    ToolApprovalRequested,
)
from agentic_backend.transports.chat_runs.renderer import RunRenderer
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.sse import EventStream, ServerSentEvent, followed, why_cut

log = logging.getLogger(__name__)

# How long an answer in JSON waits for the run, and the bytes of its events beside those that a client must have.
_WAIT_S, _LISTED_BYTES = 60, 1024 * 1024
_BLOCKED = "A guardrail objected; the run's text is what it answers instead."
_ENDS: dict[ExchangeStatus, RunStatus] = {ExchangeStatus.OK: "succeeded", ExchangeStatus.STOPPED: "canceled"}
_MUST_HAVE = ToolApprovalRequested | AgentSummary | RunError | RunDone


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """A run under the name that its client knows, and what the client has of its newest exchange."""

    run_id: str
    exchange: ExchangeLog
    correlation_id: str | None = None
    after_seq: int = 0
    known: Sequence[ChatMessage] = ()

    def done(self, status: RunStatus) -> RunDone:
        return RunDone(run_id=self.run_id, status=status, conversation_id=self.exchange.session_id)


class EventList:
    """The first events of a run that fit into an answer, and all those that a client must have."""

    def __init__(self) -> None:
        self.events: list[RunEvent] = []
        self.is_cut = False
        self._bytes = 0

    def add(self, event: RunEvent) -> None:
        if not isinstance(event, _MUST_HAVE):
            self._bytes += len(event.model_dump_json())
            self.is_cut |= self._bytes > _LISTED_BYTES
            if self.is_cut:
                return
        self.events.append(event)

    @property
    def status(self) -> RunStatus:
        last = self.events[-1]
        assert isinstance(last, RunDone), "`done` comes last"
        return last.status


@asynccontextmanager
async def _patience(request: Request) -> AsyncIterator[None]:
    """Raises TimeoutError in its block when the client has gone, or has waited long enough."""
    async with asyncio.timeout(_WAIT_S) as waiting:
        leaving = asyncio.create_task(_end_with_client(request, waiting))
        try:
            yield
        finally:
            leaving.cancel()
            await asyncio.wait([leaving])


async def _end_with_client(request: Request, waiting: asyncio.Timeout) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    waiting.reschedule(0)


class RunFollower:
    def __init__(self, door: DoorServices, user: User) -> None:
        self._door = door
        self._sessions = door.sessions.service
        self._user = user

    def streamed(self, run: FollowedRun, place: ExitStack) -> EventStream:
        """The run's events as they come, for as long as the user's token is valid. The stream takes over `place`."""
        feed = followed(self._door, self._user, run.exchange, place)
        return EventStream(self._sent(run, feed), place.pop_all())

    async def listed(self, run: FollowedRun, request: Request) -> EventList:
        """The run's events up to its end or its next pause, unless that takes too long or the client goes: then the
        run goes on.
        """
        listed = EventList()
        with ExitStack() as place:
            feed = followed(self._door, self._user, run.exchange, place, after_seq=run.after_seq)
            try:
                async with _patience(request):
                    async for events in self._events(run, feed):
                        for event in events:
                            listed.add(event)
            except TimeoutError:
                listed.add(run.done("running"))
        return listed

    async def _sent(self, run: FollowedRun, feed: Feed) -> AsyncGenerator[Sequence[ServerSentEvent], None]:
        async for events in self._events(run, feed):
            yield [ServerSentEvent(data=event.model_dump_json(), event=event.type) for event in events]

    async def _events(self, run: FollowedRun, feed: Feed) -> AsyncIterator[Sequence[RunEvent]]:
        """The run's events in lists of those that come at once."""
        renderer = RunRenderer(run.run_id, run.correlation_id, run.known)
        async for events in feed.batches():
            rendered: list[RunEvent] = []
            for event in events:
                rendered += renderer.render(event)
                if isinstance(event, Final):
                    yield rendered
                    yield await self._ending(run, event)
                    return
                # Of a run that is shown from its beginning, a person may have decided since.
                if isinstance(event, AwaitingHuman) and event.seq == run.exchange.last_seq:
                    yield [*rendered, *renderer.pause(event), run.done("awaiting_approval")]
                    return
            yield rendered
        if (error := why_cut(feed)) is not None:
            yield [RunError(error=RunFailure.of(ErrorInfo.of(error, current_origin().request_id)))]
        yield [run.done("running")]

    async def _ending(self, run: FollowedRun, final: Final) -> list[RunEvent]:
        trust = await self._trust(final.exchange_id)
        events: list[RunEvent] = [] if trust is None else [AgentSummary(run_id=run.run_id, trust=trust)]
        if (failure := await self._failure(final, trust)) is not None:
            events.append(RunError(error=failure))
        return [*events, run.done(_ENDS.get(final.status, "failed"))]

    async def _trust(self, exchange_id: str) -> TrustSummary | None:
        try:
            return await self._door.sessions.trust.of(self._user, exchange_id)
        except Exception as error:
            # The run has ended all the same: its session was deleted, the store is away, or the summary has a bug.
            log.warning("run without a trust summary", **because_of(error, exchange_id=exchange_id))
            return None

    async def _failure(self, final: Final, trust: TrustSummary | None) -> RunFailure | None:
        if final.error is not None:
            failure = RunFailure.of(final.error)
        elif final.status is ExchangeStatus.BLOCKED:
            failure = RunFailure(
                type="guardrail",
                code="blocked",
                message=_BLOCKED,
                retryable=False,
                request_id=await self._request_id(final.exchange_id),
            )
        else:
            return None
        if failure.type == "runtime" or trust is None:
            return failure
        blocked = next((one for one in reversed(trust.objections) if one.action == "blocked"), None)
        if blocked is None:
            return failure
        return failure.model_copy(update={"stage": blocked.stage, "module": blocked.module})

    async def _request_id(self, exchange_id: str) -> str:
        try:
            return (await self._sessions.exchange(self._user, exchange_id)).request_id
        except AgenticError:
            return ""
