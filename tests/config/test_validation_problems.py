from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agentic_backend.config.yaml.located_yaml import ConfigProblem, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, validation_problems


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    agent_id: str
    labels: dict[Annotated[str, Field(pattern="^[a-z]+$")], int] = {}


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    port: int = Field(0, ge=0, le=65535)
    ratio: float = Field(1, gt=0, le=2)
    least: int = Field(1, ge=1)
    switch: bool = True
    level: Literal["low", "high"] = "low"
    name: str = Field("x", min_length=1)
    maybe: str | None = None
    items: list[Item] = []
    path: Path = Path()
    options: dict[str, Any] = {}
    api_key: int = 0
    tokens: dict[str, int] = {}
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def problems(tmp_path: Path, content: str) -> list[ConfigProblem]:
    path = tmp_path / "whole.yaml"
    path.write_text(content)
    document = read_yaml(path)
    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(document.values)
    return validation_problems(caught.value, Whole, document.problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("port: abc", "expected an integer from 0 to 65535, found 'abc'"),
        ("port: 70000", "expected an integer from 0 to 65535, found 70000"),
        ("port: yes", "expected an integer from 0 to 65535, found true"),
        ("port:", "expected an integer from 0 to 65535, found null"),
        ("port: [1]", "expected an integer from 0 to 65535, found a list"),
        ("port: {a: 1}", "expected an integer from 0 to 65535, found a mapping"),
        ("ratio: 0", "expected a number above 0 and at most 2, found 0"),
        ("least: 0", "expected an integer of at least 1, found 0"),
        ("switch: 'yes'", "expected true or false, found 'yes'"),
        ("level: mid", "expected 'low' or 'high', found 'mid'"),
        ("level: 1", "expected 'low' or 'high', found 1"),
        ("name: ''", "expected non-empty text, found ''"),
        ("name: 2024", "expected non-empty text, found 2024; put it in quotes"),
        ("name: no", "expected non-empty text, found false; put it in quotes"),
        ("maybe: 2024-01-01", "expected text or null, found 2024-01-01; put it in quotes"),
        ("path: x", "expected a path, found 'x'"),
        ("items: x", "expected a list, found text"),
        ("items: [x]", "expected a mapping, found text"),
        ("options: []", "expected a mapping, found a list"),
        ("even: 3", "must be even"),
        ("name: [" + "x" * 200 + "]", "expected non-empty text, found a list"),
        ("switch: " + "x" * 200, "expected true or false, found '" + "x" * 79 + "…"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(tmp_path: Path, content: str, message: str) -> None:
    (problem,) = problems(tmp_path, content)
    assert problem.message == message
    assert problem.line == 1


def test_an_unknown_key_is_placed_and_has_a_near_miss(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "items:\n  - agent_id: x\n    agnet_id: x\n")
    assert (problem.line, problem.column, problem.where) == (3, 5, "items[0].agnet_id")
    assert problem.message == "unknown key 'agnet_id'; did you mean 'agent_id'?"


def test_an_unknown_key_without_a_near_miss_lists_the_keys(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "items: [{agent_id: x, zzz: 1}]")
    assert problem.message == "unknown key 'zzz'; the keys here are agent_id, labels"


def test_a_missing_key_is_placed_at_its_mapping(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "port: 1\nitems:\n  - labels: {}\n")
    assert (problem.line, problem.where) == (3, "items[0].agent_id")
    assert problem.message == "the key 'agent_id' is required"


def test_a_wrong_name_is_placed_at_the_name(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "items:\n- agent_id: x\n  labels:\n    Bad Name: 1\n")
    assert (problem.line, problem.column, problem.where) == (4, 5, "items[0].labels.Bad Name")
    assert problem.message == "expected a name that matches ^[a-z]+$"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("api_key: s3cret", "expected an integer, found a value of type str (not shown)"),
        ("tokens: {one: s3cret}", "expected an integer, found a value of type str (not shown)"),
        ("Secret: s3cret", "unknown key 'Secret'"),
    ],
)
def test_the_value_of_a_secret_is_never_shown(tmp_path: Path, content: str, message: str) -> None:
    (problem,) = problems(tmp_path, content)
    assert problem.message.startswith(message)
    assert "s3cret" not in str(problem)


def test_every_problem_is_told(tmp_path: Path) -> None:
    found = problems(tmp_path, "port: x\nratio: x\nunknown: 1\n")
    assert [problem.line for problem in found] == [1, 2, 3]


def test_near_miss() -> None:
    assert near_miss("prot", ["host", "port"]) == "; did you mean 'port'?"
    assert near_miss("zzz", ["host", "port"]) == ""
