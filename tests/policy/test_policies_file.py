"""The policies file: what it may say, and where its problems are."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.policy.scopes.policies_file import KnownNames, Policies, read_policies

KNOWN = KnownNames(models={"default", "small"}, chat_profiles={"default", "compact"}, modules={"words"})

CLOSES_AT = "assignments.a.closes_at: expected a time with its zone, such as 2026-03-01T08:00:00+01:00, found"


def written(directory: Path, text: str) -> Path:
    path = directory / "policies.yaml"
    path.write_text(text)
    return path


def problems_of(directory: Path, text: str) -> list[str]:
    path = written(directory, text)
    with pytest.raises(ConfigError) as failed:
        read_policies(path, KNOWN)
    return [str(problem).removeprefix(f"{path}:") for problem in failed.value.problems]


def test_without_a_file_nothing_is_set() -> None:
    assert read_policies(None, KNOWN) == Policies()


def test_an_entry_has_its_values_and_their_lines(tmp_path: Path) -> None:
    text = "classes:\n  7b:\n    model: small\n    limits:\n      max_messages: 3\n    modules: {words: false}\n"
    policies = read_policies(written(tmp_path, text), KNOWN)
    entry = policies.entry("class", "7b")
    assert entry is not None
    assert dict(entry.set_values) == {"model": "small", "limits.max_messages": 3, "modules.words": False}
    lines = {name: policies.line_of("class", "7b", name) for name, _ in entry.set_values}
    assert lines == {"model": 3, "limits.max_messages": 5, "modules.words": 6}
    assert policies.models == {"small"}


def test_null_is_a_value_and_an_absent_key_is_none(tmp_path: Path) -> None:
    policies = read_policies(written(tmp_path, "tasks:\n  t:\n    limits: {max_messages: null}\n"), KNOWN)
    entry = policies.entry("task", "t")
    assert entry is not None and dict(entry.set_values) == {"limits.max_messages": None}


def test_an_assignment_has_hours_and_an_organisation_a_path(tmp_path: Path) -> None:
    text = "assignments:\n  a:\n    available_at: 2026-03-01T08:00:00+01:00\n    closes_at: 2026-03-02T08:00:00Z\n"
    policies = read_policies(written(tmp_path, text + "organisations:\n  o: {path: /schools/o}\n"), KNOWN)
    entry = policies.entry("assignment", "a")
    assert entry is not None
    opens, closes = datetime(2026, 3, 1, 7, tzinfo=UTC), datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert dict(entry.set_values) == {"available_at": opens, "closes_at": closes}
    assert policies.line_of("assignment", "a", "closes_at") == 4
    organisation = policies.entry("organisation", "o")
    assert organisation is not None and organisation.model_dump(exclude_unset=True) == {"path": "/schools/o"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("assignments:\n  a: {closes_at: 2026-03-01T08:00:00}\n", f"2:18: {CLOSES_AT} 2026-03-01 08:00:00"),
        ("assignments:\n  a: {closes_at: 2026-03-01}\n", f"2:18: {CLOSES_AT} 2026-03-01"),
        ("assignments:\n  a: {closes_at: soon}\n", f"2:18: {CLOSES_AT} soon"),
        (
            "assignments:\n  a: {available_at: 2026-03-01T08:00:00Z, closes_at: 2026-03-01T08:00:00Z}\n",
            "2:6: assignments.a: available_at must be before closes_at",
        ),
        (
            "classes:\n  a: {closes_at: 2026-03-01T08:00:00Z}\n",
            "2:7: classes.a.closes_at: unknown key 'closes_at'; the keys here are name, access, model, chat_profile, "
            "limits, modules, prompts, organisation",
        ),
        (
            "organisations:\n  o: {path: schools/o}\n",
            "2:13: organisations.o.path: expected a path, such as /schools/acme",
        ),
        ("tasks:\n  t: {model: smal}\n", "2:14: tasks.t.model: there is no model 'smal'; did you mean 'small'?"),
        (
            "tasks:\n  t:\n    chat_profile: compcat\n",
            "3:19: tasks.t.chat_profile: there is no chat profile 'compcat'; did you mean 'compact'?",
        ),
        (
            "tasks:\n  t:\n    modules:\n      word: true\n",
            "4:13: tasks.t.modules.word: there is no module 'word'; did you mean 'words'?",
        ),
        (
            "assignments:\n  a:\n    class: 7b\nclasses:\n  7c: {}\n",
            "3:12: assignments.a.class: there is no class '7b'; there is 7c",
        ),
        (
            "assignments:\n  a:\n    limit: {}\n",
            "3:5: assignments.a.limit: unknown key 'limit'; did you mean 'limits'?",
        ),
        (
            "tasks:\n  t: {limits: {max_messages: 0}}\n",
            "2:30: tasks.t.limits.max_messages: expected an integer from 1 to 1000000 or null, found 0",
        ),
        ("tasks:\n  2024-01-01: {}\n", "2:3: tasks.2024-01-01: this key is not text; put it in quotes"),
        ("tasks:\n  '': {}\n", "2:3: tasks.: this key is empty or too long"),
        ("organisations:\n  1: {}\n", "2:3: organisations[1]: this key is not text; put it in quotes"),
    ],
)
def test_a_problem_names_its_place(tmp_path: Path, text: str, problem: str) -> None:
    [found] = problems_of(tmp_path, text)
    assert found == problem


def test_a_model_of_a_provider_needs_no_name_in_the_settings(tmp_path: Path) -> None:
    policies = read_policies(written(tmp_path, "tasks: {t: {model: 'openai:gpt-5.5'}}"), KNOWN)
    assert policies.models == {"openai:gpt-5.5"}
