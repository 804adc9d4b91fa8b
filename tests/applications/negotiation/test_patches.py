"""Patches of a case: what is applied, and what is refused in words, the snapshot unchanged."""

from typing import Any

import pytest

from agentic_backend.applications.negotiation.case.patches import PatchRefused, parsed_patch, patched
from agentic_backend.applications.negotiation.case.snapshot import CaseSnapshot, Issue, Moment

SNAPSHOT = CaseSnapshot(
    domain="salary",
    template="raise",
    channel="phone",
    goal="More pay",
    issues=[Issue(id="base_pay", title="Base pay", aim="58"), Issue(id="hours", title="Hours")],
    slots={"current_pay": "47"},
    timeline=[Moment(turn=0, text="The case began."), Moment(turn=2, text="They asked why.")],
)


def op(name: str, path: Any, **members: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **{key.rstrip("_"): value for key, value in members.items()}}


WHOLE = {
    "replace": ([op("replace", "/goal", value="58 from May")], "goal", "58 from May"),
    "add to a null": ([op("add", "/alternative", value="Stay")], "alternative", "Stay"),
    "move": ([op("move", "/alternative", from_="/goal"), op("add", "/goal", value="x")], "alternative", "More pay"),
    "copy": ([op("copy", "/alternative", from_="/goal")], "alternative", "More pay"),
    "remove a slot": ([op("remove", "/slots/current_pay")], "slots", {}),
    "test, then replace": (
        [op("test", "/stage", value="preparing"), op("replace", "/stage", value="opening")],
        "stage",
        "opening",
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_patch_is_applied_whole(case: str) -> None:
    operations, field, value = WHOLE[case]
    assert getattr(patched(SNAPSHOT, operations), field) == value


def test_the_timeline_is_added_to() -> None:
    after = patched(SNAPSHOT, [op("add", "/timeline/-", value={"turn": 3, "text": "They offered 52."})])
    assert after.timeline == [*SNAPSHOT.timeline, Moment(turn=3, text="They offered 52.")]


def test_a_model_may_write_it_in_a_fence() -> None:
    assert parsed_patch('```json\n[{"op": "remove", "path": "/goal"}]\n```') == [{"op": "remove", "path": "/goal"}]


PATHS = ["", "goal", "/", "/nothing", "/issues/2", "/issues/-1", "/issues/01", "/issues/-", "/issues/x", "/goal/x"]
PATHS += ["/timeline/0/turn/x", "/slots/none", "/~2", "/goal~", None, 7, ["goal"], {"a": 1}, "/issues/0/none", "#/goal"]
WRONG_VALUES = [
    ("/goal", 7),
    ("/goal", ""),
    ("/goal", "   "),
    ("/goal", "x" * 301),
    ("/goal", ["More"]),
    ("/stage", "haggling"),
    ("/stage", None),
    ("/channel", "pigeon"),
    ("/channel", None),
    ("/domain", "procurement"),
    ("/template", "offer"),
    ("/domain", None),
    ("/issues", []),
    ("/issues", {}),
    ("/issues", [{"id": "a", "title": "A"}] * 2),
    ("/issues", [{"id": f"i{number}", "title": "A"} for number in range(13)]),
    ("/issues/0", "Base pay"),
    ("/issues/0", {"id": "base_pay"}),
    ("/issues/0/id", "hours"),
    ("/issues/0/id", "Base pay"),
    ("/issues/0/title", None),
    ("/issues/0/aim", 58),
    ("/slots", []),
    ("/slots/current_pay", 47),
    ("/slots/current_pay", None),
    ("/slots", {"Current pay": "47"}),
    ("/slots", {f"s{number}": "x" for number in range(31)}),
    ("/timeline", []),
    ("/timeline", None),
    ("/timeline/0/text", "It never began."),
    ("/timeline/1", {"turn": 2, "text": "They agreed."}),
]
ADDED = [
    ("/strategy", "anchor_first"),
    ("/issues/0/theirs", "50"),
    ("/timeline/0", {"turn": 0, "text": "Before."}),
    ("/timeline/-", {"turn": 1, "text": "Too late."}),
    ("/timeline/-", {"turn": -1, "text": "Too early."}),
    ("/timeline/-", {"turn": 3.0, "text": "A fraction."}),
    ("/timeline/-", {"turn": "3", "text": "A text."}),
    ("/timeline/-", {"turn": True, "text": "A truth value."}),
    ("/timeline/-", {"turn": 3}),
    ("/timeline/-", "They agreed."),
    ("/issues/-", {"id": "hours", "title": "Again"}),
    ("/issues/9", {"id": "more", "title": "Beyond"}),
    ("/slots/" + "x" * 41, "y"),
    ("/slots/__proto__", "y"),
    ("/goal", "x" * 70_000),
    ("/goal", float("nan")),
]
SHAPES: list[list[Any]] = [
    [],
    [None],
    ["replace"],
    [[op("remove", "/goal")]],
    [{}],
    [{"op": "remove"}],
    [{"path": "/goal"}],
    [op("delete", "/goal")],
    [op("REMOVE", "/goal")],
    [{"op": ["remove"], "path": "/goal"}],
    [{"op": None, "path": "/goal"}],
    [op("add", "/goal")],
    [op("replace", "/goal")],
    [op("test", "/goal")],
    [op("move", "/goal")],
    [op("copy", "/goal", value="x")],
    [op("remove", "/goal", value="x")],
    [op("remove", "/goal", reason="It is done.")],
    [op("copy", "/goal", from_=None)],
    [op("copy", "/goal", from_="/nothing")],
    [op("move", "/issues/0/title", from_="/issues/0")],
    [op("move", "/stage", from_="/goal")],
    [op("test", "/goal", value="Less pay")],
    [op("replace", "/goal", value="done"), op("test", "/goal", value="undone")],
    [op("replace", "/goal", value="done"), op("remove", "/nothing")],
    [op("remove", "/domain")],
    [op("remove", "/channel")],
    [op("remove", "/issues")],
    [op("remove", "/timeline/0")],
    [op("move", "/timeline/0", from_="/timeline/1")],
    [op("remove", "/goal")] * 51,
    [op("add", "/slots/a", value="x" * 300)] + [op("copy", "/slots/b", from_="/slots")] * 40,
]
MALFORMED = [
    *([op("remove", path)] for path in PATHS),
    *([op("replace", path, value=value)] for path, value in WRONG_VALUES),
    *([op("add", path, value=value)] for path, value in ADDED),
    *SHAPES,
]
TEXTS = [
    "",
    "No change.",
    "{",
    "null",
    "{}",
    '"remove"',
    "[NaN]",
    "[1,]",
    "[" * 10_000,
    " " * 3 + "[]" + "x",
    "[" + "1" * 70_000 + "]",
]


def test_there_are_a_hundred_malformed_ones() -> None:
    assert len(MALFORMED) + len(TEXTS) >= 100


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_a_malformed_patch_is_refused_in_words_and_changes_nothing(number: int) -> None:
    before = SNAPSHOT.model_dump_json()
    with pytest.raises(PatchRefused) as refused:
        patched(SNAPSHOT, MALFORMED[number])
    assert SNAPSHOT.model_dump_json() == before
    assert 10 < len(str(refused.value)) < 400


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_a_text_that_is_no_patch_is_refused_in_words(number: int) -> None:
    with pytest.raises(PatchRefused) as refused:
        patched(SNAPSHOT, parsed_patch(TEXTS[number]))
    assert 10 < len(str(refused.value)) < 400


def test_copies_of_copies_end_at_the_bound_and_not_after_the_last() -> None:
    doubling = [op("copy", f"/slots/c{number}", from_="/slots") for number in range(12)]
    with pytest.raises(PatchRefused, match=r"operation \d+ makes the case larger than"):
        patched(SNAPSHOT, [op("add", "/slots/a", value="x" * 300), *doubling])
