"""An application that asks models and reads transcripts: in calls, in a hook, and in a tool of an agent's."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal

from langchain_core.tools import tool

from agentic_backend.application import (
    CONTINUE,
    Application,
    Call,
    Frame,
    Hook,
    HookContext,
    HookResult,
    Metric,
    Point,
    Query,
    User,
    Value,
    application_of,
)

PATH = "support.judging_application:Judging"


class Text(Frame):
    """A text to judge."""

    text: str
    model: str | None = None


class Verdict(Value):
    """What the model says."""

    text: str


class Judgement(Verdict):
    """One of several."""

    type: Literal["judgement"] = "judgement"


class After(Query):
    """From where on."""

    after: int = -1


class Said(Value):
    """Texts of messages, and their ranks."""

    texts: list[str]
    ranks: list[int]


JUDGED = Metric("judged", "counter", "Texts that were judged.", ("word",))
LENGTH = Metric("length", "histogram", "Characters of a text.", buckets=(1, 10, 100))
LAST = Metric("last", "gauge", "Characters of the last text.")


class Judging(Application):
    """Judges texts."""

    id = "judging"
    title = "Judging"
    version = "1"
    metrics = (JUDGED, LENGTH, LAST)

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/verdicts", self.judge),
            Call("POST", "/forgetful", self.judge_forgetful),
            Call("GET", "/streamed", self.judge_streamed),
            Call("GET", "/sessions/{session}/said", self.said),
        ]

    def hooks(self) -> Sequence[Hook]:
        return [Hook(Point.BEFORE_AI, self.before, agents="all")]

    async def judge(self, user: User, body: Text) -> Verdict:
        self.measure(JUDGED, word=body.text.split(" ")[0])
        self.measure(LENGTH, len(body.text))
        self.measure(LAST, len(body.text))
        text = await self.ask_model("Judge.", body.text, user=user, model=body.model, purpose="judge")
        return Verdict(text=text)

    async def judge_forgetful(self, user: User, body: Text) -> Verdict:
        text = await self.ask_model("Judge.", body.text)
        assert type(text) is str
        return Verdict(text=text)

    async def judge_streamed(self, user: User) -> AsyncIterator[Judgement]:
        """Verdicts, of which the second one is asked for once the first one is there."""
        for _ in range(2):
            yield Judgement(text=await self.ask_model("You judge.", "words 2 0"))

    async def said(self, user: User, session: str, query: After) -> Said:
        messages = await self.transcript(user, session, after_rank=query.after, limit=2)
        texts = [getattr(message.parts[0], "text", "") for message in messages]
        return Said(texts=texts, ranks=[message.rank for message in messages])

    async def before(self, context: HookContext) -> HookResult:
        await self.ask_model("Look.", "a text", purpose="grounding")
        return CONTINUE


@tool
async def rank_them(text: str) -> str:
    """Rank a text."""
    return await application_of(Judging).ask_model("Rank.", text, purpose="rerank")
