"""ToolCalls: the records of an exchange's tool calls, made of its messages.

Owned by the exchange's outbox, which writes a record in one step with the message that it comes from. A record's id is
the number of its call in the exchange, so that whoever goes on with the exchange replaces the same records.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import orjson

from agentic_backend.agents.tools.result_marks import BACKGROUND, FORBIDDEN
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.stores.protocol.trail import Allowance, ToolCallRecord
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, MessageDraft, MessageRecord
from agentic_backend.streaming.content.conversion import bounded
from agentic_backend.text.normal_form import clean

LONGEST = 65_536
"""Characters of a call's arguments, as JSON, and of its result."""

# Calls within tools are never announced, so nothing takes their notes out.
_ALLOWED_AT_MOST = 1_000

State = Literal["success", "error", "rejected", "forbidden"]


class ToolCalls:
    def __init__(
        self,
        exchange: ExchangeRecord,
        stored: Sequence[MessageRecord],
        now: Callable[[], datetime],
        decisions: Sequence[HumanDecision] = (),
        instance_id: str | None = None,
    ) -> None:
        """`stored` are the exchange's messages so far; `decisions` are those of people beside the exchange's own.

        `instance_id` is the instance that runs the exchange, and what its tools start in the background.
        """
        self._exchange = exchange
        self._instance_id = instance_id
        self._now = now
        self._decisions = {
            one.call_id: one for one in (*decisions, *exchange.decisions) if one.call_id and one.action != "answer"
        }
        """The last decision on each call, by call id."""
        self._count = 0
        """How many calls the exchange has had."""
        self._waiting: dict[str, ToolCallRecord] = {}
        """The records of the calls without a result, by call id."""
        self._allowed: dict[str, Allowance] = {}
        """Why calls were allowed to run that have started and have no result yet, by call id."""
        for message in stored:
            list(self._add(message, message.timestamp))

    def add(self, messages: Sequence[MessageDraft]) -> list[ToolCallRecord]:
        """The records of what `messages` tell, which follow those that were added before; a later one replaces."""
        at = self._now()
        return [record for message in messages for record in self._add(message, at)]

    def note_allowed(self, call_id: str, allowance: Allowance) -> None:
        """Note why a call was allowed to run, for its record. Callable in any thread."""
        if len(self._allowed) < _ALLOWED_AT_MOST:
            self._allowed[clean(call_id)] = allowance

    def _add(self, message: MessageDraft, at: datetime) -> Iterator[ToolCallRecord]:
        if message.channel not in (Channel.TOOL_CALL, Channel.TOOL_RESULT):
            return
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                self._count += 1
                record = self._waiting[part.call_id] = self._pending(self._count, part, message, at)
                yield record
            elif isinstance(part, ToolResultPart) and (begun := self._waiting.pop(part.call_id, None)) is not None:
                yield self._settled(begun, part, message, at)

    def _pending(self, number: int, part: ToolCallPart, message: MessageDraft, at: datetime) -> ToolCallRecord:
        exchange = self._exchange
        return ToolCallRecord(
            id=f"{exchange.id}.{number}",
            at=at,
            session_id=exchange.session_id,
            exchange_id=exchange.id,
            user_id=exchange.user_id,
            agent_id=str(message.metadata.extras.get("agent") or exchange.agent_id),
            call_id=part.call_id,
            name=part.name,
            args=bounded_args(part.args),
            state="pending",
        )

    def _settled(
        self, begun: ToolCallRecord, part: ToolResultPart, message: MessageDraft, at: datetime
    ) -> ToolCallRecord:
        begun = replace(begun, allowance=self._allowed.pop(part.call_id, None))
        decision = self._decisions.get(part.call_id)
        approved_by = decision.by if decision is not None and decision.action in ("approve", "edit") else None
        if BACKGROUND in message.metadata.extras and part.ok:
            # It goes on running; whoever runs it replaces this record in the end.
            return replace(begun, approved_by=approved_by, runs_on=self._instance_id)
        state, text = _state(part, message, decision), bounded(part.content, LONGEST)
        is_success = state == "success"
        return replace(
            begun,
            state=state,
            result=text if is_success else None,
            error=None if is_success else text,
            approved_by=approved_by,
            completed_at=at,
            duration_ms=part.latency_ms,
        )


def tool_calls_of(start: ExchangeStart, now: Callable[[], datetime], instance_id: str) -> ToolCalls | None:
    """The records of a run's exchange on this instance; None for a query, which stores nothing."""
    if start.session is None:
        return None
    resume_point = start.resume_point
    decisions = resume_point.decisions if resume_point is not None else None
    return ToolCalls(start.record, start.stored, now, decisions or (), instance_id)


def _state(part: ToolResultPart, message: MessageDraft, decision: HumanDecision | None) -> State:
    if message.metadata.extras.get(FORBIDDEN):
        return "forbidden"
    if decision is not None and decision.action in ("reject", "expire"):
        return "rejected"
    return "error" if part.ok is False else "success"


def bounded_args(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a record keeps them: at most LONGEST characters of JSON."""
    encoded = orjson.dumps(args, option=orjson.OPT_NON_STR_KEYS)
    return args if len(encoded) <= LONGEST else {"cut": bounded(encoded.decode(), LONGEST)}
