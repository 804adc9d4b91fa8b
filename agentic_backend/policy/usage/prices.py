"""Prices: what a call of a model has cost, by the prices of the settings. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache

from agentic_backend.config.topics.usage import PriceSettings
from agentic_backend.streaming.model.model_calls import CallTokens

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Cost:
    amount: float
    currency: str
    priced_on: date
    """The first day on which the price held."""


class Prices:
    """A model's price is that of the longest pattern that matches its name; of several, the newest that holds."""

    def __init__(self, prices: Sequence[PriceSettings] = ()) -> None:
        self._prices = prices
        self._price_of = lru_cache(1_000)(self._find)
        """A process sees few models, but anybody may be their provider."""

    def __bool__(self) -> bool:
        return bool(self._prices)

    def cost(self, model: str, tokens: CallTokens, day: date) -> Cost | None:
        """The cost of a call of `model` on `day`; None if no price holds."""
        price = self._price_of(model, day)
        if price is None:
            return None
        per_cached = price.cached_input_per_million
        cached = 0 if per_cached is None else min(tokens.cached_input, tokens.input)
        amount = (tokens.input - cached) * price.input_per_million + tokens.output * price.output_per_million
        return Cost((amount + cached * (per_cached or 0)) / _MILLION, price.currency, price.since)

    def _find(self, model: str, day: date) -> PriceSettings | None:
        holding = [price for price in self._prices if price.since <= day and fnmatchcase(model, price.model)]
        return max(holding, key=lambda price: (len(price.model), price.since), default=None)
