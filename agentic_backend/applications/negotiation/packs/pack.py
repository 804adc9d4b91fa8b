"""A strategy pack: its manifest, its templates, its strategies, and a rubric for each, with written examples.

A pack is one YAML file. Whatever is wrong with one is a ConfigError whose every problem has file, line and column.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from agentic_backend.application import ConfigError, ConfigProblem, checked_yaml, rule_broken
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot, Channel, Id, Issue, Line, Text

Version = Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
SHIPPED = Path(__file__).parent / "shipped"
LEAST_STRATEGIES = 8


class PackPart(BaseModel):
    """The base of what a pack is made of: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Manifest(PackPart):
    """What a pack is, and under which licence."""

    id: Id
    """The domain of cases."""
    title: Line
    version: Version
    language: Literal["en", "fr", "de"]
    licence: Line
    """An SPDX identifier, such as `CC-BY-4.0`."""
    authors: Annotated[list[Line], Field(min_length=1)]


class Slot(PackPart):
    """What a template asks the person."""

    id: Id
    question: Line
    required: bool = False
    signals: list[Id] = []
    """The strategies for which the answer counts."""


class Template(PackPart):
    """A kind of case: who is met, what about, and what is asked before."""

    id: Id
    title: Line
    counterparty: Line
    """The role of whom the person meets, such as `the person's manager`."""
    channel: Channel
    issue: Issue
    """The default issue, with which a case begins."""
    slots: Annotated[list[Slot], Field(min_length=1, max_length=20)]


class Criterion(PackPart):
    """What a rubric looks at, and what tells the levels apart."""

    id: Id
    looks_at: Line
    weak: Line
    strong: Line


class Example(PackPart):
    """Something said, and what the rubric says of it."""

    said: Text
    levels: Annotated[dict[Id, Literal["weak", "strong"]], Field(min_length=1)]
    """By criterion."""
    why: Line


class Rubric(PackPart):
    """How an attempt at a strategy is judged, with examples of both kinds."""

    criteria: Annotated[list[Criterion], Field(min_length=2, max_length=6)]
    good: Annotated[list[Example], Field(min_length=1)]
    bad: Annotated[list[Example], Field(min_length=1)]

    @model_validator(mode="after")
    def _require_criteria(self) -> Self:
        known = _unique(self.criteria, "criteria")
        for name, wanted, examples in (("good", "strong", self.good), ("bad", "weak", self.bad)):
            for index, example in enumerate(examples):
                for criterion in example.levels:
                    if criterion not in known:
                        raise rule_broken(
                            f"the rubric has no criterion {criterion!r}", name, index, "levels", criterion
                        )
                if wanted not in example.levels.values():
                    raise rule_broken(f"no criterion of this example is {wanted}", name, index, "levels")
        return self


class Strategy(PackPart):
    """A way to negotiate: when it fits, what it does, and how an attempt at it is judged."""

    id: Id
    title: Line
    fits: Text
    """When it fits, and when it doesn't."""
    moves: Annotated[list[Line], Field(min_length=2, max_length=8)]
    risks: Annotated[list[Line], Field(min_length=1, max_length=5)]
    rubric: Rubric


class Pack(PackPart):
    """A domain of cases."""

    manifest: Manifest
    templates: Annotated[list[Template], Field(min_length=1, max_length=20)]
    strategies: Annotated[list[Strategy], Field(min_length=LEAST_STRATEGIES, max_length=40)]

    @model_validator(mode="after")
    def _require_references(self) -> Self:
        _unique(self.templates, "templates")
        strategies = _unique(self.strategies, "strategies")
        for number, template in enumerate(self.templates):
            _unique(template.slots, "templates", number, "slots")
            for index, slot in enumerate(template.slots):
                for place, signal in enumerate(slot.signals):
                    if signal not in strategies:
                        at = ("templates", number, "slots", index, "signals", place)
                        raise rule_broken(f"the pack has no strategy {signal!r}", *at)
        return self

    def template(self, template_id: str) -> Template | None:
        return next((each for each in self.templates if each.id == template_id), None)

    def begun(self, template: Template, channel: Channel | None = None) -> CaseSnapshot:
        """The snapshot with which a case of this template begins."""
        channel = channel or template.channel
        return CaseSnapshot(domain=self.manifest.id, template=template.id, channel=channel, issues=[template.issue])


def read_packs(files: Sequence[Path]) -> dict[str, Pack]:
    """The packs of these files, by domain. Raises ConfigError, with the problems of all of them."""
    packs: dict[str, Pack] = {}
    problems: list[ConfigProblem] = []
    for file in files:
        try:
            pack = checked_yaml(file, Pack)
        except ConfigError as error:
            problems += error.problems
            continue
        if packs.setdefault(pack.manifest.id, pack) is not pack:
            told = f"another pack has the id {pack.manifest.id!r} too"
            problems.append(ConfigProblem(str(file), 1, 1, "manifest.id", told))
    if problems:
        raise ConfigError(problems)
    return packs


def unknown_required_slots(template: Template, snapshot: CaseSnapshot) -> list[Slot]:
    """What the template requires and the snapshot does not have, in the template's order."""
    return [slot for slot in template.slots if slot.required and slot.id not in snapshot.slots]


def _unique(parts: Iterable[Slot | Template | Strategy | Criterion], *at: str | int) -> set[str]:
    ids: set[str] = set()
    for index, part in enumerate(parts):
        if part.id in ids:
            raise rule_broken(f"the id {part.id!r} is taken", *at, index, "id")
        ids.add(part.id)
    return ids
