"""Strategy packs: those that ship are whole, and what is wrong with one has its file and its line."""

from pathlib import Path

import pytest

from agentic_backend.application import ConfigError
from agentic_backend.applications.negotiation.packs.pack import SHIPPED, Pack, read_packs, unknown_required_slots
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.loading import load_applications

STRATEGY = """\
  - id: way_{0}
    title: Way {0}
    fits: At times {0}.
    moves: [First {0}., Then {0}.]
    risks: [Risk {0}.]
    rubric:
      criteria:
        - {{id: clear, looks_at: Clarity, weak: Vague {0}, strong: Precise}}
        - {{id: kind, looks_at: Tone, weak: Harsh, strong: Kind}}
      good: [{{said: Good {0}., levels: {{clear: strong}}, why: It is clear.}}]
      bad: [{{said: Bad {0}., levels: {{kind: weak}}, why: It is harsh.}}]
"""
PACK = """\
manifest:
  id: rent
  title: Rent
  version: 1.0.0
  language: en
  licence: CC0-1.0
  authors: [Ann]
templates:
  - id: less
    title: Paying less
    counterparty: the landlord
    channel: phone
    issue: {id: rent, title: The rent}
    slots:
      - {id: now, question: What is it now?, required: true, signals: [way_1]}
      - {id: since, question: Since when?}
strategies:
""" + "".join(STRATEGY.format(number) for number in range(1, 9))

BROKEN = {
    "no manifest": ("manifest:", "manifesto:", "manifesto:", "unknown key"),
    "no id": ("  id: rent\n", "", "manifest:", "'id' is required"),
    "id with a space": ("id: rent\n", "id: the rent\n", "id: the rent", "expected"),
    "id too long": ("id: rent\n", f"id: {'r' * 41}\n", f"id: {'r' * 41}", "expected"),
    "no licence": ("  licence: CC0-1.0\n", "", "manifest:", "'licence' is required"),
    "empty licence": ("licence: CC0-1.0", "licence: ''", "licence: ''", "expected"),
    "version of two numbers": ("version: 1.0.0", "version: 1.0", "version: 1.0", "expected"),
    "unknown language": ("language: en", "language: tlh", "language: tlh", "expected 'en' or 'fr' or 'de'"),
    "no authors": ("authors: [Ann]", "authors: []", "authors: []", "at least 1"),
    "authors in one text": ("authors: [Ann]", "authors: Ann", "authors: Ann", "expected a list"),
    "unknown key of the manifest": ("  title: Rent\n", "  title: Rent\n  tilte: R\n", "tilte", "did you mean"),
    "no templates": ("templates:\n", "templates: []\nothers:\n", "templates: []", "at least 1"),
    "unknown channel": ("channel: phone", "channel: pigeon", "channel: pigeon", "expected 'in_person'"),
    "no default issue": ("    issue: {id: rent, title: The rent}\n", "", "- id: less", "'issue' is required"),
    "issue without title": ("{id: rent, title: The rent}", "{id: rent}", "issue: {id", "'title' is required"),
    "required is a text": ("required: true", "required: surely", "required: surely", "true or false"),
    "signal of no strategy": ("signals: [way_1]", "signals: [way_9]", "signals: [way_9]", "no strategy 'way_9'"),
    "slot twice": ("{id: since,", "{id: now,", "Since when", "the id 'now' is taken"),
    "slot without question": ("question: Since when?", "", "{id: since", "'question' is required"),
    "strategies as a text": ("strategies:\n", "strategies: none\nothers:\n", "strategies: none", "expected a list"),
    "seven strategies": (STRATEGY.format(8), "", "- id: way_1", "at least 8"),
    "strategy twice": ("- id: way_2\n", "- id: way_1\n", "- id: way_1\n    title: Way 2", "the id 'way_1' is taken"),
    "one move": ("moves: [First 3., Then 3.]", "moves: [First 3.]", "moves: [First 3.]", "at least 2"),
    "no risk": ("risks: [Risk 3.]", "risks: []", "risks: []", "at least 1"),
    "criterion twice": ("{id: kind,", "{id: clear,", "{id: clear, looks_at: Tone", "the id 'clear' is taken"),
    "criterion without levels": (", weak: Vague 4, strong: Precise", "", "{id: clear, looks_at: Clarity}", "'weak'"),
    "example of no criterion": ("{kind: weak}", "{tone: weak}", "{tone: weak}", "no criterion 'tone'"),
    "good example without strength": ("{clear: strong}", "{clear: weak}", "{clear: weak}", "is strong"),
    "bad example without weakness": ("{kind: weak}", "{kind: strong}", "{kind: strong}", "is weak"),
    "unknown level": ("{clear: strong}", "{clear: superb}", "{clear: superb}", "expected 'weak' or 'strong'"),
    "no bad example": (
        "bad: [{said: Bad 5., levels: {kind: weak}, why: It is harsh.}]",
        "bad: []",
        "bad: []",
        "least 1",
    ),
    "key twice": ("  title: Rent\n", "  title: Rent\n  title: Rents\n", "title: Rents", "duplicate key"),
    "a tag": ("title: Rent\n", "title: !!python/name:os.system\n", "!!python", "tag is not allowed"),
    "no YAML": ("authors: [Ann]", "authors: [Ann", "templates:", "is not YAML"),
}


