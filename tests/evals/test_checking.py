"""Checks of an answer that must neither take long nor end the eval, whatever a model answers."""

import json

import pytest
from support.cpu_time import takes_at_most

from agentic_backend.evals.checking import check_all
from agentic_backend.evals.eval_file import Checks
from agentic_backend.evals.observation import Observation


def test_a_pattern_that_backtracks_costs_nothing() -> None:
    checks = Checks.model_validate({"json_schema": {"pattern": "^(a+)+$"}})
    seen = Observation(answer=json.dumps("a" * 20_000 + "!"))
    [result] = [each for each in check_all(checks, seen) if each.check == "json_schema"]
    assert result.said.startswith("$: 'aaaa")
    assert takes_at_most(5, lambda: check_all(checks, seen))


def test_a_number_that_a_schema_can_not_divide_fails_the_check_alone() -> None:
    checks = Checks.model_validate({"json_schema": {"multipleOf": 0.1}})
    seen = Observation(answer="1e400")
    [result] = [each for each in check_all(checks, seen) if each.check == "json_schema"]
    assert not result.passed and "can't be followed" in result.said


@pytest.mark.parametrize("answer", ['{"a": NaN}', "Infinity", "[-Infinity]"])
def test_what_is_no_json_fails_the_check_alone(answer: str) -> None:
    checks = Checks.model_validate({"json_schema": {"properties": {"a": {"multipleOf": 0.1}}}})
    [result] = [each for each in check_all(checks, Observation(answer=answer)) if each.check == "json_schema"]
    assert result.said.startswith("the answer is not JSON")
