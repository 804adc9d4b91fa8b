"""ContextAssembly: what a run's models are given: the system prompts, the past that fits beside them, the question."""

import asyncio
from collections.abc import Mapping, Sequence

from langchain_core.messages import BaseMessage

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.exchange.past.background_reports import NO_REPORTS, BackgroundReports
from agentic_backend.exchange.past.given_history import GivenHistory, HistoryLimits, given_history
from agentic_backend.exchange.past.recall import Memory, Needed, given_memory
from agentic_backend.exchange.services import ExchangeServices
from agentic_backend.exchange.start import ExchangeStart
from agentic_backend.policy.prompt.context_window import ContextWindow, Summary
from agentic_backend.policy.prompt.prompt_assembly import PromptAssembly, added_sections
from agentic_backend.policy.prompt.section import Section
from agentic_backend.policy.prompt.token_counts import context_tokens
from agentic_backend.stores.protocol.trail import PromptRecord, PromptSection, SummaryRecord, ToolCallRecord
from agentic_backend.streaming.content.conversion import to_langchain

# So many messages of so many characters are counted approximately in about a millisecond.
_FEW, _SHORT = 256, 512 * 1024


class ContextAssembly:
    """Made for one run of the leased agent `warm`."""

    def __init__(
        self,
        start: ExchangeStart,
        warm: WarmAgent,
        services: ExchangeServices,
        summary: SummaryRecord | None = None,
        reports: BackgroundReports = NO_REPORTS,
    ) -> None:
        """`summary` stands for the session's earlier messages, if there is one."""
        self._start = start
        self._reports = reports
        self._warm = warm
        self._services = services
        model, exchanges = warm.flow.answering_model, services.history_exchanges(start.agent)
        self._counter = services.token_counts.of(model)
        """Counts as the answering model does."""
        profile = services.profiles().named(start.chat_profile)
        self._window = ContextWindow(context_tokens(model), exchanges, profile.reserve_tokens_for_history)
        text = summary.text if summary is not None and profile.include_summary_in_context else ""
        in_prompt = profile.summary_position == "system_prompt"
        self._summary = Summary("" if in_prompt else text, summary.to_rank) if summary is not None else None
        additions = start.record.policy.prompt_additions if start.record.policy is not None else ()
        additions = [*additions, *reports.additions]
        own = [Section.of("profile", profile.instructions, f"profile:{start.chat_profile}")]
        if summary is not None and in_prompt:
            own.append(Section.of("summary", text, f"summary:{summary.id}"))
        self.prompt = PromptAssembly(warm.agents, added_sections(start.effective.prompts, additions, own))
        self.question: BaseMessage = to_langchain(start.opening)
        """The user's message; its id is the same in every run of the exchange and in the session's later ones."""

    async def sections(self) -> Mapping[str, list[PromptSection]]:
        """The sections of the prompts with their tokens, by agent id."""
        texts = [section.text for prompt in self.prompt.prompts for section in prompt.sections]
        if self._counter.is_slow and not all(map(self._counter.knows, texts)):
            return await asyncio.to_thread(self.prompt.sized, self._counter)
        return self.prompt.sized(self._counter)

    def records(self, sections: Mapping[str, list[PromptSection]]) -> Sequence[PromptRecord | ToolCallRecord]:
        """The prompts, and the calls that they report, as they are stored with the exchange; none of a query."""
        start = self._start
        prompts = [
            PromptRecord(
                # The same if the run goes on elsewhere, so that it is stored once.
                id=f"{start.record.id}:{agent_id}",
                at=self._services.store.now(),
                session_id=start.session.id,
                exchange_id=start.record.id,
                user_id=start.record.user_id,
                agent_id=agent_id,
                sections=own,
            )
            for agent_id, own in sections.items()
            if start.session is not None
        ]
        return [*prompts, *self._reports.reported_in(start.record.id)]

    async def memory(self, needed: Needed = len) -> Memory:
        """What the session keeps of its past; of what the graph has not seen no more than is `needed`."""
        start, window = self._start, self._window.exchanges
        if start.session is None:
            return given_memory(start.past, window)
        return await self._services.recall.restore(
            self._warm, start.session, start.opening.rank, window, start.log_fields, needed
        )

    async def history(self) -> tuple[Memory, GivenHistory]:
        """What the session keeps of its past, and what of it fits. Raises ContextTooLong before anything is read."""
        is_slow = self._counter.is_slow and self._window.tokens is not None
        room = await asyncio.to_thread(self._room) if is_slow else self._room()
        limits = HistoryLimits(self._window, room, self._counter.of_message)
        memory = await self.memory(limits.needed)
        prompt = self.prompt.prompt_messages.get(self._start.agent.settings.id)
        if not (is_slow or _is_long(memory)):
            return memory, given_history(memory, limits, prompt=prompt, summary=self._summary)
        # In a thread, because all that fits is counted.
        return memory, await asyncio.to_thread(given_history, memory, limits, prompt=prompt, summary=self._summary)

    def _room(self) -> int | None:
        if self._window.tokens is None:
            return None
        prompt = self._counter.of_text(self.prompt.text_of(self._start.agent.settings.id))
        return self._window.room(prompt, self._counter.of_message(self.question))


def _is_long(memory: Memory) -> bool:
    messages = [*memory.left, *(message for exchange in memory.unseen for message in exchange)]
    texts = (one.content for one in messages if isinstance(one, BaseMessage))
    # Blocks of content may be large files.
    return len(messages) > _FEW or sum(len(text) if isinstance(text, str) else _SHORT + 1 for text in texts) > _SHORT
