"""ExchangeKpi: what one exchange took: its times, its calls of models and tools, and their cost.

The calls of models are summed from their own records, which also come while an exchange runs, and after its end. So
they are those that `GET /usage` shows, whatever instances the exchange ran on, and however it ended.
"""

from collections.abc import Sequence

from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.reading.usage_reports import CostView, costs_of
from agentic_backend.stores.protocol.usage_sums import UsageQuery, UsageSum
from agentic_backend.stores.records import ExchangeRecord, KpiRecord, Restore


class ModelCallsView(Value):
    """Tokens that no provider has counted, and calls without a price, are missing in the sums."""

    model_calls: int
    input_tokens: int
    output_tokens: int
    costs: list[CostView]


class OtherCallsView(ModelCallsView):
    """Calls beside the answer: for a `title`, a `summary` or a `module`, or `internal` ones, whose text nobody sees."""

    purpose: str


class ExchangeKpi(ModelCallsView):
    """Times are milliseconds since the ask, without pauses. The model calls are those for the answer.

    `latency_ms`, the counts of tools and `restore` are known once the exchange has ended. `restore` says where its last
    run found the session's past: `warm` in the agent's own memory, `cold` in the store. `instance` is the server
    process that runs the exchange, or has run it last.
    """

    latency_ms: int | None = absent()
    first_token_ms: int | None = absent()
    tool_calls: int | None = absent()
    failed_tools: int | None = absent()
    restore: Restore | None = absent()
    instance: str | None = absent()
    other_calls: list[OtherCallsView]


def calls_of(exchange_id: str) -> UsageQuery:
    """The query for the sums that `exchange_kpi` needs."""
    return UsageQuery(exchange_id=exchange_id, by=("purpose",))


def exchange_kpi(exchange: ExchangeRecord, record: KpiRecord | None, calls: Sequence[UsageSum]) -> ExchangeKpi:
    """The KPIs of `exchange`. `record` is None if it has not ended; `calls` are its sums by purpose."""
    sums = {each.keys[0] or "": each for each in calls}
    answer = sums.pop("answer", UsageSum(("answer",)))
    others = [OtherCallsView(purpose=purpose, **_figures(each)) for purpose, each in sorted(sums.items())]
    if record is None:
        told = {"first_token_ms": exchange.first_token_ms, "instance": exchange.owner}
    else:
        names = ("latency_ms", "first_token_ms", "failed_tools", "restore", "instance")
        told = {name: getattr(record, name) for name in names} | {"tool_calls": len(record.tools)}
    return ExchangeKpi(**_figures(answer), **told, other_calls=others)


def _figures(calls: UsageSum) -> dict[str, object]:
    return {
        "model_calls": calls.calls,
        "input_tokens": calls.input_tokens,
        "output_tokens": calls.output_tokens,
        "costs": costs_of(calls),
    }
