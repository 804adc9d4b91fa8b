"""The world graph of a case: entities, facts, relations, and who knows what since when.

It is sparse: absence is unknown. What a counterparty may know is computed here, by code. A model may choose among
these ids and can add none to them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from agentic_backend.applications.negotiation.case.snapshot import Id, Line, Part

MOST_ENTITIES = 200
MOST_FACTS = 1_000
MOST_EDGES = 5_000
MOST_HOPS = 2


class Entity(Part):
    """Somebody or something of the world."""

    id: Id
    kind: Literal["person", "organisation", "thing", "place"]
    name: Line
    role: Line | None = None


class Fact(Part):
    """Something that is so, in a sentence of its own."""

    id: Id
    text: Line
    about: Annotated[list[Id], Field(min_length=1, max_length=10)]
    """Entities."""
    templates: list[Id] = Field(default=[], max_length=20)
    """The templates for which it counts; none: for all."""
    told_at: AwareDatetime
    """When it came into the graph: of facts that are as near, later ones come first."""


class Relation(Part):
    """How one entity stands to another."""

    source: Id
    kind: Id
    """Such as `reports_to`."""
    target: Id


class Knowledge(Part):
    """That an entity knows a fact, since when."""

    entity: Id
    fact: Id
    since: AwareDatetime


class Disclosure(Part):
    """That an entity has learned a fact within one session."""

    entity: Id
    fact: Id
    ordinal: Annotated[int, Field(ge=0)]
    """Of the event with which it did: what comes before it was said without the fact."""


class World(Part):
    """A world graph. Whatever an edge names is there."""

    entities: list[Entity] = Field(default=[], max_length=MOST_ENTITIES)
    facts: list[Fact] = Field(default=[], max_length=MOST_FACTS)
    relations: list[Relation] = Field(default=[], max_length=MOST_EDGES)
    knowledge: list[Knowledge] = Field(default=[], max_length=MOST_EDGES)

    @model_validator(mode="after")
    def _require_ends(self) -> Self:
        entities = _ids("entity", self.entities)
        facts = _ids("fact", self.facts)
        named = [entity for fact in self.facts for entity in fact.about]
        named += [end for relation in self.relations for end in (relation.source, relation.target)]
        named += [edge.entity for edge in self.knowledge]
        for entity in named:
            if entity not in entities:
                raise ValueError(f"there is no entity '{entity}'")
        for edge in self.knowledge:
            if edge.fact not in facts:
                raise ValueError(f"there is no fact '{edge.fact}'")
        return self


def allowed_facts(
    world: World, disclosures: Iterable[Disclosure], entity: str, *, at: AwareDatetime, ordinal: int
) -> set[str]:
    """The ids of the facts that this entity knows at that time, or has learned in the session before this ordinal."""
    known = {edge.fact for edge in world.knowledge if edge.entity == entity and edge.since <= at}
    learned = {each.fact for each in disclosures if each.entity == entity and each.ordinal < ordinal}
    return (known | learned) & {fact.id for fact in world.facts}


def retrieved_facts(world: World, attached: Iterable[str], *, template: str, hops: int = MOST_HOPS) -> list[Fact]:
    """The facts about the attached entities and those up to `hops` relations away: near ones first, then late ones.

    Facts of other templates are left out. Raises ValueError for hops that are not 0, 1 or 2.
    """
    distances = _distances(world, attached, hops)
    near = [
        (min(distances[entity] for entity in fact.about if entity in distances), fact)
        for fact in world.facts
        if any(entity in distances for entity in fact.about) and (not fact.templates or template in fact.templates)
    ]
    near.sort(key=lambda each: (each[0], -each[1].told_at.timestamp(), each[1].id))
    return [fact for _, fact in near]


def visible_facts(candidates: Sequence[Fact], allowed: set[str], chosen: Iterable[object] | None) -> list[Fact]:
    """Of the candidates those that are allowed, and that a model has chosen; None: it was not asked.

    `chosen` may be anything that a model answers: what is no allowed id counts for nothing.
    """
    ids = allowed if chosen is None else allowed & {each for each in chosen if isinstance(each, str)}
    return [fact for fact in candidates if fact.id in ids]


def _distances(world: World, attached: Iterable[str], hops: int) -> dict[str, int]:
    if hops not in range(MOST_HOPS + 1):
        raise ValueError(f"{hops} is no number of hops from 0 to {MOST_HOPS}")
    neighbours: defaultdict[str, set[str]] = defaultdict(set)
    for relation in world.relations:
        neighbours[relation.source].add(relation.target)
        neighbours[relation.target].add(relation.source)
    known = {entity.id for entity in world.entities}
    reached = {entity: 0 for entity in attached if entity in known}
    edge = [*reached]
    for distance in range(1, hops + 1):
        edge = list({other for entity in edge for other in neighbours[entity]} - reached.keys())
        reached |= dict.fromkeys(edge, distance)
    return reached


def _ids(what: str, parts: Sequence[Entity] | Sequence[Fact]) -> set[str]:
    ids = {part.id for part in parts}
    if len(ids) < len(parts):
        raise ValueError(f"two {what} parts have the same id")
    return ids
