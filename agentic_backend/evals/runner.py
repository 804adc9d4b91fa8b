"""EvalRunner: runs the cases, several at a time, and says of each run what became of it."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from agentic_backend.client import Chat, ChatError
from agentic_backend.evals.checking import check_all
from agentic_backend.evals.conversation import Conversation
from agentic_backend.evals.eval_file import Case
from agentic_backend.evals.judge import Judge, NoVerdict
from agentic_backend.evals.observation import Observation
from agentic_backend.evals.results import CaseResult, CheckResult, Outcome, ToolCall

_DELETE_TIMEOUT_S = 10


class EvalRunner:
    def __init__(self, chat: Chat, judge: Judge, parallel: int, on_result: Callable[[CaseResult], None]) -> None:
        self._chat = chat
        self._judge = judge
        self._free = asyncio.Semaphore(parallel)
        self._on_result = on_result

    async def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """Run each case as often as it says; the results are in the order of the cases."""
        async with asyncio.TaskGroup() as tasks:
            runs = [
                tasks.create_task(self._run(case, number)) for case in cases for number in range(1, case.repeat + 1)
            ]
        return [run.result() for run in runs]

    async def _run(self, case: Case, number: int) -> CaseResult:
        async with self._free:
            seen = await Conversation(self._chat, case).hold()
            result = await self._result(case, number, seen)
            if result.outcome == "passed" and seen.session_id is not None:
                await self._delete(seen.session_id)
        self._on_result(result)
        return result

    async def _result(self, case: Case, number: int, seen: Observation) -> CaseResult:
        checks, score, error = [], None, seen.fault
        if error is None:
            checks = check_all(case.checks, seen)
            if case.checks.judge is not None and all(check.passed for check in checks):
                try:
                    score, check = await self._judged(case, seen)
                    checks.append(check)
                except NoVerdict as reason:
                    error = str(reason)
        passed = all(check.passed for check in checks)
        outcome: Outcome = "error" if error is not None else "passed" if passed else "failed"
        return CaseResult(
            id=case.id or "",
            run=number,
            agent=case.agent,
            outcome=outcome,
            latency_s=round(sum(seen.latencies_s), 3),
            tokens=seen.tokens,
            answer=seen.answer,
            tool_calls=[ToolCall(name=call.name, args=call.args) for call in seen.calls.values()],
            checks=checks,
            score=score,
            error=error,
            exchange_ids=seen.exchange_ids,
        )

    async def _judged(self, case: Case, seen: Observation) -> tuple[int, CheckResult]:
        """The judge's score, and what it means. Raises NoVerdict."""
        check = case.checks.judge
        assert check is not None
        verdict = await self._judge.verdict(check, case.asks, seen.answer, case.timeout_s)
        passed = verdict.score >= check.min_score
        said = f"score {verdict.score}, less than {check.min_score}: {verdict.reason}"
        return verdict.score, CheckResult(check="judge", passed=passed, said="" if passed else said)

    async def _delete(self, session_id: str) -> None:
        """The sessions of what has not passed stay, to be looked at."""
        with contextlib.suppress(ChatError, TimeoutError):
            async with asyncio.timeout(_DELETE_TIMEOUT_S):
                await self._chat.rest.delete_session(session_id)
