"""The steps of a run: retrieval, fusion, context, generation, judge. Each is told when it is done."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agentic_backend.application import ReviewedText, User
from agentic_backend.applications.retrieval.answering.passages import packed, tokens_of
from agentic_backend.applications.retrieval.answering.pipeline import (
    NOTHING_FOUND,
    Answering,
    Checked,
    ModelPurpose,
    asking,
    check,
    query_of,
    rerank,
    retrieve,
    rewrite,
    told_model,
    told_ways,
)
from agentic_backend.applications.retrieval.runs.history import CHAT_INSTRUCTIONS, History, fitting_history, said_in
from agentic_backend.applications.retrieval.runs.profiles import ChatProfile, Steps
from agentic_backend.applications.retrieval.runs.records import ChatSession, ChatTurn
from agentic_backend.applications.retrieval.runs.reviews import Reviews
from agentic_backend.applications.retrieval.runs.views import (
    Answer,
    Citation,
    ContextDone,
    FusionDone,
    GenerationDone,
    JudgeDone,
    ModelView,
    RetrievalDone,
    RunEvent,
    SentenceView,
    WayView,
    citation_of,
    place_of,
)

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval


class Tell(Protocol):
    async def __call__(self, *events: RunEvent) -> None:
        """Store what has happened, for whoever follows the run."""


_INSTRUCTIONS = "You answer a person's question."
_TOLD_PASSAGES, _TOLD_SENTENCES = 20, 300
LONGEST_ANSWER = 30_000
"""Characters of an answer; what a model says beyond is cut off."""


@dataclass(frozen=True, slots=True)
class Past:
    """What a session brings into a run."""

    session: ChatSession
    turns: Sequence[ChatTurn]
    """Those in full, the oldest first."""
    profile: ChatProfile


@dataclass(frozen=True, slots=True)
class ForModel:
    """What models are given of a turn later, where modules have left them something else than people."""

    query: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    answer: Answer
    """With the texts of the passages."""
    query: str
    """The question as modules have left it."""
    for_model: "ForModel"
    is_withheld: bool
    tokens: int
    """Of the answer, and of what the model was given of passages and history."""


class Pipeline:
    def __init__(self, application: "Retrieval") -> None:
        self._application = application

    async def answer(
        self, user: User, query: str, steps: Steps, past: Past | None, tell: Tell, within: str
    ) -> Answered:
        """Answer a question, as a turn after this past if there is one; modules know it as one `within` a conversation.

        Raises Blocked, and what the model and the store raise.
        """
        reviews = Reviews(self._application, user, within)
        asked = await reviews.question(query)
        before = said_in(past.turns) if past is not None else ()
        query = query_of([*(question for question, _ in before), asked.for_model])
        answering = Answering(query, steps.retrieval.answer_from, steps.judge.judge, steps.judge.threshold)
        if answering.mode != "general_only":
            collections = await self._application.asked_collections(user, None, steps.retrieval.collections)
            if steps.retrieval.rewrite_model is not None and collections:
                ask = asking(self._application, "rewrite", steps.retrieval.rewrite_model, user)
                await rewrite(answering, before, asked.for_model, ask, reviews.found)
            await retrieve(self._application, user, answering, collections, steps.chosen)
            if steps.fusion.rerank_model is not None:
                ask = asking(self._application, "rerank", steps.fusion.rerank_model, user)
                await rerank(answering, ask, reviews.found)
        history = self._pack(answering, asked.for_model, steps, past)
        answering.packed = await reviews.packed(answering.packed)
        await tell(*_found(answering), _context(answering, history))
        began = time.monotonic()
        text = (await self._said(user, asked, answering, history, past))[:LONGEST_ANSWER]
        took_ms = round((time.monotonic() - began) * 1000)
        await tell(GenerationDone(tokens_used=tokens_of(text), took_ms=took_ms))
        model = steps.judge.judge_model
        checked = await check(answering, text, asking(self._application, "judge", model, user) if model else None)
        reviewed = await reviews.answer(checked.text, asked.text)
        await tell(_judged(answering, checked))
        judgement, by_number = answering.judgement, answering.packed.by_number
        answer = Answer(
            text=reviewed.text,
            citations=tuple(citation_of(by_number[number], number) for number in checked.cited),
            tokens_used=tokens_of(text),
            judge_score=judgement.score if judgement is not None else None,
        )
        tokens = answer.tokens_used + answering.packed.tokens + history.tokens
        for_model = ForModel(_if_other(asked), _if_other(reviewed))
        return Answered(answer, asked.text, for_model, checked.is_withheld, tokens)

    def _pack(self, answering: Answering, query: str, steps: Steps, past: Past | None) -> History:
        """Take as many passages as there is room for behind the history, which leaves them half of it at least."""
        context, history = steps.context, History()
        room = context.max_context_tokens - max(context.reserve_for_query, tokens_of(query))
        room = max(0, room - context.reserve_for_instructions)
        if past is not None:
            most = min(room, max(room // 2, past.profile.reserve_tokens_for_history))
            summary = past.session.summary if past.profile.include_summary_in_context else None
            history = fitting_history(summary, past.session.summary_covers_turns, past.turns, most)
        left = room - history.tokens
        answering.packed = packed(answering.retrieved.passages, most=steps.retrieval.passages, most_tokens=left)
        return history

    async def _said(
        self, user: User, asked: ReviewedText, answering: Answering, history: History, past: Past | None
    ) -> str:
        """What the model says; without a passage it is not asked where nothing else may answer."""
        documents = answering.section if answering.packed.passages else ""
        if not documents and answering.mode == "corpus_only":
            return NOTHING_FOUND
        parts = [_INSTRUCTIONS, CHAT_INSTRUCTIONS] if past is not None else [_INSTRUCTIONS]
        if past is not None and past.profile.summary_position == "after_retrieval":
            parts += [documents, history.section]
        else:
            parts += [history.section, documents]
        prompt = "\n\n".join(filter(None, [*parts, *asked.prompt_additions]))
        return await self._application.ask_model(prompt, asked.for_model, user=user)


def _if_other(reviewed: ReviewedText) -> str | None:
    return None if reviewed.for_model == reviewed.text else reviewed.for_model


def _found(answering: Answering) -> tuple[RetrievalDone, FusionDone]:
    found = answering.retrieved
    ways = {name: WayView.model_validate(way) for name, way in told_ways(answering).items()}
    best = tuple(place_of(each, rank) for rank, each in enumerate(found.passages[:_TOLD_PASSAGES], start=1))
    retrieval = RetrievalDone(
        query=answering.sought, language=found.language, ways=ways, rewrite=_model(answering, "rewrite")
    )
    return retrieval, FusionDone(found=len(found.passages), passages=best, rerank=_model(answering, "rerank"))


def _model(answering: Answering, purpose: ModelPurpose) -> ModelView | None:
    asked = answering.models.get(purpose)
    return None if asked is None else ModelView.model_validate(told_model(asked))


def _context(answering: Answering, history: History) -> ContextDone:
    return ContextDone(
        passages=tuple(place_of(each, number) for number, each in answering.packed.by_number.items()),
        left_out=answering.packed.left_out,
        tokens=answering.packed.tokens + history.tokens,
        history_turns=history.turns,
        history_tokens=history.tokens,
        history_left_out=history.left_out,
    )


def _judged(answering: Answering, checked: Checked) -> JudgeDone:
    judgement = answering.judgement
    sentences = judgement.sentences[:_TOLD_SENTENCES] if judgement is not None else ()
    return JudgeDone(
        score=judgement.score if judgement is not None else None,
        withheld=checked.is_withheld,
        removed=answering.removed,
        sentences=tuple(
            SentenceView(start=one.start, end=one.end, score=one.score, supported=one.supported, reason=one.reason)
            for one in sentences
        ),
        model=_model(answering, "judge"),
    )


def without_texts(answer: Answer) -> Answer:
    """The answer as it is stored: without what its passages say."""
    citations = tuple(Citation.model_validate({**each.model_dump(), "text": None}) for each in answer.citations)
    return answer.model_copy(update={"citations": citations})
