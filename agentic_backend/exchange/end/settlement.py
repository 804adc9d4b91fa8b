"""Settlement: stores, shows and counts the end of an exchange that runs here, and remembers it for the next one.

Owned by its exchange. It shows an end only after it is stored, and retries while the store is unavailable. If another
instance has ended the exchange, it shows that end. If the process shuts down first, it shows none, and recovery ends
the exchange from the store.
"""

import asyncio
import logging
import re
import traceback
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentic_backend.disclosure.exception_detail import detail_of, place_of, source_of, text_of
from agentic_backend.errors import CheckpointMissing, Internal, Interrupted, StateRefused, StoreUnavailable
from agentic_backend.exchange.end.ending import Ending, Progress, closing_of_stored, ending_of
from agentic_backend.exchange.end.measurement import ExchangeMeasurement
from agentic_backend.exchange.end.outages import until_stored
from agentic_backend.exchange.end.resumable import is_resumable
from agentic_backend.exchange.lifecycle import BLOCKED, Lifecycle, Outcome, Phase
from agentic_backend.exchange.past.recall import Ended
from agentic_backend.exchange.run.graph_run import GraphRun, StartedRun
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.boundary_events import show_deletion, show_end, show_last
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.exchange.write.text_gate import is_text
from agentic_backend.policy.session_log import turn_added
from agentic_backend.protocol.events import PartialText
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage
from agentic_backend.stores.base import Checkpoint, ExchangeEnd, FencedOut
from agentic_backend.stores.records import place
from agentic_backend.streaming.transcode.drafts import CompleteDraft
from agentic_backend.system_errors import system_words_of
from agentic_backend.telemetry import story_of

log = logging.getLogger(__name__)


# With the signs that are no letters to Python, but parts of a word in some scripts.
_WORD = re.compile(r"(?:\w|[^\x00-\x7f])+")
_LEFT_OUT = "…"


class FailureReport:
    """What the log is told of an exception that ends an exchange.

    The text of an exception may quote what people and models said, in any form, which the log must not have. So only
    those of its words and numbers are told that stand in the source lines of the traceback, which are the program's, or
    that are the system's. At log level `debug` no word is left out. Secrets are left out at every level.
    """

    def __init__(self, secrets: Collection[str]) -> None:
        self._secrets = secrets

    def log_fields(self, error: BaseException) -> Mapping[str, Any]:
        """The fields of the log line: the author's line, and the exception and its causes."""
        return {"where": place_of(error), "exception": story_of(error, self._told)}

    def _told(self, error: BaseException, frames: Sequence[traceback.FrameSummary]) -> str:
        text = text_of(error, self._secrets)
        if log.isEnabledFor(logging.DEBUG):
            return text
        programs = {word for frame in frames for word in _words(source_of(frame))}
        programs.update(_words(system_words_of(error) or ""))
        return _WORD.sub(lambda match: match[0] if match[0].casefold() in programs else _LEFT_OUT, text)


def _words(text: str) -> Iterable[str]:
    return (word.casefold() for word in _WORD.findall(text))


