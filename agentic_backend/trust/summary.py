"""The trust summary of an exchange, computed from its rows. Pure."""

from agentic_backend.protocol.messages import Channel
from agentic_backend.protocol.trust import TrustSummary
from agentic_backend.trust.objections import objections_of
from agentic_backend.trust.rows import TrustRows
from agentic_backend.trust.tool_trust import tools_of


def summary_of(rows: TrustRows) -> TrustSummary:
    answer = next((message for message in reversed(rows.messages) if message.channel is Channel.FINAL), None)
    return TrustSummary(
        exchange_id=rows.exchange.id,
        status=rows.exchange.status,
        answer_rank=answer.rank if answer is not None else None,
        statements=[],
        tools=tools_of(rows.exchange, rows.calls),
        sources=[],
        objections=objections_of(rows),
        cut=rows.cut,
    )
