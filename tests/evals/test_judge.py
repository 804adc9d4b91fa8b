"""A model judges an answer; what it replies may have words around it, and is asked for again once."""

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.evals.eval_file import JudgeCheck
from agentic_backend.evals.judge import Judge, NoVerdict

CHECK = JudgeCheck(criterion="is kind", model="judge")


def judge(*replies: str, late_s: float | None = None) -> Judge:
    return Judge(ChatModels({"judge": FakeListChatModel(responses=list(replies), sleep=late_s)}))


@pytest.mark.parametrize(
    "replies",
    [
        ['{"reason": "yes", "score": 4}'],
        ['Well:\n```json\n{"score": 4, "reason": "yes"}\n```\nThat is all.'],
        ["I like it.", '{"reason": "yes", "score": 4}'],
        ['{"reason": "yes", "score": 6}', '{"reason": "yes", "score": 4}'],
        ['Of {1, 2} and {"a": 1}: {"reason": "yes", "score": 4} {sic}'],
        ['{"score": 1, "reason": "no"}, or rather {"score": 4, "reason": "yes"}'],
        ['{"score": true}', '{"reason": "yes", "score": "4", "parts": {"tone": 5}}'],
        ['{"a":' * 50_000, '{"reason": "yes", "score": 4.0}'],
    ],
)
async def test_a_verdict_is_read(replies: list[str]) -> None:
    verdict = await judge(*replies).verdict(CHECK, ["Hello?"], "Hi!", timeout_s=30)
    assert (verdict.score, verdict.reason) == (4, "yes")


@pytest.mark.parametrize("reply", ["I like it.", "", "{}", '{"score": 0}', '{"score": true}', "}{"])
async def test_a_reply_without_a_verdict_is_none(reply: str) -> None:
    with pytest.raises(NoVerdict, match="the judge's reply is no verdict"):
        await judge(reply).verdict(CHECK, ["Hello?"], "Hi!", timeout_s=30)


async def test_a_judge_that_is_late_or_absent_is_told() -> None:
    with pytest.raises(NoVerdict, match=r"has not answered within 0\.01 s"):
        await judge("late", late_s=0.5).verdict(CHECK, ["Hello?"], "Hi!", timeout_s=0.01)
    with pytest.raises(NoVerdict, match="The model 'judge' is not available"):
        await Judge(ChatModels({})).verdict(CHECK, ["Hello?"], "Hi!", timeout_s=30)


class TimingOut(FakeListChatModel):
    """A provider's package that has a time limit of its own."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise TimeoutError("no connection in 2 s")


async def test_a_time_limit_of_the_providers_package_is_not_taken_for_the_judges() -> None:
    judge = Judge(ChatModels({"judge": TimingOut(responses=[])}))
    with pytest.raises(NoVerdict, match="the judge failed: TimeoutError: no connection in 2 s"):
        await judge.verdict(CHECK, ["Hello?"], "Hi!", timeout_s=30)


class Quoting(FakeListChatModel):
    """A provider that quotes the key it refuses, at length."""

    def _call(self, *args: Any, **kwargs: Any) -> str:
        raise ValueError("refused sk-abcdefgh12345678ijkl" + " again" * 1_000)


async def test_what_a_provider_raises_is_told_without_keys_and_in_short() -> None:
    judge = Judge(ChatModels({"judge": Quoting(responses=[])}))
    with pytest.raises(NoVerdict) as raised:
        await judge.verdict(CHECK, ["Hello?"], "Hi!", timeout_s=30)
    assert "the judge failed: ValueError: refused" in str(raised.value)
    assert "abcdefgh12345678" not in str(raised.value) and len(str(raised.value)) < 2_100
