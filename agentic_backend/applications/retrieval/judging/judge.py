"""Whether each sentence of an answer is supported by the passages that it cites: by words, without a model. Pure.

A sentence is compared clause by clause with the clause of the passages that says most of the same. It needs their
words (by stems, or by concepts of a small lexicon in English, German and French), and must not contradict them: other
numbers, units, dates and names, a denial more or less, "all" for "some", "must" for "may", a cause that no passage
names, or words of one statement put to another. What is only implied, needs arithmetic or is said in words that nobody
knows here, it can't see; between two languages it has names, numbers and the lexicon, and says "unsure" if they are
not enough. A model sees more (`model_judge`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentic_backend.applications.retrieval.judging.comparison import THRESHOLD, Comparison
from agentic_backend.applications.retrieval.judging.corpus import Corpus, Passage
from agentic_backend.applications.retrieval.judging.statements import Reader, Statement, sentence_spans
from agentic_backend.applications.retrieval.languages import language_of

_CITATIONS = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_MARKUP = re.compile(r"[*_`#>|]+|^[^\S\n]*(?:[-+•]|\d{1,2}[.)])\s+", re.M)


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    start: int
    """Where it begins in the answer, in characters."""
    end: int
    """Where it ends: the character after its last."""
    cited: tuple[int, ...]
    """The passages that it cites and that there are; without one it is judged against all."""
    score: float
    """From 0, says something else, to 1, stands there."""
    supported: bool
    reason: str
    """A short code. Supported: `cited`, `none_cited` (all passages were looked at), `needs_none` (a greeting, a
    question, that nothing was found). Not supported: `number`, `unit`, `date`, `name`, `negation`, `quantifier`,
    `modality`, `cause`, `swapped`, `words` (too few of its words stand there), `no_passages`, `unsure`, or `model`
    (a model says so)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    score: float
    """The mean of the sentences that need a passage, by their length; 1 without any."""
    sentences: tuple[JudgedSentence, ...]

    @classmethod
    def of(cls, sentences: Iterable[JudgedSentence]) -> "Judgement":
        judged = tuple(sentences)
        lengths = [(each.end - each.start, each.score) for each in judged if each.reason != "needs_none"]
        whole = sum(length for length, _ in lengths)
        score = sum(length * score for length, score in lengths) / whole if whole else 1.0
        return cls(round(score, 3), judged)


def judge(answer: str, passages: Mapping[int, str], *, threshold: float = THRESHOLD) -> Judgement:
    """Judges an answer, in Markdown with citations as `[1]`, `[2][3]` or `[1, 2]`, against passages by their number.

    `threshold`, from 0 to 1, is the score from which on a sentence is supported. Code blocks are passed over.
    """
    reader = Reader()
    of_answer = language_of(_MARKUP.sub(" ", answer)) or "en"
    read: dict[int, Passage] = {}
    corpora: dict[tuple[int, ...], Corpus] = {}
    judged = []
    for start, end in _spans(answer):
        sentence = answer[start:end]
        numbers = [int(number) for group in _CITATIONS.findall(sentence) for number in group.split(",")]
        cited = tuple(number for number in dict.fromkeys(numbers) if number in passages)
        bare = _MARKUP.sub(" ", _CITATIONS.sub("", sentence)).strip()
        if not re.search(r"[^\W\d_]", bare):
            continue
        language = language_of(bare) or of_answer
        statement = reader.statement(bare, language)
        if needs_none(bare, statement, heading=sentence.lstrip().startswith("#")):
            judged.append(JudgedSentence(start, end, cited, 1.0, True, "needs_none"))
            continue
        against = cited or tuple(passages)
        if against not in corpora:
            for number in against:
                if number not in read:
                    read[number] = Passage(passages[number], reader)
            corpora[against] = Corpus([read[number] for number in against])
        score, reason = Comparison(statement, language, corpora[against]).verdict()
        supported = score >= threshold
        if supported:
            reason = "cited" if cited else "none_cited"
        judged.append(JudgedSentence(start, end, cited, round(score, 3), supported, reason or "words"))
    return Judgement.of(judged)


LONGEST_PHRASE = 400
"""So many characters of a sentence are looked at for what needs no passage."""
_NEEDS_NONE = re.compile(
    r"let me know|feel free|hope (this|that) helps|happy to|glad to|here (is|are) (what|the|a)\b"
    r"|you'?re welcome|^sure\b"
    r"|^(hello|hi|thank|thanks|of course|certainly)\b"
    r"|\bgern(e)?\b.*\b(helf|weiter|beantwort)|melden sie sich|^(hallo|guten (tag|morgen)|danke|vielen dank)\b"
    r"|lassen sie (es )?mich wissen|ich hoffe"
    r"|n'hésitez pas|je reste à votre disposition|j'espère|voici (ce que|les|un|la|le)\b|^(bonjour|merci|bien sûr)\b",
    re.I,
)
_SOURCES = re.compile(
    r"\b(documents?|passages?|sources?|context|excerpts?|material|unterlagen|dokument\w*|quellen?|textstellen|"
    r"auszüge\w*|information\w*|angaben|extraits?|contexte|textes?)\b",
    re.I,
)
_SAYS_NOTHING = re.compile(
    r"\b(do(es)?n't|do(es)? not|did not|didn't|no|not|none|cannot|can't|unable|could not|couldn't|nothing"
    r"|kein\w*|nicht|nichts|ne|n'\w+|pas|aucune?|rien)\b.*\b(say\w*|mention\w*|contain\w*|found|find|state\w*|specif\w*|provide\w*|answer\w*|cover\w*"
    r"|include\w*|information|address\w*|gefunden|finden|enthalten|enthält|erwähn\w*|angaben|hervor|beantwort\w*"
    r"|auskunft|steht|trouv\w*|mentionn\w*|contien\w*|précis\w*|indiqu\w*|parlent?|disent|dit|répon\w*|information\w*)",
    re.I,
)


def needs_none(sentence: str, statement: Statement, *, heading: bool = False) -> bool:
    """Whether a sentence says nothing that a passage would have to: a greeting, a question, that nothing was found."""
    if heading or sentence.endswith(("?", "?”", "\uff1f")):
        return True
    said = sentence[:LONGEST_PHRASE]
    if _SOURCES.search(said) and _SAYS_NOTHING.search(said):
        return True
    says = [clause for clause in statement.clauses if clause.numbers or any(term.name for term in clause.terms)]
    if says:
        return False
    if not any(clause.weight for clause in statement.clauses):
        return True
    return bool(_NEEDS_NONE.search(said)) or (sentence.endswith(":") and len(sentence.split()) <= 12)


def _spans(answer: str) -> Iterator[tuple[int, int]]:
    """The sentences outside of code blocks."""
    start = 0
    for fence in _FENCE.finditer(answer):
        yield from ((start + at, start + end) for at, end in sentence_spans(answer[start : fence.start()]))
        start = fence.end()
    yield from ((start + at, start + end) for at, end in sentence_spans(answer[start:]))


__all__ = ["THRESHOLD", "JudgedSentence", "Judgement", "judge", "needs_none"]
