"""TrustRows: what is stored of an exchange that its trust summary is computed from."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.stores.protocol.trail import AuditRecord, ModuleErrorRecord, ToolCallRecord
from agentic_backend.stores.records import ExchangeRecord, MessageRecord


@dataclass(frozen=True, slots=True)
class TrustRows:
    """All in the order in which they came; `cut` says that some are missing."""

    exchange: ExchangeRecord
    messages: Sequence[MessageRecord] = field(repr=False)
    calls: Sequence[ToolCallRecord] = field(repr=False)
    audits: Sequence[AuditRecord] = field(repr=False)
    failures: Sequence[ModuleErrorRecord]
    cut: bool = False

    @property
    def answers(self) -> list[MessageRecord]:
        """The finals of the agent; an exchange that has ended has one."""
        return [one for one in self.messages if one.channel is Channel.FINAL and one.role is Role.ASSISTANT]
