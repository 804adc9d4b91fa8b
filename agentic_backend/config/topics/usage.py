"""The settings `prices` and `budgets`: what calls of models cost, and how much users and groups may spend."""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from agentic_backend.config.setting_types import NonEmpty, Section

Currency = Annotated[
    str, Field(pattern="^[A-Z]{3}$", json_schema_extra={"expected": "the code of a currency such as 'USD'"})
]
Amount = Annotated[float, Field(ge=0, le=1_000_000_000)]


class PriceSettings(Section):
    """What a million tokens of some models cost from a day on."""

    model: NonEmpty = Field(
        max_length=200, description="The models, as their provider names them; `*` stands for any characters."
    )
    input_per_million: Amount = Field(description="The price of a million input tokens.")
    output_per_million: Amount = Field(
        description="The price of a million output tokens, of which a model's reasoning is a part."
    )
    cached_input_per_million: Amount | None = Field(
        None, description="The price of a million input tokens that the provider had cached; `null`: as the others."
    )
    currency: Currency = Field("USD", description="The currency.")
    since: Annotated[date, Field(strict=False)] = Field(
        alias="from", description="The first day, in UTC, on which the price holds."
    )


class BudgetSettings(Section):
    cost: Amount | None = Field(None, description="What may be spent in each period; `null` is any amount.")
    currency: Currency = Field("USD", description="The currency; what was spent in others does not count.")
    per: Literal["day", "month"] = Field("month", description="The period, which begins at midnight UTC.")


class BudgetsSettings(Section):
    users: dict[NonEmpty, BudgetSettings] = Field(
        {}, description="The budgets of users by id; `default` is the budget of each other user."
    )
    groups: dict[NonEmpty, BudgetSettings] = Field(
        {}, description="The budgets of groups; `default` is the budget of each other group."
    )
    paying_groups: Annotated[tuple[NonEmpty, ...], Field(strict=False, max_length=10_000)] = Field(
        (),
        description="Which of several groups pays for a call: the first one of these that the user is in, or that is "
        "the organisation of the exchange's scope; where none is, the organisation, else the first group by the "
        "alphabet.",
    )
