"""The passages that sentences are compared with, read into statements, and where each word stands in them. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from agentic_backend.applications.retrieval.judging.statements import Clause, Number, Reader, sentence_spans
from agentic_backend.applications.retrieval.languages import language_of


class Passage:
    def __init__(self, text: str, reader: Reader) -> None:
        self.language = language_of(text)
        self.statements = [
            reader.statement(text[start:end], self.language or "en") for start, end in sentence_spans(text)
        ]
        clauses = [clause for statement in self.statements for clause in statement.clauses]
        self.clauses = clauses
        self.keys: frozenset[str] = frozenset().union(*(clause.keys for clause in clauses))
        self.stems: frozenset[str] = frozenset().union(*(clause.stems for clause in clauses))
        self.places = _places(clauses)


def _places(clauses: Sequence[Clause]) -> dict[str, list[int]]:
    """In which clauses each word stands; the beginning of a longer one with `~` after it."""
    places: dict[str, list[int]] = {}
    for at, clause in enumerate(clauses):
        for key in clause.keys:
            places.setdefault(key, []).append(at)
        for stem in clause.stems:
            places.setdefault(f"{stem}~", []).append(at)
        for cognate in clause.cognates:
            places.setdefault(cognate, []).append(at)
    return places


class Corpus:
    """The passages that sentences are compared with, read as one."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.clauses = [
            (clause, statement, passage)
            for passage in passages
            for statement in passage.statements
            for clause in statement.clauses
        ]
        self.keys: frozenset[str] = frozenset().union(*(passage.keys for passage in passages))
        self.places = _places([clause for clause, _, _ in self.clauses])
        self.numbers: dict[float, list[Number]] = defaultdict(list)
        self.anchors: set[str] = set()
        self.dates: set[tuple[int, int]] = set()
        for clause, _, _ in self.clauses:
            self.anchors |= clause.anchors
            self.dates.update(date for each in clause.dates for date in each)
            for number in clause.numbers:
                for value in number.values:
                    self.numbers[value].append(number)
