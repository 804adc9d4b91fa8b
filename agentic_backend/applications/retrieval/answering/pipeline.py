"""The pipeline of every answer: retrieve, pack, prompt, and then check what the model says, and judge it.

The conversations of agents (`answering`) and the runs of the application's own door (`runs`) go through it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentic_backend.application import ApplicationUnavailable, User
from agentic_backend.applications.retrieval.answering.passages import Packed, Passage, prompt_of
from agentic_backend.applications.retrieval.judging.citations import CheckedAnswer, check_citations, check_structured
from agentic_backend.applications.retrieval.judging.comparison import THRESHOLD
from agentic_backend.applications.retrieval.judging.judge import JudgedSentence, Judgement, judge
from agentic_backend.applications.retrieval.judging.model_judge import Ask, judge_by_model
from agentic_backend.applications.retrieval.library import StoredCollection
from agentic_backend.applications.retrieval.searching.reranking import MOST_RERANKED, order_of, reordered
from agentic_backend.applications.retrieval.searching.retriever import Chosen, Retrieved
from agentic_backend.applications.retrieval.searching.rewriting import LONGEST_QUESTION, Said, rewritten

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.application import Retrieval

log = logging.getLogger(__name__)

T = TypeVar("T")
Review = Callable[[str], Awaitable[str]]
"""What modules leave of a text that a model is given."""
Mode = Literal["corpus_only", "hybrid", "general_only"]
JudgeMode = Literal["off", "tell", "withhold"]
ModelPurpose = Literal["rewrite", "rerank", "judge"]

_CITE = (
    "Where a sentence rests on a passage, name its number behind it, such as [1] or [2][3]. Write no links. Numbers in "
    "earlier answers are those of other passages."
)
RULES: dict[Mode, str] = {
    "corpus_only": f"Answer from these passages alone. If they do not say it, say that the documents do not. {_CITE}",
    "hybrid": f"Answer from these passages where they say something of it, and say where you do not. {_CITE}",
    "general_only": "",
}
TOOL = "documents"
"""What modules know the passages as the result of."""
NOTHING_FOUND = "I find nothing about this in the documents."
WITHHELD = "The answer is withheld, as the documents do not support it."
_NOT_SUPPORTED = "Parts of this answer are not supported by the documents."
_NO_NAME = "…"
"""Of a document whose name a module does not leave as it is."""
_MODEL_S = 10.0
"""How long a model may take for what can be done without it."""
_LONG_ANSWER = 10_000
"""In characters: beyond that others would wait for the loop while it is checked."""
_JUDGE_S = 3.0
"""How long the judge by words may take: less than a hook."""
# Of what is told, which is one record.
_MOST_HEADINGS, _LONGEST_HEADING = 8, 200
_LONGEST_EARLIER, _EARLIER = 300, 2
_MOST_JUDGED, _LONGEST_JUDGED = 100, 300
"""Sentences that are told of, and characters of each."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What came of asking a model for what can be done without it."""

    took_ms: int
    failed: str | None = None
    """Why it was done without, in words for people."""


@dataclass(slots=True)
class Answering:
    """One question that is being answered."""

    query: str
    """What the person has said (`query_of`)."""
    mode: Mode
    judge: JudgeMode = "tell"
    judge_threshold: float = THRESHOLD
    retrieved: Retrieved = field(default_factory=Retrieved)
    packed: Packed = field(default_factory=lambda: Packed(()))
    judgement: Judgement | None = None
    judged: str = ""
    """The answer that was judged."""
    removed: int = 0
    """Citations and links that were removed from the answer."""
    is_structured: bool = False
    """Whether the answer is JSON, in the form of a schema."""
    rewritten: str | None = None
    """The question as a model has put it so that it stands alone."""
    models: dict[ModelPurpose, AskedModel] = field(default_factory=dict)
    """By what they were asked for: `rewrite`, `rerank`, `judge`."""

    @property
    def sought(self) -> str:
        """What is looked for."""
        return self.rewritten or self.query

    @property
    def section(self) -> str:
        """The section of the system prompt that has the passages."""
        return prompt_of(self.packed.by_number, RULES[self.mode])


