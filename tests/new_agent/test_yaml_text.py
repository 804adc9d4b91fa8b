"""Entries are added to YAML as a person would: what is there stays, with its comments."""

import pytest
import yaml

from agentic_backend.new_agent.errors import CannotWrite
from agentic_backend.new_agent.yaml_text import with_entries

ENTRY = "- id: b\n  # Kept too.\n  tags: [x]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "agents:\n  - id: b\n    # Kept too.\n    tags: [x]\n"),
        ("# Mine.\nagents:\n", "# Mine.\nagents:\n  - id: b\n    # Kept too.\n    tags: [x]\n"),
        ("agents: []  # none\n", "agents:  # none\n  - id: b\n    # Kept too.\n    tags: [x]\n"),
        ("agents: null", "agents:\n  - id: b\n    # Kept too.\n    tags: [x]\n"),
        (
            "agents:\n- id: a  # first\n  # last words",
            "agents:\n- id: a  # first\n  # last words\n\n- id: b\n  # Kept too.\n  tags: [x]\n",
        ),
        (
            "agents:\n    - id: a\n\n# Of the rest.\nother: 1\n",
            "agents:\n    - id: a\n\n    - id: b\n      # Kept too.\n      tags: [x]\n\n\n# Of the rest.\nother: 1\n",
        ),
        ("other: |\n  text\n", "other: |\n  text\n\nagents:\n  - id: b\n    # Kept too.\n    tags: [x]\n"),
    ],
)
def test_what_is_there_stays(before: str, after: str) -> None:
    assert with_entries(before, "agents", ENTRY) == after


def test_entries_of_a_mapping_are_added_too() -> None:
    assert with_entries("m:\n  a: {x: 1}\n", "m", "b:\n  x: 2\n") == "m:\n  a: {x: 1}\n\n  b:\n    x: 2\n"


def test_lines_may_end_as_on_windows() -> None:
    found = with_entries("agents:\r\n- id: a\r\n", "agents", ENTRY)
    assert found.startswith("agents:\r\n- id: a\r\n")
    assert yaml.safe_load(found) == {"agents": [{"id": "a"}, {"id": "b", "tags": ["x"]}]}


@pytest.mark.parametrize(
    "text",
    [
        "agents: [{id: a}]\n",
        "{agents: []}\n",
        "agents: {id: a}\n",
        "agents: some\n",
        "- id: a\n",
        "agents: [\n",
        "agents:\n- id: a\n...\n",
        "agents: &them\n- id: a\nothers: *them\nagents: []\n",
    ],
)
def test_what_only_a_person_can_add_to_is_refused_with_what_to_add(text: str) -> None:
    with pytest.raises(CannotWrite, match="- id: b"):
        with_entries(text, "agents", ENTRY)
