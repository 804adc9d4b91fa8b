"""Outbox: stores a graph's drafts, then shows them in the exchange's log.

The graph's task adds drafts without waiting; the exchange's own task writes them. So cancelling the graph never
interrupts a write. A complete message is stored before it is shown; deltas are never stored. A batch that could not be
stored comes first in the next write, so an outage loses no text.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from agentic_backend.exchange.lifecycle import STOPPED, Lifecycle
from agentic_backend.exchange.write.kept_activities import KeptActivities
from agentic_backend.exchange.write.text_gate import TextGate
from agentic_backend.exchange.write.tool_calls import ToolCalls
from agentic_backend.exchange.write.writer import ExchangeWriter
from agentic_backend.protocol.events import Activity, Stream
from agentic_backend.protocol.parts import ToolCallPart, ToolResultPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.stores.base import Checkpoint, ExchangeEnd
from agentic_backend.stores.protocol.trail import Allowance, TrailRecord
from agentic_backend.stores.records import MessageDraft, MessageRecord
from agentic_backend.streaming.transcode.drafts import ActivityDraft, CompleteDraft, Draft, TextDraft

# How long records of the trail wait for a message to be stored with, in seconds: alone they cost a write of their own.
_TRAIL_WAITS_S = 0.25
# How long modules may look at each text of an exchange that a person has stopped, and of one during a shutdown.
_REVIEW_AFTER_STOP_S, _REVIEW_WHILE_PROCESS_GOES_S = 1.0, 0.3


class Outbox:
    def __init__(
        self,
        writer: ExchangeWriter,
        log: ExchangeLog,
        lifecycle: Lifecycle,
        checkpoint_at: Callable[[ToolCallPart | ToolResultPart], Awaitable[Checkpoint | None]],
        stored: Sequence[MessageRecord] = (),
        tool_calls: ToolCalls | None = None,
        priced: Callable[[CompleteDraft], CompleteDraft] = lambda draft: draft,
        gate: TextGate | None = None,
        activities: KeptActivities | None = None,
    ) -> None:
        """`stored` are the exchange's messages so far, `tool_calls` their records; None keeps none.

        `priced` adds to a message what it has cost. `gate` is what texts pass before they are stored; None lets all
        pass. `activities` makes records of the activities that are kept; None keeps none.

        `checkpoint_at` takes the checkpoint that is stored in one batch with a tool call or its result.
        """
        self.writer = writer
        self.log = log
        """The log that shows clients stored messages and new text."""
        self.stored = list(stored)
        """The exchange's stored messages."""
        self._lifecycle = lifecycle
        """Decides whether drafts are accepted; its `wakeup` is set when a draft waits."""
        self._checkpoint_at = checkpoint_at
        self._tool_calls = tool_calls
        self._activities = activities
        self._priced = priced
        self.gate = gate
        self._waiting: deque[Draft] = deque()
        """The drafts that are not shown yet, in order; the first is a complete message."""
        self._passed = 0
        """How many of them, from the first on, have passed the gate."""
        self._trail: list[TrailRecord] = []
        """The records beside the messages that are not stored yet, in order."""
        self._trail_is_due = False
        """Whether they have waited long enough for a message."""
        self._until_due: asyncio.TimerHandle | None = None

    def accept(self, drafts: Sequence[Draft]) -> None:
        """Show text and activities at once, unless a complete message waits before them; the rest waits for `write`.

        Drafts that come while the exchange ends are dropped.
        """
        if not self._lifecycle.is_open:
            return
        for draft in drafts:
            if self.gate is not None and isinstance(draft, TextDraft) and self.gate.hides_text:
                continue
            if self._waiting or isinstance(draft, CompleteDraft):
                self._add(draft)
                self._lifecycle.wakeup.set()
            else:
                if isinstance(draft, ActivityDraft):
                    self.record(self._kept(draft, self.log.next_place()["seq"]))
                self._show(draft)

    def accept_last(self, last: Sequence[CompleteDraft]) -> None:
        """Add the last messages of an exchange that ends; they wait for `write`."""
        for draft in last:
            self._add(draft)

    def _add(self, draft: Draft) -> None:
        self._waiting.append(self._priced(draft) if isinstance(draft, CompleteDraft) else draft)
        if self._tool_calls is not None and isinstance(draft, CompleteDraft):
            self._trail += self._tool_calls.add([draft.message])
        if isinstance(draft, ActivityDraft):
            self._trail += self._kept(draft, self.seq_after_all)

    def _kept(self, activity: ActivityDraft, seq: int) -> list[TrailRecord]:
        """The record of an activity that comes after all messages so far, if it is kept."""
        if self._activities is None:
            return []
        after_rank = (self.stored[-1].rank if self.stored else -1) + len(self.unwritten)
        record = self._activities.record_of(activity, seq, after_rank)
        return [] if record is None else [record]

    def record(self, records: Sequence[TrailRecord]) -> None:
        """Store the records in one step with the next messages, or alone if none come soon."""
        self._trail.extend(records)
        if self._trail and self._until_due is None:
            self._until_due = asyncio.get_running_loop().call_later(_TRAIL_WAITS_S, self._let_trail_be_due)

    def note_allowed(self, call_id: str, allowance: Allowance) -> None:
        """Note why a call of a tool was allowed to run, for its record. Callable in any thread."""
        if self._tool_calls is not None:
            self._tool_calls.note_allowed(call_id, allowance)

    def _let_trail_be_due(self) -> None:
        self._until_due, self._trail_is_due = None, True
        self._lifecycle.wakeup.set()

    @property
    def unwritten_trail(self) -> list[TrailRecord]:
        """The records that wait for `write`."""
        return list(self._trail)

    @property
    def unwritten(self) -> list[MessageDraft]:
        """The messages that wait for `write`."""
        return [draft.message for draft in _complete(self._waiting)]

    @property
    def seq_after_all(self) -> int:
        """The seq of the last event once all waiting drafts are shown."""
        return self.log.last_seq + len(self._waiting)

    async def write_all(self) -> None:
        """`write`, and store the records that wait for a message too."""
        self._trail_is_due = bool(self._trail)
        await self.write()

    async def pass_gate(self) -> None:
        """Let the gate look at the waiting drafts that it has not seen.

        A stop and a shutdown leave little time for it: what it looks at then, it looks at again. A stop drops texts
        that nobody has seen.
        """
        while self.gate is not None and self._passed < len(self._waiting):
            draft = self._waiting[self._passed]
            if self._lifecycle.cancelled is STOPPED and self.gate.drops(draft):
                del self._waiting[self._passed]
                continue
            before = list(self._waiting)[: self._passed]
            rank = (self.stored[-1].rank + 1 if self.stored else 0) + len(_complete(before))
            passed = await self._reviewed(self.gate, draft, rank)
            if passed is not None:
                self._waiting[self._passed] = passed
                self._passed += 1

    async def _reviewed(self, gate: TextGate, draft: Draft, rank: int) -> Draft | None:
        """The draft once `gate` has looked at it; None if a stop or a shutdown has cut that short."""
        trail: list[TrailRecord] = []
        within_s = self._last_review_s
        if within_s is not None or not gate.looks_at(draft):
            passed: Draft | None = await gate.passed(draft, rank, within_s, trail)
        else:
            passed = await self._lifecycle.unless_hurried(gate.passed(draft, rank, None, trail))
        if passed is not None:
            self._trail += trail
        return passed

    @property
    def _last_review_s(self) -> float | None:
        """The most that modules may take for a text; None: as long as their settings allow."""
        if self._lifecycle.process_goes.is_set():
            return _REVIEW_WHILE_PROCESS_GOES_S
        return _REVIEW_AFTER_STOP_S if self._lifecycle.is_hurried else None

    async def write(self, end: ExchangeEnd | None = None, checkpoint: Checkpoint | None = None) -> None:
        """Store all waiting drafts in one step with `end`, `checkpoint` and the trail, then show them in order.

        Raises StoreUnavailable or FencedOut; the batch then still waits, and none of it is shown.
        """
        while self._waiting or self._trail_is_due or end is not None:
            await self.pass_gate()
            batch = list(self._waiting)
            complete = _complete(batch)
            boundary = _last_of_a_tool([draft.message for draft in complete])
            if boundary is not None and end is None:
                checkpoint = await self._checkpoint_at(boundary)
            stored: list[MessageRecord] = []
            if complete or end or self._trail_is_due:
                trail = list(self._trail)
                stored = await self.writer.write(complete, end, checkpoint, trail)
                self._forget_trail(len(trail))
            self.stored += stored
            messages = iter(stored)
            for draft in batch:
                self._waiting.popleft()
                self._passed = max(0, self._passed - 1)
                if isinstance(draft, CompleteDraft):
                    message = next(messages).shown()
                    self.log.append(Stream(**self.log.next_place(), message=message, block=draft.block))
                else:
                    self._show(draft)
            end = checkpoint = None

    def _forget_trail(self, stored: int) -> None:
        del self._trail[:stored]
        self._trail_is_due = False
        if not self._trail and self._until_due is not None:
            self._until_due.cancel()
            self._until_due = None

    def _show(self, draft: TextDraft | ActivityDraft) -> None:
        if isinstance(draft, TextDraft):
            self.log.append_text(draft.block, draft.channel, draft.text)
        else:
            self.log.append(Activity(**self.log.next_place(), kind=draft.kind, data=draft.data))


def _complete(drafts: Iterable[Draft]) -> list[CompleteDraft]:
    return [draft for draft in drafts if isinstance(draft, CompleteDraft)]


def _last_of_a_tool(messages: Sequence[MessageDraft]) -> ToolCallPart | ToolResultPart | None:
    parts = [part for message in messages for part in message.parts]
    return next((part for part in reversed(parts) if isinstance(part, ToolCallPart | ToolResultPart)), None)
