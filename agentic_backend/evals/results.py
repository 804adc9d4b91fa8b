"""Results: what became of each run of each case; written as JSON, and read again to compare."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem

Outcome = Literal["passed", "failed", "error"]


class _Result(BaseModel):
    # What a later version adds is ignored.
    model_config = ConfigDict(extra="ignore", frozen=True)


class CheckResult(_Result):
    """Whether a check has passed; if not, `said` says why."""

    check: str
    """The key under `checks`, such as `contains`."""
    passed: bool
    said: str = ""


class ToolCall(_Result):
    name: str
    args: dict[str, Any]


class CaseResult(_Result):
    """One run of a case. It is `failed` if a check was not passed, and an `error` if there was nothing to check."""

    id: str
    run: int
    """From 1."""
    agent: str | None
    outcome: Outcome
    latency_s: float
    """Of all answers together."""
    tokens: int | None
    answer: str
    tool_calls: list[ToolCall]
    checks: list[CheckResult]
    score: int | None = None
    """The judge's, from 1 to 5."""
    error: str | None = None
    """Why it is an error."""
    exchange_ids: list[str]

    @property
    def told(self) -> list[str]:
        """Why it has not passed, a line each."""
        failed = [f"{check.check}: {check.said}" for check in self.checks if not check.passed]
        return failed if self.error is None else [self.error]


class Results(_Result):
    """All runs, in the order of the file."""

    file: str
    began_at: datetime
    took_s: float
    cases: list[CaseResult]

    def count(self, outcome: Outcome) -> int:
        return sum(case.outcome == outcome for case in self.cases)

    def by_case(self) -> dict[str, list[CaseResult]]:
        """The runs of each case."""
        found: dict[str, list[CaseResult]] = {}
        for case in self.cases:
            found.setdefault(case.id, []).append(case)
        return found


def read_results(path: Path) -> Results:
    """What `--json` has written. Raises ConfigError."""
    try:
        return Results.model_validate_json(path.read_bytes())
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except ValidationError:
        wrong = "is not what --json of an eval has written"
    raise ConfigError([ConfigProblem(str(path), None, None, "", wrong)])
