"""RunPreparation: what a run's models are given, as its graph's input: the past that fits, prompts and images."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.agents.state.exchange_checkpoints import ExchangeCheckpoints
from agentic_backend.agents.tools.tool_guard import withheld_tools
from agentic_backend.errors import AgenticError, ContextTooLong
from agentic_backend.exchange.past.background_reports import background_reports
from agentic_backend.exchange.past.context_assembly import ContextAssembly
from agentic_backend.exchange.past.given_history import GivenHistory
from agentic_backend.exchange.past.recall import Memory
from agentic_backend.exchange.run.graph_input import GraphInput, from_opening, from_resume_point
from agentic_backend.exchange.run.run_images import RunImages
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.exchange.write.outbox import Outbox
from agentic_backend.policy.prompt.prompt_assembly import tokens_by_section
from agentic_backend.policy.session_log import compaction_of
from agentic_backend.policy.usage.usage_ledger import Payer
from agentic_backend.stores.protocol.trail import PromptRecord, SummaryRecord, ToolCallRecord
from agentic_backend.streaming.transcode.drafts import ActivityDraft

log = logging.getLogger(__name__)


class RunPreparation:
    """Made for one run, whose RuntimeContext it completes."""

    def __init__(
        self, start: ExchangeStart, context: RuntimeContext, services: ExchangeServices, clock: Callable[[], float]
    ) -> None:
        """`clock` is the event loop's, in seconds."""
        self._start = start
        self._context = context
        self._services = services
        self._clock = clock
        self._images = RunImages(services.store, start, services.limits.attachment_request_bytes)
        self.is_compacted = False
        """Whether the history has become shorter since the session's last turn."""
        self.prompt_tokens: Mapping[str, int] = {}
        """The size of the answering agent's system prompt by section, once it is assembled."""

    async def prepare(
        self, warm: WarmAgent, checkpoints: ExchangeCheckpoints | None, outbox: Outbox
    ) -> tuple[Memory, GraphInput]:
        """Prepare a run of the leased agent, which goes on from `checkpoints` if there are some.

        Raises ContextTooLong, CheckpointMissing and StoreUnavailable.
        """
        start = self._start
        if start.session is not None:
            self._services.compactor.abandon(start.session.id)
        summary = await self._services.compactor.summary_of(start.session)
        reports = await background_reports(self._services.store, start)
        assembled = partial(ContextAssembly, start, warm, self._services, reports=reports)
        self._context.withheld_tools = withheld_tools(warm.agents, self._context.permissions)
        if start.resume_point is None or checkpoints is None:
            assembly, memory, history = await self._fitting(assembled, summary, outbox)
            if history.lacks_room and (shorter := await self._compacted()) is not None:
                summary = shorter
                assembly, memory, history = await self._fitting(assembled, shorter, outbox)
            self._tell_of(summary, outbox)
            run_id, graphs = self._context.run_id, memory.kept.graphs
            given = [*history.left, *history.unseen, assembly.question]
            self._context.images = await self._images.of(given, graphs)
            graph_input = await from_opening(
                start, warm, history, assembly.question, graphs=graphs, run_id=run_id, now=self._clock()
            )
        else:
            assembly = assembled(summary=summary)
            memory = await assembly.memory()
            self._context.images = await self._images.of((), start.resume_point.state)
            graph_input = await from_resume_point(start, start.resume_point, warm, checkpoints, now=self._clock())
            outbox.accept(graph_input.transcoder.announce_anew(self._clock()))
        await self._take_prompt(assembly, outbox)
        return memory, graph_input

    async def _fitting(
        self, assembled: Callable[..., ContextAssembly], summary: SummaryRecord | None, outbox: Outbox
    ) -> tuple[ContextAssembly, Memory, GivenHistory]:
        """What a new run is given, `assembled` with `summary`.

        Raises ContextTooLong, and then keeps the prompt that has left the message no room.
        """
        assembly = assembled(summary=summary)
        try:
            return assembly, *await assembly.history()
        except ContextTooLong:
            if summary is not None and summary.text:
                # In the system prompt, a summary may take the room of the message.
                return await self._fitting(assembled, replace(summary, text=""), outbox)
            # Not the calls that it reports: no model has seen them.
            outbox.record([one for one in await self._records(assembly) if isinstance(one, PromptRecord)])
            raise

    async def _compacted(self) -> SummaryRecord | None:
        """Compact a history that does not fit into the model's window; None if it can't be shorter."""
        start = self._start
        if start.session is None:
            return None
        try:
            return await self._services.compactor.compact(
                start.session, start.chat_profile, Payer.of(start.record), must=True
            )
        except AgenticError as error:
            # The newest turns, which fit, serve.
            log.warning("history not compacted", extra={**start.log_fields, "code": error.code})
            return None

    def _tell_of(self, summary: SummaryRecord | None, outbox: Outbox) -> None:
        """Show a summary that is new to clients: it was made after the session's last turn."""
        session = self._start.session
        if summary is not None and session is not None and summary.turn_number == session.turn_count - 1:
            self.is_compacted = True
            outbox.accept([ActivityDraft("compacted", compaction_of(summary))])

    async def _take_prompt(self, assembly: ContextAssembly, outbox: Outbox) -> None:
        """Give the agents the prompts of this run, and record these with the exchange."""
        records, prompt = await self._records(assembly), assembly.prompt
        self._context.system_prompts, self._context.prompt_messages = prompt.system_prompts, prompt.prompt_messages
        outbox.record(records)

    async def _records(self, assembly: ContextAssembly) -> Sequence[PromptRecord | ToolCallRecord]:
        sections = await assembly.sections()
        self.prompt_tokens = tokens_by_section(sections.get(self._start.agent.settings.id, ()))
        return assembly.records(sections)
