"""CaseSnapshot: what is known of a negotiation, as a value that patches change."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Id = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]

Channel = Literal["in_person", "video", "phone", "chat", "email"]
Stage = Literal["preparing", "opening", "exploring", "bargaining", "closing", "ended"]

MOST_ISSUES = 12
MOST_MOMENTS = 200


class Part(BaseModel):
    """The base of what a case is made of: immutable, unknown keys are errors, and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Issue(Part):
    """What is negotiated about."""

    id: Id
    title: Line
    aim: Line | None = None
    """What the person wants."""
    limit: Line | None = None
    """The worst that the person would take: the reservation point, which the counterparty never sees."""
    settled: Line | None = None
    """What both have agreed on."""


class Moment(Part):
    """What has happened, in one line."""

    turn: Annotated[int, Field(ge=0)]
    """0 is before the conversation."""
    text: Line


class CaseSnapshot(Part):
    """A negotiation as far as it is known. What is absent is unknown."""

    domain: Id
    """The id of the pack."""
    template: Id
    """The id of the template in the pack."""
    channel: Channel
    stage: Stage = "preparing"
    goal: Line | None = None
    """What the person wants to have reached."""
    alternative: Line | None = None
    """What the person does without an agreement: the BATNA, which the counterparty never sees."""
    issues: Annotated[list[Issue], Field(min_length=1, max_length=MOST_ISSUES)]
    slots: Annotated[dict[Id, Line], Field(max_length=30)] = {}
    """Answers to the questions of the template, by its slots."""
    timeline: Annotated[list[Moment], Field(max_length=MOST_MOMENTS)] = []
    """What has happened, in order."""

    @model_validator(mode="after")
    def _require_order(self) -> Self:
        ids = [issue.id for issue in self.issues]
        if len({*ids}) < len(ids):
            raise ValueError("two issues have the same id")
        turns = [moment.turn for moment in self.timeline]
        if turns != sorted(turns):
            raise ValueError("the timeline is not in the order of its turns")
        return self