@dataclass(frozen=True, slots=True)
class Checked:
    text: str
    """The answer as it is shown; `WITHHELD` if it isn't."""
    cited: tuple[int, ...]
    """The numbers of the passages that it cites, in the order in which it does so first."""
    is_withheld: bool = False


def query_of(said: Sequence[str]) -> str:
    """What is looked for: the last of what the person has said, below the beginnings of what came before it."""
    if not said:
        return ""
    earlier = [text[:_LONGEST_EARLIER] for text in said[-1 - _EARLIER : -1]]
    return "\n".join([*earlier, said[-1][:LONGEST_QUESTION]]).strip()


def asking(application: "Retrieval", purpose: ModelPurpose, model: str, user: User | None) -> Ask:
    """Asks this model of the settings. `user` pays; None: the user of the run."""
    return partial(application.ask_model, user=user, model=model, purpose=purpose)


async def rewrite(answering: Answering, before: Said, question: str, ask: Ask, review: Review | None) -> None:
    """Have a model put a follow-up so that it stands alone. If it fails, what the person has said is looked for."""

    async def left() -> str | None:
        text = await rewritten(ask, before, question)
        if text is None or review is None:
            return text
        # What modules don't leave as it is is not looked for; they may also put something around it.
        return text if text in (await review(text)).split("\n") else None

    if before:
        answering.rewritten = await _by_model(answering, "rewrite", left())


async def rerank(answering: Answering, ask: Ask, review: Review | None) -> None:
    """Have a model put the best passages into its order, as modules leave them. If it fails, they stay as they are."""
    found = answering.retrieved.passages
    if len(found) < 2:
        return
    best = found[:MOST_RERANKED]
    # Only the order is taken: what fits then becomes one with its neighbours, and is looked at as that.
    shown = await reviewed(best, review) if review is not None else best
    order = await _by_model(answering, "rerank", order_of(ask, answering.sought, shown))
    if order is not None:
        answering.retrieved = replace(answering.retrieved, passages=reordered(found, order))


async def _by_model(
    answering: Answering, purpose: ModelPurpose, asked: Awaitable[T | None], within_s: float | None = None
) -> T | None:
    """What a model has answered; None if it has failed, taken too long, or answered with nothing that can be used."""
    began, failed, result = time.monotonic(), None, None
    try:
        async with asyncio.timeout(_MODEL_S if within_s is None else within_s):
            result = await asked
    except Exception as error:
        # Whatever it is, it is done without.
        failed = "It took too long." if isinstance(error, TimeoutError) else "It is not available."
        log.warning("model done without", extra={"purpose": purpose, "error": type(error).__name__})
    else:
        if result is None:
            failed = "It gave no answer that can be used."
    answering.models[purpose] = AskedModel(round((time.monotonic() - began) * 1000), failed)
    return result


async def retrieve(
    application: "Retrieval",
    user: User,
    answering: Answering,
    collections: Sequence[StoredCollection],
    chosen: Chosen | None = None,
) -> None:
    """Find what the question asks for. Raises ApplicationUnavailable if nothing but the documents may answer it, and
    they can't be searched.
    """
    answering.retrieved = await application.retriever.retrieve(user, answering.sought, collections, chosen)
    ways = answering.retrieved.ways.values()
    if ways and all(way.failed and not way.found for way in ways) and answering.mode == "corpus_only":
        raise ApplicationUnavailable("The documents can't be searched at the moment.")


async def reviewed(passages: Sequence[Passage], review: Review) -> list[Passage]:
    """The passages as `review`, which modules look with, leaves them: it is given each text, and before these the names
    and headings of all, in lines.
    """
    heads = [[" ".join(line.split()) for line in (each.name, *each.path)] for each in passages]
    lines = "\n".join(dict.fromkeys(line for head in heads for line in head))
    # A module may also put something around them.
    left = {*(await review(lines)).split("\n")} if lines else set()
    shown = []
    for each, (name, *path) in zip(passages, heads, strict=True):
        text = await review(each.text)
        shown.append(
            replace(
                each,
                name=name if name in left else _NO_NAME,
                path=tuple(heading for heading in path if heading in left),
                text=text,
                # What a module has taken out is not shown as what was stored.
                numbers=each.numbers if each.text in text else (),
            )
        )
    return shown


