"""What a counterparty may know is computed: from the world graph and disclosures, whatever a model answers."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from agentic_backend.applications.negotiation.case.snapshot import Issue
from agentic_backend.applications.negotiation.case.world import (
    Disclosure,
    Entity,
    Fact,
    Knowledge,
    Relation,
    World,
    allowed_facts,
    retrieved_facts,
    visible_facts,
)
from agentic_backend.applications.negotiation.context import UNKNOWN_BY_DESIGN, PromptMessage, context_payload
from agentic_backend.applications.negotiation.packs.pack import SHIPPED, read_packs

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def fact(name: str, *about: str, told_at: datetime = NOW, templates: tuple[str, ...] = ()) -> Fact:
    text = f"The canary of {name} sings."
    return Fact(id=name, text=text, about=list(about), told_at=told_at, templates=list(templates))


WORLD = World(
    entities=[Entity(id=name, kind="person", name=name.title()) for name in ("ann", "boss", "head", "owner", "bank")],
    relations=[
        Relation(source="ann", kind="reports_to", target="boss"),
        Relation(source="boss", kind="reports_to", target="head"),
        Relation(source="head", kind="reports_to", target="owner"),
    ],
    facts=[
        fact("pay", "ann", told_at=NOW - 9 * DAY),
        fact("offer", "ann"),
        fact("budget", "boss", templates=("raise",)),
        fact("sale", "head", "owner"),
        fact("debt", "owner"),
        fact("loan", "bank"),
    ],
    knowledge=[
        Knowledge(entity="boss", fact="pay", since=NOW - DAY),
        Knowledge(entity="boss", fact="budget", since=NOW + DAY),
        Knowledge(entity="head", fact="sale", since=NOW - DAY),
    ],
)
TOLD = [Disclosure(entity="boss", fact="offer", ordinal=7), Disclosure(entity="head", fact="debt", ordinal=1)]


@pytest.mark.parametrize(
    ("entity", "at", "ordinal", "allowed"),
    [
        ("boss", NOW, 0, {"pay"}),
        ("boss", NOW - 2 * DAY, 0, set()),
        ("boss", NOW + DAY, 0, {"pay", "budget"}),
        ("boss", NOW, 7, {"pay"}),
        ("boss", NOW, 8, {"pay", "offer"}),
        ("head", NOW, 8, {"sale", "debt"}),
        ("bank", NOW + 9 * DAY, 99, set()),
        ("nobody", NOW, 99, set()),
    ],
)
def test_one_knows_what_one_knew_by_then_or_was_told_before(
    entity: str, at: datetime, ordinal: int, allowed: set[str]
) -> None:
    assert allowed_facts(WORLD, TOLD, entity, at=at, ordinal=ordinal) == allowed


def test_a_disclosure_of_a_fact_that_is_gone_allows_nothing() -> None:
    told = [Disclosure(entity="bank", fact="gone", ordinal=0)]
    assert allowed_facts(WORLD, told, "bank", at=NOW, ordinal=1) == set()


@pytest.mark.parametrize(
    ("hops", "template", "found"),
    [
        (0, "raise", ["offer", "pay"]),
        (1, "raise", ["offer", "pay", "budget"]),
        (1, "offer", ["offer", "pay"]),
        (2, "raise", ["offer", "pay", "budget", "sale"]),
    ],
)
def test_near_facts_are_found_and_late_ones_come_first(hops: int, template: str, found: list[str]) -> None:
    assert [each.id for each in retrieved_facts(WORLD, ["ann", "x"], template=template, hops=hops)] == found


def test_nobody_looks_three_relations_away() -> None:
    with pytest.raises(ValueError, match="hops"):
        retrieved_facts(WORLD, ["ann"], template="raise", hops=3)


@pytest.mark.parametrize(
    ("chosen", "seen"),
    [
        (None, ["offer", "pay"]),
        ([], []),
        (["pay"], ["pay"]),
        (["pay", "pay", "sale", "debt", "loan", "*"], ["pay"]),
        ([None, 3, {"id": "sale"}, ["sale"], "sale", "PAY"], []),
    ],
)
def test_a_model_chooses_among_what_is_allowed_and_adds_nothing(chosen: Any, seen: list[str]) -> None:
    candidates = retrieved_facts(WORLD, ["ann"], template="raise")
    allowed = allowed_facts(WORLD, TOLD, "boss", at=NOW, ordinal=8)
    assert [each.id for each in visible_facts(candidates, allowed, chosen)] == seen


def test_no_byte_of_what_the_counterparty_does_not_know_is_in_the_payload() -> None:
    pack = read_packs([SHIPPED / "salary.yaml"])["salary"]
    template = pack.template("raise")
    assert template is not None
    canary = "canary of the person"
    issue = Issue(id="base_pay", title=f"{canary} 1", aim=f"{canary} 2", limit=f"{canary} 3")
    slots = {"current_pay": f"{canary} 4"}
    update = {"goal": f"{canary} 5", "alternative": f"{canary} 6", "issues": [issue], "slots": slots}
    snapshot = pack.begun(template).model_copy(update=update)
    random = Random(5)
    ids = [each.id for each in WORLD.facts]
    for _ in range(300):
        known = set(random.sample(ids, random.randrange(len(ids))))
        edges = [Knowledge(entity="boss", fact=each, since=NOW) for each in sorted(known)]
        world = WORLD.model_copy(update={"knowledge": edges})
        allowed = allowed_facts(world, [], "boss", at=NOW, ordinal=0)
        chosen = random.choice([None, ids, random.sample(ids, 3)])
        visible = visible_facts(world.facts, allowed, chosen)
        written = context_payload(template, snapshot, visible, [], "Good morning.").model_dump_json()
        assert canary not in written
        assert {each.id for each in world.facts if each.text in written} == known & set(
            ids if chosen is None else chosen
        )


def test_the_payload_says_what_is_unknown() -> None:
    pack = read_packs([SHIPPED / "salary.yaml"])["salary"]
    template = pack.template("raise")
    assert template is not None
    history = [PromptMessage(role="user", content="Hello."), PromptMessage(role="assistant", content="Come in.")]
    payload = context_payload(template, pack.begun(template), WORLD.facts[:1], history, "May we talk?")
    system, *said = payload.prompt_messages
    assert UNKNOWN_BY_DESIGN in system.content and payload.unknown_by_design_note == UNKNOWN_BY_DESIGN
    assert WORLD.facts[0].text in system.content and template.counterparty in system.content
    assert said == [*history, PromptMessage(role="user", content="May we talk?")]
    assert payload.unknown_required_slots == ["current_pay", "wanted_pay", "results"]


@pytest.mark.parametrize(
    ("key", "part", "told"),
    [
        ("facts", fact("new", "nobody"), "no entity 'nobody'"),
        ("facts", fact("pay", "ann"), "the same id"),
        ("entities", Entity(id="ann", kind="thing", name="Ann"), "the same id"),
        ("relations", Relation(source="ann", kind="knows", target="nobody"), "no entity 'nobody'"),
        ("knowledge", Knowledge(entity="ann", fact="gone", since=NOW), "no fact 'gone'"),
        ("knowledge", Knowledge(entity="nobody", fact="pay", since=NOW), "no entity 'nobody'"),
    ],
)
def test_what_an_edge_names_is_there(key: str, part: Any, told: str) -> None:
    parts = {name: list(getattr(WORLD, name)) for name in World.model_fields}
    parts[key].append(part)
    with pytest.raises(ValidationError, match=told):
        World(**parts)
