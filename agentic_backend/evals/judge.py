"""Judge: asks a model how well an answer meets a criterion."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Annotated

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.disclosure.exception_detail import text_of
from agentic_backend.evals.eval_file import JudgeCheck
from agentic_backend.evals.judge_prompt import JUDGE_PROMPT

_TRIES = 2
# A verdict stands at the end of a reply, and is short; each brace is a place to look at.
_LONGEST_READ = 4_000


class NoVerdict(Exception):
    """The model has not judged; the text says why."""


def _no_truth_value(value: object) -> object:
    """Pydantic takes `true` for 1."""
    if isinstance(value, bool):
        raise ValueError("a score is a number")
    return value


class Verdict(BaseModel):
    score: Annotated[int, BeforeValidator(_no_truth_value), Field(ge=1, le=5)]
    reason: str = ""


class Judge:
    def __init__(self, models: ChatModels) -> None:
        self._models = models

    async def verdict(self, check: JudgeCheck, asked: Sequence[str], answer: str, timeout_s: float) -> Verdict:
        """Raises NoVerdict if the model fails, takes longer, or replies with anything but a verdict, twice."""
        material = {"criterion": check.criterion, "asked": list(asked), "answer": answer}
        messages = [SystemMessage(JUDGE_PROMPT), HumanMessage(json.dumps(material, ensure_ascii=False))]
        try:
            async with asyncio.timeout(timeout_s) as limit:
                for _ in range(_TRIES):
                    reply = (await self._models.get(check.model).ainvoke(messages)).text
                    if (verdict := _read(reply)) is not None:
                        return verdict
        except Exception as error:
            if limit.expired():
                raise NoVerdict(f"the judge has not answered within {timeout_s:g} s") from None
            # Each provider raises its own errors, and may quote the key.
            raise NoVerdict(f"the judge failed: {type(error).__name__}: {text_of(error)}") from error
        raise NoVerdict("the judge's reply is no verdict")


def _read(reply: str) -> Verdict | None:
    """The last verdict in a reply, which may have words, with braces even, or a fence around it."""
    for found in _objects(reply[-_LONGEST_READ:]):
        try:
            return Verdict.model_validate(found)
        except ValidationError:
            continue
    return None


def _objects(text: str) -> Iterator[object]:
    """The JSON objects in a text, the last first."""
    decoder, place = json.JSONDecoder(), len(text)
    while (place := text.rfind("{", 0, place)) >= 0:
        try:
            yield decoder.raw_decode(text, place)[0]
        except (ValueError, RecursionError):
            continue
