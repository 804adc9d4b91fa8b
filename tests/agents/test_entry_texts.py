import pytest
import yaml

from agentic_backend.agents.catalog.entry_texts import catalog_of, with_enabled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id: one # mine\nenabled: true # for now\n", "id: one # mine\nenabled: false # for now\n"),
        ("{id: one, enabled: yes}", "{id: one, enabled: false}"),
        ("id: one\n", "id: one\n"),
    ],
)
def test_an_entry_is_switched_off_where_it_says_so(text: str, expected: str) -> None:
    assert with_enabled(text, False) == expected


def test_a_value_that_stands_elsewhere_too_stays_there() -> None:
    text = "id: one\nhold_output: &on true\nenabled: *on\n"
    assert yaml.safe_load(with_enabled(text, False)) == {"id": "one", "hold_output": True, "enabled": False}
    anchored = "id: one\nenabled: &on true\nhold_output: *on\n"
    assert yaml.safe_load(with_enabled(anchored, False)) == {"id": "one", "hold_output": True, "enabled": False}


def test_what_a_merge_says_is_said_by_the_entry_itself() -> None:
    text = "id: one\n<<: {enabled: true}\n"
    assert yaml.safe_load(with_enabled(text, False)) == {"id": "one", "enabled": False}


def test_a_catalog_is_written_without_what_can_not_be_read() -> None:
    entries = [("id: one\n", True), ("id: [", True), ("id: two\nsince: 2026-13-45\n", True), ("id: x\nicon: =\n", True)]
    assert [each["id"] for each in read(catalog_of(entries))] == ["one", "x"]


def read(catalog: str) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = yaml.safe_load(catalog.replace(": =", ": '='"))["agents"]
    return entries
