"""The results as text for people: a table, why what has not passed, and the comparison."""

import statistics
from collections.abc import Iterator, Sequence

from agentic_backend.evals.comparison import Comparison, passed_of
from agentic_backend.evals.results import CaseResult, Results
from agentic_backend.telemetry.formatters import printable

_HEAD = ("case", "agent", "passed", "seconds", "tokens", "score")
_WIDEST = 40


def lines_of(results: Results) -> Iterator[str]:
    """The table with a row for each case, then a line for each reason, then the sums."""
    yield from _table([_HEAD, *(_row(id, runs) for id, runs in results.by_case().items())])
    reasons = [f"{_name(case)}: {reason}" for case in results.cases for reason in case.told]
    if reasons:
        yield ""
        yield from map(printable, reasons)
    yield ""
    yield (
        f"{results.count('passed')} passed, {results.count('failed')} failed, {results.count('error')} with an error, "
        f"in {results.took_s:.1f} s"
    )


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """A line for each case that has changed, then the sums."""
    for each in comparison.changes:
        if each.change != "same":
            passed = f"{each.before} -> {each.after}" if each.before and each.after else each.before or each.after
            yield printable(f"{each.change}: {each.id} ({passed})")
    sums = [f"{comparison.count(change)} {change}" for change in ("better", "worse", "same", "new", "gone")]
    yield f"compared: {', '.join(sums)}"


def _name(case: CaseResult) -> str:
    return f"{case.id}, run {case.run}" if case.run > 1 else case.id


def _row(id: str, runs: Sequence[CaseResult]) -> tuple[str, ...]:
    """Seconds, tokens and score are the mean of the runs."""
    tokens = [run.tokens for run in runs if run.tokens is not None]
    scores = [run.score for run in runs if run.score is not None]
    seconds = statistics.mean(run.latency_s for run in runs)
    return (
        id,
        runs[0].agent or "(default)",
        passed_of(runs),
        f"{seconds:.2f}",
        f"{statistics.mean(tokens):.0f}" if tokens else "",
        f"{statistics.mean(scores):.1f}" if scores else "",
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = [[_short(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _short(cell: str) -> str:
    safe = printable(cell)
    return safe if len(safe) <= _WIDEST else safe[: _WIDEST - 1] + "…"