def written(directory: Path, text: str, name: str = "rent.yaml") -> Path:
    file = directory / name
    file.write_text(text)
    return file


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_pack_has_its_file_and_line(tmp_path: Path, case: str) -> None:
    old, new, at, told = BROKEN[case]
    text = PACK.replace(old, new, 1)
    assert text != PACK
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        read_packs([file])
    line = text.count("\n", 0, text.index(at)) + 1
    places = {(problem.file, problem.line) for problem in raised.value.problems if told in problem.message}
    assert (str(file), line) in places, str(raised.value)


def test_problems_of_all_packs_are_told_at_once(tmp_path: Path) -> None:
    files = [written(tmp_path, PACK.replace("language: en", "language: 1"), name) for name in ("a.yaml", "b.yaml")]
    with pytest.raises(ConfigError) as raised:
        read_packs(files)
    assert [problem.file for problem in raised.value.problems] == [str(file) for file in files]


def test_two_packs_of_one_domain_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="another pack has the id 'rent' too"):
        read_packs([written(tmp_path, PACK), written(tmp_path, PACK, "again.yaml")])


def test_the_small_pack_is_sound(tmp_path: Path) -> None:
    assert [*read_packs([written(tmp_path, PACK)])] == ["rent"]


def shipped() -> dict[str, Pack]:
    return read_packs(sorted(SHIPPED.glob("*.yaml")))


def test_answers_signal_nearly_all_strategies_of_a_shipped_pack() -> None:
    for pack in shipped().values():
        ids = {strategy.id for strategy in pack.strategies}
        signalled = {signal for template in pack.templates for slot in template.slots for signal in slot.signals}
        assert len(ids) >= 8 and len(signalled) >= len(ids) - 2, (pack.manifest.id, ids - signalled)


def test_a_case_begins_with_what_its_template_says(tmp_path: Path) -> None:
    pack = read_packs([written(tmp_path, PACK)])["rent"]
    template = pack.template("less")
    assert template is not None and pack.template("more") is None
    snapshot = pack.begun(template)
    assert (snapshot.domain, snapshot.template, snapshot.channel, snapshot.stage) == (
        "rent",
        "less",
        "phone",
        "preparing",
    )
    assert [issue.id for issue in snapshot.issues] == ["rent"]
    assert [slot.id for slot in unknown_required_slots(template, snapshot)] == ["now"]
    answered = snapshot.model_copy(update={"slots": {"now": "900"}})
    assert unknown_required_slots(template, answered) == []


def test_a_broken_pack_keeps_the_application_away_and_has_its_place(tmp_path: Path) -> None:
    file = tmp_path / "rent.yaml"
    file.write_text("manifest:\n  id: rent\ntemplates: []\n")
    class_path = "agentic_backend.applications.negotiation.application:Negotiation"
    found = load_applications([ApplicationEntry(class_path=class_path, settings={"packs": [str(file)]})])
    assert found.refused == [class_path]
    assert f"{file}:3:12: templates: expected at least 1 value(s)" in map(str, found.problems)
