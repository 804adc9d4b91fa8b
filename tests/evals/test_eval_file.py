"""What is wrong with a file of evals is told with its place, before anything is asked."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.log_lines import logging_as_before, problems

from agentic_backend.cli import main
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.evals.eval_file import read_evals


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    with logging_as_before():
        yield tmp_path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cases: [", "evals.yaml:1:"),
        ("", "evals.yaml:1:1: cases: the key 'cases' is required"),
        ("cases: []", "evals.yaml:1:8: cases: expected at least one case"),
        ("cases: [{ask: x, chekcs: {}}]", "evals.yaml:1:18: cases[0].chekcs: unknown key 'chekcs'; did you mean 'ch"),
        ("cases:\n  - checks: {}", "evals.yaml:2:5: cases[0]: expected either 'ask' or 'turns'"),
        ("cases: [{ask: x, turns: [y]}]", "cases[0]: expected either 'ask' or 'turns'"),
        ("cases: [{ask: x, checks: {contains: 7}}]", "evals.yaml:1:37: cases[0].checks.contains: expected "),
        ("cases: [{ask: x, checks: {status: good}}]", "checks.status: expected 'ok' or 'error'"),
        ("cases: [{ask: x, checks: {regex: '(a'}}]", "checks.regex: is no regular expression of RE2: missing ): (a"),
        ("cases: [{ask: x, checks: {json_schema: {type: thing}}}]", "checks.json_schema: is no JSON Schema: "),
        ("cases: [{ask: x, checks: {json_schema: {$ref: '#/no'}}}]", "is no JSON Schema that can be checked: the ref"),
        (
            "cases: [{ask: x, checks: {tool_called: {name: y, args: {due: [2026-01-31]}}}}]",
            "tool_called[0].args: 2026-01-31 without quotes is a date",
        ),
        ("cases: [{ask: x, checks: {json_schema: {const: 2026-01-31}}}]", "json_schema: 2026-01-31 without quotes"),
        ("cases: [{ask: x, checks: {tool_called: {nam: y}}}]", "unknown key 'nam'; did you mean 'name'"),
        (
            "cases: [{ask: x, checks: {judge: {criterion: y, min_score: 9}}}]",
            "expected an integer from 1 to 5, found 9",
        ),
        ("cases: [{ask: x, repeat: 0}]", "cases[0].repeat: expected an integer from 1 to 100, found 0"),
        ("cases: [{ask: x, approve: some}]", "cases[0].approve: expected 'all', 'none' or a list"),
        ("cases: [{id: a, ask: x}, {id: a, ask: y}]", "evals.yaml:1:31: cases[1].id: the id 'a' is taken by case 1"),
        (
            "cases: [{ask: x, agent: asistant}]",
            "cases[0].agent: there is no agent 'asistant'; did you mean 'assistant'",
        ),
        ("defaults: {agent: me}\ncases: [{ask: x}]", "evals.yaml:1:19: defaults.agent: there is no agent 'me'"),
        ("cases: [{ask: x, checks: {judge: {criterion: y, model: z}}}]", "judge.model: there is no model 'z'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, told: str, directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "evals.yaml").write_text(text)
    assert main(["eval", "evals.yaml"]) == 2
    output = capfd.readouterr()
    assert output.out == ""
    assert told in "\n".join(problems(output.err))


def test_a_case_says_more_than_the_defaults(directory: Path) -> None:
    (directory / "evals.yaml").write_text(
        "defaults: {repeat: 3, agent: one, checks: {contains: a, max_tokens: 9}}\n"
        "cases: [{ask: x}, {ask: y, agent: two, repeat: 1, checks: {contains: [b, c], status: error}}]\n"
    )
    first, second = read_evals(directory / "evals.yaml").cases
    assert (first.id, first.agent, first.repeat) == ("case 1", "one", 3)
    assert (first.checks.contains, first.checks.max_tokens, first.checks.status) == (("a",), 9, "ok")
    assert (second.id, second.agent, second.repeat) == ("case 2", "two", 1)
    assert (second.checks.contains, second.checks.max_tokens, second.checks.status) == (("b", "c"), 9, "error")


def test_a_file_that_is_not_there_is_told(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: there is no such file"):
        read_evals(directory / "absent.yaml")


@pytest.mark.parametrize("written", ["{}", "no JSON"])
def test_a_run_before_that_cannot_be_read_is_told(
    directory: Path, written: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (directory / "evals.yaml").write_text("cases: [{ask: x}]")
    (directory / "before.json").write_text(written)
    assert main(["eval", "evals.yaml", "--compare", "before.json"]) == 2
    assert problems(capfd.readouterr().err) == ["before.json: is not what --json of an eval has written"]
