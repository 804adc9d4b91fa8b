"""UsageReports: what calls of models have used and cost, summed by day, user, group, session, agent and so on."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from agentic_backend.policy.prices import Prices
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.stores.base import Store
from agentic_backend.stores.usage_sums import UsageQuery

_SUMS_AT_MOST = 1_000
_SPAN = timedelta(days=31)


class CostView(Value):
    amount: float
    currency: str


class UsageSumView(Value):
    """The sum of the calls with these `keys`. `costs` are those of the calls that have a price, by currency."""

    keys: dict[str, str | None]
    calls: int
    input_tokens: int
    output_tokens: int
    costs: list[CostView]


class UsageView(Value):
    """`priced`: whether the server has prices. `truncated`: whether there are more sums than these."""

    start: Timestamp | None = absent()
    end: Timestamp | None = absent()
    by: list[str]
    sums: list[UsageSumView]
    priced: bool
    truncated: bool


@dataclass(frozen=True, slots=True)
class UsageReports:
    store: Store
    prices: Prices

    async def sums(self, query: UsageQuery) -> UsageView:
        """The sums that `query` asks for; without times, and of no one session or exchange, those of the last 31 days.

        Raises RateLimited if this takes too long.
        """
        if not any((query.since, query.until, query.session_id, query.exchange_id)):
            query = replace(query, since=self.store.now() - _SPAN)
        # One sum more than are shown tells whether there are more.
        sums = await self.store.usage_sums(replace(query, limit=_SUMS_AT_MOST + 1))
        views = [
            UsageSumView(
                keys=dict(zip(query.by, each.keys, strict=True)),
                calls=each.calls,
                input_tokens=each.input_tokens,
                output_tokens=each.output_tokens,
                costs=[CostView(amount=amount, currency=currency) for currency, amount in sorted(each.costs.items())],
            )
            for each in sums[:_SUMS_AT_MOST]
        ]
        span: dict[str, Any] = {"start": query.since, "end": query.until}
        is_truncated = len(sums) > _SUMS_AT_MOST
        return UsageView(**span, by=list(query.by), sums=views, priced=bool(self.prices), truncated=is_truncated)
