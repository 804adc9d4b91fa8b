"""Prices: the price that held on the day of a call, of the pattern that fits best."""

from datetime import date
from typing import Any

import pytest
from pydantic import ValidationError

from agentic_backend.config.topics.usage import PriceSettings
from agentic_backend.policy.usage.prices import Cost, Prices
from agentic_backend.streaming.model.model_calls import CallTokens

DAY = date(2026, 6, 1)
ALL = CallTokens(1_000_000, 1_000_000)


def price(model: str = "gpt-*", since: str = "2026-01-01", **fields: Any) -> PriceSettings:
    return PriceSettings(**{"model": model, "from": since, "input_per_million": 1, "output_per_million": 10} | fields)


def amount(*prices: PriceSettings, model: str = "gpt-5", day: date = DAY, tokens: CallTokens = ALL) -> float | None:
    cost = Prices(prices).cost(model, tokens, day)
    return None if cost is None else cost.amount


def test_input_and_output_are_added_up() -> None:
    cost = Prices([price(currency="EUR")]).cost("gpt-5", CallTokens(2_000, 300), DAY)
    assert cost == Cost(pytest.approx(0.005), "EUR", date(2026, 1, 1))


@pytest.mark.parametrize(("cached_price", "cost"), [(None, 1.0), (0, 0.6), (0.5, 0.8)])
def test_cached_input_has_its_own_price(cached_price: float | None, cost: float) -> None:
    tokens = CallTokens(1_000_000, 0, 400_000)
    assert amount(price(cached_input_per_million=cached_price), tokens=tokens) == pytest.approx(cost)


def test_no_more_input_is_cached_than_there_is() -> None:
    assert amount(price(cached_input_per_million=0.5), tokens=CallTokens(1_000_000, 0, 9_000_000)) == 0.5


@pytest.mark.parametrize(
    ("day", "cost"), [("2025-12-31", None), ("2026-01-01", 11), ("2026-05-31", 11), ("2026-06-01", 12)]
)
def test_a_price_holds_from_its_first_day_until_a_newer_one(day: str, cost: float | None) -> None:
    newer = price(since="2026-06-01", input_per_million=2)
    assert amount(newer, price(), day=date.fromisoformat(day)) == cost


def test_the_longest_pattern_wins() -> None:
    exact = price("gpt-5-mini", "2025-01-01", input_per_million=3)
    assert amount(price("*"), exact, price(), model="gpt-5-mini") == 13
    assert amount(price("*"), exact, price(input_per_million=4), model="gpt-5") == 14


def test_a_model_without_a_price_costs_nothing_known() -> None:
    assert amount(price(), model="claude") is None
    assert amount() is None


@pytest.mark.parametrize("wrong", [{"currency": "dollars"}, {"input_per_million": -1}, {"from": "soon"}, {"model": ""}])
def test_a_wrong_price_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        price(**wrong)
