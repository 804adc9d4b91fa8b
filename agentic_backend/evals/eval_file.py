"""EvalFile: the questions and checks of one YAML file, whose every error names its place."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import re2  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator

from agentic_backend.config.setting_types import PROVIDER_MODEL, NonEmpty, Seconds, Section
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml, read_yaml
from agentic_backend.config.yaml.validation_problems import near_miss, rule_broken, validation_problems
from agentic_backend.inlined_schema import UnusableSchema, inlined_schema

_MOST_CASES = 1_000
_APPROVED = {"all": ["*"], "none": []}
_NO_SHOUTING = re2.Options()
_NO_SHOUTING.log_errors = False


def _as_list(value: Any) -> Any:
    """One value is a list of one."""
    return [value] if isinstance(value, str | dict) else value


def _as_call(value: Any) -> Any:
    """The name of a tool stands for any call of it."""
    return {"name": value} if isinstance(value, str) else value


def _as_patterns(value: Any) -> Any:
    if isinstance(value, str) and value not in _APPROVED:
        raise rule_broken("expected 'all', 'none' or a list of tools")
    return _APPROVED[value] if isinstance(value, str) else value


Texts = Annotated[
    tuple[NonEmpty, ...],
    Field(strict=False),
    BeforeValidator(_as_list, json_schema_input_type=NonEmpty | list[NonEmpty]),
]
"""One text, or a list of them."""
Approved = Annotated[tuple[NonEmpty, ...], Field(strict=False), BeforeValidator(_as_patterns)]
"""Patterns of tools' names."""


def _of_json(value: Any) -> Any:
    """Refuses what YAML has beyond JSON: it would equal nothing that an agent says."""
    if isinstance(value, date):
        raise rule_broken(f"{value} without quotes is a date, which JSON has none of; put it in quotes")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _of_json(part)
    return value


class ToolCalled(Section):
    """A call of a tool."""

    name: NonEmpty = Field(description="The tool's name.")
    args: Annotated[dict[str, Any], AfterValidator(_of_json)] = Field(
        default_factory=dict, description="Arguments that the call must have; it may have more. Mappings likewise."
    )


_Call = Annotated[ToolCalled, BeforeValidator(_as_call)]


class JudgeCheck(Section):
    """A model's opinion of the answer."""

    criterion: NonEmpty = Field(description="What the answer must be or do, in words.")
    model: NonEmpty | None = Field(
        None, description="A model of the settings, or `provider:model`; without it the model `default`."
    )
    min_score: Annotated[int, Field(ge=1, le=5)] = Field(
        4, description="The least score that passes: 1 is not met at all, 5 is fully met."
    )


class Checks(Section):
    """What must be true after the last ask. All that is given is checked."""

    status: Literal["ok", "error", "stopped", "blocked", "interrupted"] = Field(
        "ok", description="How the last exchange ends: `ok`, `error`, `stopped`, `blocked` or `interrupted`."
    )
    contains: Texts = Field((), description="Texts that are in the answer, letter by letter.")
    not_contains: Texts = Field((), description="Texts that are not in the answer.")
    regex: Texts = Field((), description="Regular expressions (RE2) of which each is found in the answer.")
    json_schema: Annotated[dict[str, Any] | None, AfterValidator(_of_json)] = Field(
        None, description="A JSON Schema (2020-12) that the answer, read as JSON, conforms to."
    )
    tool_called: Annotated[tuple[_Call, ...], Field(strict=False), BeforeValidator(_as_list)] = Field(
        (), description="Calls that the agent has made, after any of the asks."
    )
    tool_not_called: Texts = Field((), description="Tools that the agent has not called.")
    max_latency_s: Seconds | None = Field(None, description="Most seconds that each answer takes, from ask to end.")
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(None, description="Most tokens of all answers together.")
    judge: JudgeCheck | None = Field(None, description="Asked where all other checks have passed.")

    @field_validator("regex")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re2.compile(pattern, _NO_SHOUTING)
            except re2.error as error:
                raise rule_broken(f"is no regular expression of RE2: {_reason(error)}") from None
        return patterns

    @field_validator("json_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        try:
            Draft202012Validator.check_schema(schema or {})
            inlined_schema(schema or {})
        except UnusableSchema as error:
            raise rule_broken(f"is no JSON Schema that can be checked: {error}") from None
        except SchemaError as error:
            raise rule_broken(f"is no JSON Schema: {error.message}") from None
        return schema

    def over(self, lower: "Checks") -> "Checks":
        """These, and those of `lower` whose keys are not given here."""
        return lower.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class Common(Section):
    """What a case may say, and `defaults` for all cases."""

    agent: NonEmpty | None = Field(None, description="The agent's id; without it the default agent.")
    timeout_s: Seconds = Field(120, description="How long the case may take, in seconds; then it is an error.")
    approve: Approved = Field(
        (),
        description="The tools whose calls are approved, by name or by a pattern such as `delete_*`, or `all`, or "
        "`none`; other calls that wait for a person are rejected.",
    )
    repeat: Annotated[int, Field(ge=1, le=100)] = Field(1, description="How many times the case is run.")
    checks: Checks = Field(Checks(), description="What is checked.")


class Case(Common):
    """One conversation with its checks."""

    id: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="Names the case in reports; unique. Without it `case 1`, by its place in the file."
    )
    ask: NonEmpty | None = Field(None, description="The question.")
    turns: Annotated[tuple[NonEmpty, ...], Field(strict=False)] = Field(
        (), description="In place of `ask`: several asks in one session; the checks are of the last answer."
    )
    answers: tuple[Any, ...] = Field(
        (), strict=False, description="The answers to the questions that the agent asks a person, in their order."
    )

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if bool(self.ask) == bool(self.turns):
            raise rule_broken("expected either 'ask' or 'turns'")
        return self

    @property
    def asks(self) -> tuple[str, ...]:
        return self.turns or (self.ask or "",)

    def after(self, defaults: Common, number: int) -> "Case":
        """The case with its id, and with what `defaults` says and it does not."""
        missing = {name: getattr(defaults, name) for name in Common.model_fields if name not in self.model_fields_set}
        checks = self.checks.over(defaults.checks)
        return self.model_copy(update={**missing, "checks": checks, "id": self.id or f"case {number}"})


