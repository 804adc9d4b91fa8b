"""Comparison: what got better or worse since a run before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentic_backend.evals.results import CaseResult, Results

Change = Literal["better", "worse", "same", "new", "gone"]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """`before` and `after` are how many of the case's runs have passed, as `2/3`; empty where it was not run."""

    id: str
    change: Change
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Cases are told apart by their ids. A case is better if a larger share of its runs has passed."""

    changes: Sequence[CaseChange]

    @classmethod
    def of(cls, before: Results, after: Results) -> "Comparison":
        old, new = before.by_case(), after.by_case()
        return cls([_change(id, old.get(id, []), new.get(id, [])) for id in {**new, **old}])

    def count(self, change: Change) -> int:
        return sum(each.change == change for each in self.changes)

    @property
    def is_worse(self) -> bool:
        return self.count("worse") > 0


def passed_of(runs: Sequence[CaseResult]) -> str:
    """`2/3`; empty without runs."""
    return f"{_passed(runs)}/{len(runs)}" if runs else ""


def _passed(runs: Sequence[CaseResult]) -> int:
    return sum(run.outcome == "passed" for run in runs)


def _change(id: str, before: Sequence[CaseResult], after: Sequence[CaseResult]) -> CaseChange:
    change: Change = "same"
    if not before or not after:
        change = "gone" if before else "new"
    else:
        # In whole numbers, whose order is exact.
        was, is_now = _passed(before) * len(after), _passed(after) * len(before)
        change = "better" if is_now > was else "worse" if is_now < was else "same"
    return CaseChange(id, change, passed_of(before), passed_of(after))
