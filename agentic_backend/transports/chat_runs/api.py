"""The REST calls of chat runs: start one and stream it, decide on a tool call, resume.

A run's name is the client's own (`runId`) or, without one, its first exchange's id; it stays the same when the run is
resumed.
"""

from dataclasses import replace

from starlette.requests import Request

from agentic_backend.auth.user import User
from agentic_backend.errors import ApprovalNotFound, CheckpointMissing, SessionBusy
from agentic_backend.protocol.frames import Decision, HumanDecisions
from agentic_backend.protocol.messages import ExchangeStatus
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.turn import Turn
from agentic_backend.sessions.waiting.approvals import remaining
from agentic_backend.stores.records import ExchangeRecord
from agentic_backend.tracing.origin import current_origin
from agentic_backend.transports.camel_case import named_in_camel_case
from agentic_backend.transports.chat_runs.bodies import DecideToolCall, ResumeRun, StartRun
from agentic_backend.transports.chat_runs.events import DecidedRun, ResumedRun, RunEvent, RunRefused
from agentic_backend.transports.chat_runs.following import FollowedRun, RunFollower
from agentic_backend.transports.credentials import tokens_of
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import ASKING, RESUMING, Operation, Streamed
from agentic_backend.transports.sse import EventStream

_PATH = "/api/chat"


class ChatRunsApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._orchestrator = services.sessions.orchestrator
        self._runs = services.sessions.runs

    def operations(self) -> list[Operation]:
        return [
            Operation(
                "POST",
                _PATH,
                self.start_run,
                answer=Streamed("text/event-stream", RunEvent),
                errors=ASKING,
                error_form=RunRefused,
                refused_as="ask",
            ),
            Operation(
                "POST",
                f"{_PATH}/tool-approval",
                self.decide_tool_call,
                errors=(*ASKING, *RESUMING),
                error_form=RunRefused,
                refused_as="decision",
            ),
            Operation(
                "POST",
                f"{_PATH}/resume",
                self.resume_run,
                errors=(*ASKING, *RESUMING),
                error_form=RunRefused,
                refused_as="resume",
            ),
        ]

    async def start_run(self, request: Request, user: User, body: StartRun) -> EventStream:
        """Start a run and stream its events. A run of this `runId` that there is already is shown from its beginning.

        The run goes on if the client disconnects.
        """
        with self._door.kpi.calls.refusals("ask"), self._door.connections.stream(user.id) as place:
            exchange = await self._started(request, user, body)
            run = FollowedRun(body.run_id or exchange.exchange_id, exchange, body.correlation_id)
            return RunFollower(self._door, user).streamed(run, place)

    async def decide_tool_call(self, request: Request, user: User, body: DecideToolCall) -> DecidedRun:
        """Decide on a tool call that waits for a person, and wait for the run's end or its next pause.

        The run goes on if the client disconnects, or if it takes longer than a minute.
        """
        with self._door.kpi.calls.refusals("decision"):
            run = await self._decided(request, user, body)
        listed = await RunFollower(self._door, user).listed(run, request)
        return DecidedRun(events=listed.events, cut=listed.is_cut or None)

    async def resume_run(self, request: Request, user: User, body: ResumeRun) -> ResumedRun:
        """Resume an interrupted run, and wait for its end or its next pause; of any other run, tell how it stands.

        The run goes on if the client disconnects, or if it takes longer than a minute.
        """
        with self._door.kpi.calls.refusals("resume"):
            run = FollowedRun(body.run_id, await self._resumed(request, user, body.run_id))
        listed = await RunFollower(self._door, user).listed(run, request)
        return ResumedRun(run_id=body.run_id, status=listed.status, events=listed.events, cut=listed.is_cut or None)

    async def _started(self, request: Request, user: User, body: StartRun) -> ExchangeLog:
        if body.run_id is not None and await self._runs.is_exchange_id(user, body.run_id):
            return await self._newest(user, body.run_id)
        turn = Turn(
            parts=[TextPart(text=body.text)],
            session_id=body.conversation_id,
            agent_id=body.agent_id,
            chat_profile=body.chat_profile,
            client_exchange_id=body.run_id,
            runtime_context=body.runtime_context,
        )
        with named_in_camel_case():
            first = await self._orchestrator.ask(user, turn, tokens_of(request, user), current_origin().request_id)
        was_interrupted = first.final is not None and first.final.status is ExchangeStatus.INTERRUPTED
        return await self._newest(user, body.run_id) if body.run_id is not None and was_interrupted else first

    async def _newest(self, user: User, run_id: str) -> ExchangeLog:
        newest = await self._runs.newest(user, run_id)
        return await self._orchestrator.view(user, newest.id)

    async def _decided(self, request: Request, user: User, body: DecideToolCall) -> FollowedRun:
        waiting = await self._runs.newest(user, body.run_id)
        decisions = HumanDecisions(decisions=[_decision(waiting, body)])
        shown = await self._orchestrator.view(user, waiting.id)
        before = FollowedRun(body.run_id, shown, after_seq=shown.last_seq, known=shown.messages)
        tokens = tokens_of(request, user)
        with named_in_camel_case(inside="payload.decisions.0."):
            decided = await self._orchestrator.human_resume(user, None, waiting.id, decisions, tokens)
        return replace(before, exchange=decided)

    async def _resumed(self, request: Request, user: User, run_id: str) -> ExchangeLog:
        newest = await self._runs.newest(user, run_id)
        if newest.status is not ExchangeStatus.INTERRUPTED:
            return await self._orchestrator.view(user, newest.id)
        try:
            return await self._orchestrator.resume(
                user, newest.id, tokens_of(request, user), current_origin().request_id
            )
        except (SessionBusy, CheckpointMissing):
            # Another call may have resumed it first.
            later = await self._runs.newest(user, run_id)
            if later.id == newest.id:
                raise
            return await self._orchestrator.view(user, later.id)


def _decision(waiting: ExchangeRecord, body: DecideToolCall) -> Decision:
    """The decision on the arguments that the person was shown. Raises ApprovalNotFound if the call does not wait."""
    for request in remaining(waiting, ()).requests:
        if request.call_id == body.tool_call_id and request.args_sha256 is not None:
            return Decision(
                call_id=request.call_id, args_sha256=request.args_sha256, action=body.action, message=body.message
            )
    raise ApprovalNotFound