class Settlement:
    def __init__(
        self,
        start: ExchangeStart,
        graph_run: GraphRun,
        outbox: Outbox,
        kpis: ExchangeMeasurement,
        lifecycle: Lifecycle,
        services: ExchangeServices,
    ) -> None:
        self._start = start
        self._graph_run = graph_run
        """Holds the open texts and calls, the usage and the graph's state."""
        self._outbox = outbox
        """Holds the unwritten messages and the log that shows the end."""
        self._kpis = kpis
        self._lifecycle = lifecycle
        self._services = services
        self._ended = Ended()
        """What the run leaves for the session's next exchange, once it has ended."""
        self._clock = asyncio.get_running_loop().time

    def failed(self, error: BaseException) -> Outcome:
        """The outcome of a run that failed with `error`; writes the error to the server's log."""
        if isinstance(error, FencedOut):
            # No failure: another instance took the exchange over, or it was deleted. `settle` finds out which.
            log.warning("exchange taken over by another instance", extra=self._start.log_fields)
            return Outcome(ExchangeStatus.INTERRUPTED, Interrupted())
        typed = self._graph_run.typed(error)
        report = FailureReport(self._graph_run.secrets)
        told = {"code": typed.code, **report.log_fields(error)}
        log.error("exchange failed", exc_info=error, extra={**self._start.log_fields, **told})
        status = ExchangeStatus.INTERRUPTED if isinstance(typed, Interrupted) else ExchangeStatus.ERROR
        detail = detail_of(error, self._graph_run.secrets) if self._start.for_author else None
        return Outcome(status, typed, detail)

    async def settle(self, outcome: Outcome, checkpoint: Checkpoint | None) -> None:
        """Store the end, then show it. `checkpoint` replaces the exchange's last one."""
        self._lifecycle.enter(Phase.ENDING)
        ending = await self._ending(outcome)
        # The gate has seen all texts of the agent; what is added here is the server's.
        self._outbox.accept_last(ending.drafts)
        self._graph_run.record_unended(self._outbox)
        try:
            await until_stored(
                lambda: self._outbox.write(ending.end, checkpoint),
                self._lifecycle.while_process_stays,
                self._services.kpi.dependencies.store_retried,
            )
        except FencedOut:
            self._services.ledger.keep(self._outbox.unwritten_trail)
            await self._show_stored(ending.end.usage)
        except StoreUnavailable as error:
            self._leave_to_recovery(error)
        else:
            await self._show(ending.end)
            self._count(ending.end)
            self._remember()
            self._lifecycle.enter(Phase.ENDED)
            self.answered(outcome.status)
            self._compact()

    async def end_from_store(self, error: BaseException) -> Outcome:
        """End the exchange with what is stored of it, because its end could not be made, stored or shown. Never raises.

        So nobody waits until its lease has expired and recovery ends it. Returns the outcome.
        """
        outcome = Outcome(ExchangeStatus.ERROR, Internal())
        try:
            outcome = self.failed(error)
        except Exception as failure:
            log.error("exchange failed", exc_info=failure, extra={**self._start.log_fields, "code": Internal.code})
        try:
            # What failed may have come after the end.
            if not self._lifecycle.settled.is_set() and self._outbox.log.final is None:
                await self._end_from_store(outcome)
            self._kpis.leave()
            self._lifecycle.leave()
        except Exception as again:
            self._leave_to_recovery(again)
        return outcome

    async def _end_from_store(self, outcome: Outcome) -> None:
        if self._lifecycle.is_open:
            self._lifecycle.enter(Phase.ENDING)
        if self._outbox.writer.session is None:
            self._show_query_end(outcome)
            return
        kpis, usage = self._kpis, self._usage
        record = replace(self._start.record, usage=usage, ran_ms=kpis.ran_ms, first_token_ms=kpis.first_token_ms)
        try:
            await until_stored(
                lambda: self._services.close(record, outcome, self._outbox.log),
                self._lifecycle.while_process_stays,
                self._services.kpi.dependencies.store_retried,
            )
        except FencedOut:
            await self._show_stored(usage)
        self._graph_run.record_unended(self._outbox)
        self._services.ledger.keep(self._outbox.unwritten_trail)

    def _show_query_end(self, outcome: Outcome) -> None:
        """Show the end of an exchange that is stored nowhere, with the text that was shown."""
        record, log, stored = self._start.record, self._outbox.log, self._outbox.stored
        progress = Progress(
            messages=stored,
            closing=self._closing(outcome, log.partial if self._outbox.gate is None else ()),
            last_seq=log.last_seq,
            ran_ms=self._kpis.ran_ms,
            first_token_ms=self._kpis.first_token_ms,
            usage=self._usage,
        )
        ending = ending_of(record, outcome, progress)
        placed = place(
            [draft.message for draft in ending.drafts],
            session_id=None,
            exchange_id=record.id,
            next_rank=1 + max((message.rank for message in stored), default=-1),
            at=self._services.store.now(),
        )
        show_last(log, ending.drafts, placed)
        show_end(log, ending.end, log.messages, None)

    def _leave_to_recovery(self, error: Exception) -> None:
        """Let go of an exchange that can't be ended here: once the lease expires, any instance ends it."""
        code = error.code if isinstance(error, StoreUnavailable) else None
        log_fields = {**self._start.log_fields, "code": code}
        log.error("exchange left to recovery", exc_info=None if code else error, extra=log_fields)
        with suppress(Exception):
            self._services.ledger.keep(self._outbox.unwritten_trail)
        with suppress(Exception):
            self._kpis.leave()
        self._lifecycle.leave()

    def answered(self, status: ExchangeStatus) -> None:
        """Tell that the exchange's end or its pause is stored and shown. A query tells nobody."""
        if (session := self._outbox.writer.session) is None:
            return
        try:
            self._services.on_answered(session, self._start.opening, self._start.record, status)
        except Exception as error:
            # What comes of it is beside the answer, which stands.
            log.error("answer not told", exc_info=error, extra=self._start.log_fields)

    async def _show_stored(self, usage: TokenUsage) -> None:
        """Show the stored end or pause, because another instance has ended or continued the exchange.

        `usage` is what it has used here, which is shown if nothing is stored.
        """
        self._kpis.leave()
        try:
            is_stored = await until_stored(
                lambda: self._services.show_stored(self._outbox.log),
                self._lifecycle.while_process_stays,
                self._services.kpi.dependencies.store_retried,
            )
        except StoreUnavailable:
            log.error("exchange end not readable", extra=self._start.log_fields)
        else:
            if not is_stored:
                # It was deleted with its session, so no stored end can contradict this one.
                log.info("exchange deleted with its session", extra=self._start.log_fields)
                request_id, session = self._start.record.request_id, self._outbox.writer.session
                show_deletion(self._outbox.log, request_id=request_id, usage=usage, session=session)
        self._lifecycle.leave()

    async def _ending(self, outcome: Outcome) -> Ending:
        started, outbox = self._graph_run.started, self._outbox
        # First, because closing open messages adds to the usage.
        closing = started.closing(outcome.status, self._clock()) if started is not None else self._closing(outcome)
        if started is not None and started.transcoder.said_nothing:
            nodes = list(started.transcoder.nodes)
            log.warning("graph ended without a text", extra={**self._start.log_fields, "nodes": nodes})
        outcome, closing = await self._passed(outcome, closing)
        self._ended = await self._left_by(started, outcome, closing)
        progress = Progress(
            messages=[*outbox.stored, *outbox.unwritten],
            closing=closing,
            last_seq=outbox.seq_after_all,
            ran_ms=self._kpis.ran_ms,
            first_token_ms=self._kpis.first_token_ms,
            usage=self._usage,
            model=started.transcoder.model if started is not None else None,
            prompt_tokens=self._graph_run.prompt_tokens,
            # Whatever the outcome: the state after the last complete step matches the transcript.
            turn_number=outbox.writer.session.turn_count if outbox.writer.session is not None else None,
            is_compacted=self._graph_run.is_compacted,
            restore=started.memory.restore if started is not None else None,
            session_state=self._ended.state,
        )
        return ending_of(self._start.record, outcome, progress)

    async def _passed(
        self, outcome: Outcome, closing: Sequence[CompleteDraft]
    ) -> tuple[Outcome, Sequence[CompleteDraft]]:
        """The outcome once the gate has seen all texts, and what of `closing` does not wait in the outbox already."""
        gate, outbox = self._outbox.gate, self._outbox
        if gate is None:
            return outcome, closing
        if gate.holds and outcome.status is not ExchangeStatus.OK:
            # Nobody has seen these texts, and they are not whole.
            closing = [draft for draft in closing if not is_text(draft)]
        outbox.accept_last(closing)
        await outbox.pass_gate()
        if gate.blocked_response is None:
            return outcome, ()
        messages = [*outbox.stored, *outbox.unwritten]
        has_final = any(one.role is Role.ASSISTANT and one.channel is Channel.FINAL for one in messages)
        return BLOCKED, () if has_final else [gate.final(gate.blocked_response)]

    async def _left_by(self, started: StartedRun | None, outcome: Outcome, closing: Sequence[CompleteDraft]) -> Ended:
        """What the run leaves for the session's next exchange; `closing` is still to be stored."""
        outbox = self._outbox
        if started is None or outbox.writer.session is None:
            return Ended()
        if isinstance(outcome.error, StateRefused | CheckpointMissing) and self._graph_run.unstorable is None:
            # What the run has begun with could not be read: the next exchange begins with what there was before.
            return Ended()
        last = place(
            [*outbox.unwritten, *(draft.message for draft in closing)],
            session_id=outbox.writer.session.id,
            exchange_id=self._start.record.id,
            next_rank=outbox.stored[-1].rank + 1,
            at=self._services.store.now(),
        )
        has_changed = outbox.gate is not None and outbox.gate.has_changed
        is_ok = outcome.status is ExchangeStatus.OK and not has_changed
        rows = [*outbox.stored, *last]
        return await self._services.recall.end(started.warm, started.memory, started.checkpoints, rows, is_ok=is_ok)

    def _closing(self, outcome: Outcome, partial: Sequence[PartialText] = ()) -> Sequence[CompleteDraft]:
        """The messages that complete an exchange of which no run knows more: its stored calls, and `partial` texts."""
        agent_id, status = self._start.record.agent_id, outcome.status
        return closing_of_stored(agent_id, self._outbox.stored, partial, status, server_went_away=False)

    @property
    def _usage(self) -> TokenUsage:
        started, resume_point = self._graph_run.started, self._start.resume_point
        if started is not None:
            return started.transcoder.usage
        return resume_point.usage if resume_point is not None else TokenUsage()

    async def _show(self, end: ExchangeEnd) -> None:
        log, session = self._outbox.log, self._outbox.writer.session
        resumable = await is_resumable(self._services.store, self._start.record.id, end.status, session)
        show_end(log, end, log.messages, session, resumable)

    def _remember(self) -> None:
        started = self._graph_run.started
        if started is not None:
            started.warm.memory = self._ended.memory

    def _compact(self) -> None:
        """Let the session's history be compacted if it has become too long, unless the agent is given none."""
        start, session = self._start, self._outbox.writer.session
        if session is not None and self._services.history_exchanges(start.agent):
            self._services.compactor.exchange_ended(start.record, start.chat_profile, session, self._outbox.stored)

    def _count(self, end: ExchangeEnd) -> None:
        assert end.kpi is not None
        self._kpis.end(end.kpi, self._outbox.stored, end.error.code if end.error else None)
        error = {"code": end.error.code} if end.error else {}
        how = {"status": str(end.status), "latency_ms": end.kpi.latency_ms, **error}
        if (session := self._outbox.writer.session) is not None:
            turn_added(session, self._start.record.id, end.status)
        log.log(logging.WARNING if error else logging.INFO, "exchange ended", extra={**self._start.log_fields, **how})
