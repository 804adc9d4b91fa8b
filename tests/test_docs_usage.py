"""The settings that docs/policy.md shows for prices and budgets are settings, and mean what it says."""

from datetime import date
from pathlib import Path

import yaml
from support.documents import DOCS, blocks

from agentic_backend.config.loading import load_settings
from agentic_backend.policy.usage.prices import Prices
from agentic_backend.streaming.model.model_calls import CallTokens

PAGE = DOCS / "policy.md"
MILLION = CallTokens(1_000_000, 0)


def test_the_prices_and_budgets_of_the_page_are_settings(tmp_path: Path) -> None:
    shown = [yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml"]
    [priced] = [each for each in shown if "prices" in each]
    [limited] = [each for each in shown if "budgets" in each]
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(priced | limited))
    settings = load_settings(path, {})
    prices = Prices(settings.prices)
    costs = [
        prices.cost(model, MILLION, date.fromisoformat(day))
        for model, day in [
            ("gpt-5.4-mini-2026-03-01", "2026-06-30"),
            ("gpt-5.4-mini-2026-03-01", "2026-07-01"),
            ("another", "2026-07-01"),
        ]
    ]
    assert [(cost.amount, cost.currency) for cost in costs if cost] == [(0.75, "USD"), (0.5, "USD"), (1, "EUR")]
    assert settings.budgets.users["ann"].cost is None
    assert settings.budgets.groups["class-7b"].per == "day"
