"""ExchangeStart: the input of a run of an exchange: a new one, one continued after a pause, or a resumed one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.agents.runtime_context import AttachedImage
from agentic_backend.policy.hooks.exchange_modules import ExchangeModules
from agentic_backend.policy.scopes.effective import Effective
from agentic_backend.protocol.messages import TokenUsage
from agentic_backend.stores.protocol.trail import ActivityRecord
from agentic_backend.stores.records import ExchangeRecord, HumanDecision, MessageRecord, SessionRecord


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Where a run continues: the packed checkpoints, and people's decisions on its requests.

    `stored` are the exchange's messages so far, `activities` those that are kept of it. Blocks are numbered from
    `first_block`; `usage` is the usage so far.
    """

    state: bytes = field(repr=False)
    decisions: Sequence[HumanDecision] | None
    stored: Sequence[MessageRecord] = field(repr=False)
    first_block: int
    usage: TokenUsage
    activities: Sequence[ActivityRecord] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ExchangeStart:
    record: ExchangeRecord
    """The exchange's record. The record of a query is not stored and names no session."""
    agent: CatalogAgent
    session: SessionRecord | None
    """None for a query."""
    opening: MessageRecord
    """The user's message, with its rank."""
    resume_point: ResumePoint | None = None
    """None if the graph starts with the opening message."""
    for_author: bool = False
    """Whether its user is told what an agent's author has to mend: the exception of a failure, a line that blocks.

    Unknown, so False, if nobody has asked for this run.
    """
    effective: Effective = field(default_factory=Effective)
    """What applies to the exchange in its scope."""
    modules: ExchangeModules | None = None
    """The modules that have looked at its opening; None if none has, or another run has begun the exchange."""
    past: Sequence[MessageRecord] = field(default=(), repr=False)
    """What was said before a query, as its client tells it; each message of a person begins an exchange."""
    images: Mapping[str, AttachedImage] = field(default_factory=dict, repr=False)
    """The images that came with a query, by the ids that its messages refer to."""

    @property
    def stored(self) -> Sequence[MessageRecord]:
        """The exchange's messages so far."""
        return self.resume_point.stored if self.resume_point is not None else [self.opening]

    @property
    def chat_profile(self) -> str:
        """The name of the exchange's chat profile: what the ask names, else the session's; else what applies."""
        named = self.record.policy.chat_profile if self.record.policy is not None else None
        return named or (self.session.chat_profile if self.session is not None else self.effective.chat_profile)

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session is not None else None

    @property
    def log_fields(self) -> dict[str, object]:
        """The ids in each of its log lines."""
        return {
            "request_id": self.record.request_id,
            "exchange_id": self.record.id,
            "session_id": self.session_id,
            "agent_id": self.record.agent_id,
        }
