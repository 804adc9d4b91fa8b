"""UsageReports: what calls of models have used and cost, summed by day, user, group, session, agent and so on."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

from agentic_backend.policy.usage.prices import Prices
from agentic_backend.protocol.messages import Timestamp
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.sessions.bulkhead import Bulkhead
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.usage_sums import UsageQuery, UsageSum

_SUMS_AT_MOST = 1_000
_SPAN = timedelta(days=31)
# How many sums are computed at once, and how long in seconds one waits for others.
_PER_USER, _IN_ALL, _WAIT_S = 1, 2, 5.0


class CostView(Value):
    amount: float
    currency: str


class UsageSumView(Value):
    """The sum of the calls with these `keys`. `costs` are those of the calls that have a price, by currency.

    The tokens of `estimated_calls` are the server's estimates, for their provider told none.
    """

    keys: dict[str, str | None]
    calls: int
    estimated_calls: int
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


class UsageReports:
    def __init__(self, store: Store, prices: Prices) -> None:
        self._store = store
        self._prices = prices
        content = "Too many sums of usage are computed; wait until some are answered."
        self._at_once = Bulkhead(per_user=_PER_USER, in_all=_IN_ALL, wait_s=_WAIT_S, content=content)
        """Room for sums of more than a session."""

    async def sums(self, reader: str, query: UsageQuery) -> UsageView:
        """The sums that `query` asks for; without times, and of no one session or exchange, those of the last 31 days.

        `reader` is the id of the user who reads them. Raises RateLimited if this takes too long, or if too many are
        being computed.
        """
        is_narrow = query.session_id is not None or query.exchange_id is not None
        if not any((query.since, query.until, is_narrow)):
            query = replace(query, since=self._store.now() - _SPAN)
        async with nullcontext() if is_narrow else self._at_once.entered(reader):
            # One sum more than are shown tells whether there are more.
            sums = await self._store.usage_sums(replace(query, limit=_SUMS_AT_MOST + 1, counts_estimated=True))
        views = [
            UsageSumView(
                keys=dict(zip(query.by, each.keys, strict=True)),
                calls=each.calls,
                estimated_calls=each.estimated_calls,
                input_tokens=each.input_tokens,
                output_tokens=each.output_tokens,
                costs=costs_of(each),
            )
            for each in sums[:_SUMS_AT_MOST]
        ]
        span: dict[str, Any] = {"start": query.since, "end": query.until}
        is_truncated = len(sums) > _SUMS_AT_MOST
        return UsageView(**span, by=list(query.by), sums=views, priced=bool(self._prices), truncated=is_truncated)


def costs_of(calls: UsageSum) -> list[CostView]:
    """The costs, by currency."""
    return [CostView(amount=amount, currency=currency) for currency, amount in sorted(calls.costs.items())]