class EvalFile(Section):
    """Questions with checks, for `agentic-backend eval`."""

    defaults: Common = Field(Common(), description="What holds for each case that does not say it itself.")
    cases: Annotated[tuple[Case, ...], Field(max_length=_MOST_CASES)] = Field(strict=False, description="The cases.")

    @field_validator("cases")
    @classmethod
    def _has_some(cls, cases: tuple[Case, ...]) -> tuple[Case, ...]:
        if not cases:
            raise rule_broken("expected at least one case")
        return cases


@dataclass(frozen=True, slots=True)
class Evals:
    """The cases of a file, each with its id and the defaults."""

    cases: tuple[Case, ...]
    document: LocatedYaml

    @property
    def provider_models(self) -> set[str]:
        """What judges name as `provider:model`."""
        return {name for name in self._judges() if re2.fullmatch(PROVIDER_MODEL, name)}

    def unknown(self, agents: Collection[str] | None, models: Collection[str]) -> Iterator[ConfigProblem]:
        """A problem for each name that is neither among `agents` (None: not known here) nor among `models`."""
        for index, case in enumerate(self.cases):
            if agents is not None and case.agent is not None and case.agent not in agents:
                wrong = f"there is no agent {case.agent!r}{near_miss(case.agent, agents)}"
                yield self._problem(index, ("agent",), wrong)
            judge = case.checks.judge
            if judge is not None and judge.model is not None and judge.model not in models:
                wrong = f"there is no model {judge.model!r}{near_miss(judge.model, models)}"
                yield self._problem(index, ("checks", "judge", "model"), wrong)

    def _judges(self) -> Iterator[str]:
        for case in self.cases:
            if case.checks.judge is not None and case.checks.judge.model is not None:
                yield case.checks.judge.model

    def _problem(self, index: int, keys: tuple[str, ...], message: str) -> ConfigProblem:
        """At the case, or at the defaults where the case does not say it."""
        own: KeyPath = ("cases", index, *keys)
        return self.document.problem(own if own in self.document.places else ("defaults", *keys), message)


def read_evals(path: Path) -> Evals:
    """Raises ConfigError with all problems of the file."""
    document = read_yaml(path)
    problems = [problem for _, problem in document.flaws]
    try:
        file = EvalFile.model_validate(document.values)
    except ValidationError as error:
        raise ConfigError([*problems, *validation_problems(error, EvalFile, document.problem)]) from error
    cases = tuple(case.after(file.defaults, number) for number, case in enumerate(file.cases, start=1))
    first: dict[str | None, int] = {}
    for index, case in enumerate(cases):
        if first.setdefault(case.id, index) != index:
            place = ("cases", index, "id") if ("cases", index, "id") in document.places else ("cases", index)
            problems.append(document.problem(place, f"the id {case.id!r} is taken by case {first[case.id] + 1}"))
    if problems:
        raise ConfigError(problems)
    return Evals(cases, document)


def _reason(error: re2.error) -> str:
    """What RE2 says, which are bytes."""
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
