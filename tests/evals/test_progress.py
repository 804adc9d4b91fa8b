"""Progress is a bar on a terminal, which makes room for what is printed after it."""

from io import StringIO

from agentic_backend.evals.progress import Progress
from agentic_backend.evals.results import CaseResult, Outcome


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def result(outcome: Outcome) -> CaseResult:
    return CaseResult(
        id="a\x1b[2J",
        run=1,
        agent=None,
        outcome=outcome,
        latency_s=1,
        tokens=None,
        answer="",
        tool_calls=[],
        checks=[],
        exchange_ids=[],
    )


def test_a_terminal_shows_a_bar() -> None:
    terminal = Terminal()
    progress = Progress(terminal, 2)
    progress.begin()
    progress.ended(result("passed"))
    assert terminal.getvalue().endswith(f"[{'#' * 15}{'-' * 15}] 1/2, 0 not passed")
    progress.ended(result("failed"))
    assert terminal.getvalue().endswith(f"[{'#' * 30}] 2/2, 1 not passed")
    progress.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "\n" not in terminal.getvalue()


def test_anything_else_gets_a_line_for_each_run() -> None:
    file = StringIO()
    progress = Progress(file, 1)
    progress.begin()
    progress.ended(result("error"))
    progress.clear()
    assert file.getvalue() == "[1/1] error a\\x1b[2J\n"