async def check_cited(answering: Answering, text: str) -> CheckedAnswer:
    """The answer with its citations and links checked."""
    sources = {number: passage.text for number, passage in answering.packed.by_number.items()}
    checking = check_structured if answering.is_structured else check_citations
    arguments = text, sources, [*sources.values(), answering.query]
    if len(text) <= _LONG_ANSWER:
        return checking(*arguments)
    return await asyncio.to_thread(checking, *arguments)


async def check(answering: Answering, text: str, ask: Ask | None = None, within_s: float | None = None) -> Checked:
    """What becomes of the answer: citations of what was not found are removed, and it is judged by the passages.

    It is judged by words, and then by the model that is asked, if it answers `within_s` seconds.
    """
    sources = {number: passage.text for number, passage in answering.packed.by_number.items()}
    found = await check_cited(answering, text)
    answering.removed = found.unknown + found.links
    if answering.judge == "off" or not sources:
        return Checked(found.text, found.cited)
    threshold = answering.judge_threshold
    answering.judged = found.text
    answering.judgement = by_words = await _judgement(found.text, sources, threshold)
    if ask is not None and by_words is not None and any(one.reason != "needs_none" for one in by_words.sentences):
        asked = judge_by_model(ask, found.text, by_words, sources, threshold=threshold)
        answering.judgement = await _by_model(answering, "judge", asked, within_s) or by_words
    if answering.judgement is not None and answering.judgement.score >= threshold:
        return Checked(found.text, found.cited)
    if answering.judge == "withhold":
        # What is withheld stands in no panel either.
        answering.judged = ""
        return Checked(WITHHELD, (), is_withheld=True)
    if answering.judgement is None or answering.is_structured:
        return Checked(found.text, found.cited)
    return Checked(f"{found.text}\n\n*{_NOT_SUPPORTED}*", found.cited)


async def _judgement(text: str, sources: Mapping[int, str], threshold: float) -> Judgement | None:
    """None if the judge fails or takes too long."""
    try:
        async with asyncio.timeout(_JUDGE_S):
            return await asyncio.to_thread(judge, text, sources, threshold=threshold)
    except Exception as error:
        # Whatever it is, citations and links of the answer are checked.
        log.warning("answer not judged", extra={"error": type(error).__name__})
        return None


def told_of(answering: Answering, *, whole: bool = False) -> dict[str, Any]:
    """What was done, as JSON; `whole` with what the judge says."""
    told: dict[str, Any] = {
        "mode": answering.mode,
        "language": answering.retrieved.language,
        "ways": told_ways(answering),
        "passages": [told_passage(each, number) for number, each in answering.packed.by_number.items()],
        "left_out": answering.packed.left_out,
        "tokens": answering.packed.tokens,
    }
    if answering.models:
        told["models"] = {purpose: told_model(each) for purpose, each in answering.models.items()}
    if whole and answering.judgement is not None:
        sentences = [_judged(answering.judged, one) for one in answering.judgement.sentences[:_MOST_JUDGED]]
        told |= {"judge": {"score": answering.judgement.score, "sentences": sentences}, "removed": answering.removed}
    return told


def _judged(answer: str, one: JudgedSentence) -> dict[str, Any]:
    return {
        "text": answer[one.start : one.end][:_LONGEST_JUDGED],
        "score": one.score,
        "supported": one.supported,
        "reason": one.reason,
        "cited": list(one.cited),
    }


def told_model(asked: AskedModel) -> dict[str, Any]:
    return {"took_ms": asked.took_ms, **({"failed": asked.failed} if asked.failed else {})}


def told_ways(answering: Answering) -> dict[str, dict[str, Any]]:
    return {
        name: {"found": way.found, "took_ms": way.took_ms, **({"failed": way.failed} if way.failed else {})}
        for name, way in answering.retrieved.ways.items()
    }


def told_passage(passage: Passage, number: int) -> dict[str, Any]:
    """Where a passage stands, and why it was taken; not what it says."""
    return {
        "number": number,
        "document": passage.document,
        "name": passage.name,
        "collection": passage.collection,
        "collection_id": passage.collection_id,
        "path": [heading[:_LONGEST_HEADING] for heading in passage.path[:_MOST_HEADINGS]],
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "score": round(passage.score, 5),
        "ranks": dict(passage.ranks),
    }
