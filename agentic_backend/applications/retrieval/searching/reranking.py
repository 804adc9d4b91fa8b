"""Reranking: a model puts passages into the order in which they answer a question.

The passages are data, and nothing but their numbers comes back.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from agentic_backend.applications.retrieval.answering.passages import Passage, prompt_of

MOST_RERANKED = 20
"""So many of the best passages are put into another order; those behind them stay there."""
RERANK = "rerank"
"""What its ranks are called, beside those of the ways of searching."""
_LONGEST_PASSAGE = 1_500
"""So many characters of a passage are shown to the model."""
_INSTRUCTIONS = (
    "You order passages of documents by how well they answer a question. Answer with a JSON list of their numbers "
    "alone, the best first, such as [3, 1, 2]. Leave out those that say nothing of it."
)
_NUMBERS = re.compile(r"\[\s*\d{1,3}(?:\s*,\s*\d{1,3})*\s*\]")


async def order_of(
    ask: Callable[[str, str], Awaitable[str]], question: str, passages: Sequence[Passage]
) -> list[int] | None:
    """The places of the passages, from 0, that the model names, the best first; None if it names none of them."""
    numbered = dict(enumerate((replace(each, text=each.text[:_LONGEST_PASSAGE]) for each in passages), start=1))
    found = _NUMBERS.search(await ask(_INSTRUCTIONS, prompt_of(numbered, f"# Question\n\n{question}")))
    named = [int(number) for number in re.findall(r"\d+", found[0])] if found is not None else []
    return [number - 1 for number in dict.fromkeys(named) if number in numbered] or None


def reordered(passages: Sequence[Passage], order: Sequence[int]) -> list[Passage]:
    """The passages at these places, with their ranks in it, then the others as they were."""
    best = [replace(passages[at], ranks={**passages[at].ranks, RERANK: rank}) for rank, at in enumerate(order, start=1)]
    return [*best, *(each for at, each in enumerate(passages) if at not in order)]
