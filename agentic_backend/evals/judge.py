"""Judge: asks a model how well an answer meets a criterion."""

import asyncio
import json
from collections.abc import Sequence

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, Field, ValidationError

from agentic_backend.agents.models import ChatModels
from agentic_backend.evals.eval_file import JudgeCheck
from agentic_backend.evals.judge_prompt import JUDGE_PROMPT
from agentic_backend.exception_detail import text_of

_TRIES = 2


class NoVerdict(Exception):
    """The model has not judged; the text says why."""


class Verdict(BaseModel):
    score: int = Field(ge=1, le=5)
    reason: str = ""


class Judge:
    def __init__(self, models: ChatModels) -> None:
        self._models = models

    async def verdict(self, check: JudgeCheck, asked: Sequence[str], answer: str, timeout_s: float) -> Verdict:
        """Raises NoVerdict if the model fails, takes longer, or replies with anything but a verdict, twice."""
        material = {"criterion": check.criterion, "asked": list(asked), "answer": answer}
        messages = [SystemMessage(JUDGE_PROMPT), HumanMessage(json.dumps(material, ensure_ascii=False))]
        try:
            async with asyncio.timeout(timeout_s):
                for _ in range(_TRIES):
                    reply = (await self._models.get(check.model).ainvoke(messages)).text
                    if (verdict := _read(reply)) is not None:
                        return verdict
        except TimeoutError:
            raise NoVerdict(f"the judge has not answered within {timeout_s:g} s") from None
        except Exception as error:
            # Each provider raises its own errors, and may quote the key.
            raise NoVerdict(f"the judge failed: {type(error).__name__}: {text_of(error)}") from error
        raise NoVerdict("the judge's reply is no verdict")


def _read(reply: str) -> Verdict | None:
    """The JSON object in a reply, which may have words or a fence around it."""
    try:
        return Verdict.model_validate_json(reply[reply.index("{") : reply.rindex("}") + 1])
    except (ValueError, ValidationError):
        return None
