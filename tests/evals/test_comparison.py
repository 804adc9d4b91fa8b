"""A case is better or worse by the share of its runs that have passed."""

from datetime import UTC, datetime

import pytest

from agentic_backend.evals.comparison import Comparison
from agentic_backend.evals.report import comparison_lines
from agentic_backend.evals.results import CaseResult, Outcome, Results


def results(**passed: str) -> Results:
    """By case: a `+` for each run that has passed, a `-` for each other."""
    outcomes: dict[str, Outcome] = {"+": "passed", "-": "failed"}
    cases = [
        CaseResult(
            id=id,
            run=number,
            agent=None,
            outcome=outcomes[sign],
            latency_s=1,
            tokens=None,
            answer="",
            tool_calls=[],
            checks=[],
            exchange_ids=[],
        )
        for id, signs in passed.items()
        for number, sign in enumerate(signs, start=1)
    ]
    return Results(file="evals.yaml", began_at=datetime.now(UTC), took_s=1, cases=cases)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("+", "+", "same"),
        ("+", "-", "worse"),
        ("-", "+", "better"),
        ("+-", "+", "better"),
        ("+-", "-+-+", "same"),
        ("+++", "++-", "worse"),
        ("", "+", "new"),
        ("+", "", "gone"),
    ],
)
def test_shares_are_compared(before: str, after: str, change: str) -> None:
    comparison = Comparison.of(results(case=before), results(case=after))
    assert [each.change for each in comparison.changes] == [change]
    assert comparison.is_worse == (change == "worse")


def test_what_has_changed_is_told() -> None:
    before, after = (
        results(breaks="+", mends="-", stays="+", goes="+"),
        results(breaks="-", mends="+", stays="+", new="+"),
    )
    assert list(comparison_lines(Comparison.of(before, after))) == [
        "worse: breaks (1/1 -> 0/1)",
        "better: mends (0/1 -> 1/1)",
        "new: new (1/1)",
        "gone: goes (1/1)",
        "compared: 1 better, 1 worse, 1 same, 1 new, 1 gone",
    ]
