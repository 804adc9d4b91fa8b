"""What passages say of a sentence: the clause that says most of the same, and what speaks against it. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentic_backend.applications.retrieval.judging import lexicon
from agentic_backend.applications.retrieval.judging.corpus import Corpus, Passage
from agentic_backend.applications.retrieval.judging.statements import (
    Clause,
    Statement,
    Term,
    cognate_of,
    units_differ,
)

THRESHOLD = 0.4
"""From which score on a sentence is supported; tuned on one half of the labelled sentences (bench/RAG.md)."""
CONTRADICTED = 0.2
"""The most that a sentence scores which says something else than the passages."""
UNSURE = 0.3
"""The most that a sentence in another language than its passages scores, if too little of it can be compared."""
# What a word weighs that stands in so many clauses of a passage, as it is looked for where it belongs.
_RARITY = (0.0, 1.0, 0.8, 0.65, 0.5)
_DEEDS = frozenset("acquire found lead succeed propose fund send transfer approve responsible".split())
_DONE_TO = frozenset(("acquire", "succeed"))


@dataclass(slots=True)
class _Aligned:
    """A clause of the sentence, and the clause of the passages that says most of the same."""

    clause: Clause
    best: Clause
    statement: Statement
    passage: Passage
    shared: float
    """How much both have."""


class Comparison:
    def __init__(self, statement: Statement, language: str, corpus: Corpus) -> None:
        self._statement = statement
        self._corpus = corpus
        languages = {passage.language for passage in corpus.passages}
        self._across = bool(languages) and not languages & {language, None}
        self._aligned = [found for clause in statement.clauses if (found := self._align(clause)) is not None]

    def verdict(self) -> tuple[float, str]:
        """The score, and what speaks against the sentence, or nothing."""
        if not self._corpus.passages:
            return 0.0, "no_passages"
        reason = self._number() or self._name() or self._date()
        if reason:
            return CONTRADICTED / 2, reason
        covered, certain = self._coverage()
        for check in (self._said_otherwise, self._quantifier, self._modality, self._cause, self._swapped):
            reason = check()
            if reason:
                return min(CONTRADICTED, covered), reason
        if not self._across:
            return covered, ""
        if certain:
            return max(covered, THRESHOLD + 0.05), ""
        return min(covered, UNSURE), "unsure"

    def _align(self, clause: Clause) -> _Aligned | None:
        places = self._corpus.places
        counts: dict[int, float] = defaultdict(float)
        for found, weight in self._found(clause):
            weight *= _RARITY[min(len(found), len(_RARITY) - 1)]
            for at in found:
                counts[at] += weight
        for number in clause.numbers:
            for at in {at for value in number.values for at in places.get(f"#{value:g}", ())}:
                counts[at] += 1.2
        for anchor in clause.anchors:
            for at in places.get(anchor, ()):
                counts[at] += 1
        if not counts:
            return None
        # Of two that share as much, the shorter one.
        clauses = self._corpus.clauses
        best = max(counts, key=lambda at: counts[at] - 0.01 * clauses[at][0].weight)
        return _Aligned(clause, *clauses[best], counts[best])

    def _found(self, clause: Clause) -> Iterator[tuple[Sequence[int], float]]:
        """For each word of the clause in which clauses of the passages it stands, and what that weighs."""
        places = self._corpus.places
        before: Term | None = None
        for term in clause.terms:
            found = places.get(term.key) or places.get(term.folded)
            weight = 1.3 if term.name else 1.5 if term.key in _DEEDS else 1.0
            if term.name and before is not None and before.name and before.at == term.at - 1:
                # A name of several words is one.
                weight = 0.3
            before = term
            if found is None:
                found, weight = places.get(f"{term.folded[:5]}~"), 0.7
            if found is None:
                found = places.get(cognate_of(term.folded)) if self._across else None
            if found is not None:
                yield found, weight

    def _coverage(self) -> tuple[float, bool]:
        """How much of the sentence stands in the passages, and whether that is enough between two languages."""
        total = reached = 0.0
        anchors = 0
        worst = 1.0
        by_clause = {id(found.clause): found for found in self._aligned}
        for clause in self._statement.clauses:
            of_clause = reached_of_clause = 0.0
            found = by_clause.get(id(clause))
            for term in clause.terms:
                weight = 1.5 if term.name else 1.0
                of_clause += weight
                covers = self._covers(term, found)
                if covers < 0.5 and term.key in lexicon.LIGHT:
                    of_clause -= weight * 0.7
                    weight *= 0.3
                reached_of_clause += weight * covers
                anchors += covers >= 0.5 and (term.name or term.key != term.folded)
            for number in clause.numbers:
                of_clause += 1
                reached_of_clause += 1
                anchors += 1 if number.in_words and max(number.values) < 4 else 2
            for _ in clause.anchors:
                of_clause += 1
                reached_of_clause += 1
                anchors += 2
            total, reached = total + of_clause, reached + reached_of_clause
            if of_clause >= 3:
                worst = min(worst, reached_of_clause / of_clause)
        covered = reached / total if total else 0.0
        return (covered + worst) / 2 if worst < covered else covered, anchors >= 2 and covered >= 0.3

    def _covers(self, term: Term, found: _Aligned | None) -> float:
        if found is None:
            return 0.0
        if term.key in found.best.keys or term.folded in found.best.keys:
            return 1.0
        stem = term.folded[:5] if len(term.folded) >= 5 else None
        if any(term.key in clause.keys or term.folded in clause.keys for clause in found.statement.clauses):
            return 0.95
        if stem in found.best.stems or (self._across and cognate_of(term.folded) in found.best.cognates):
            return 0.85
        if term.key in found.passage.keys or term.folded in found.passage.keys:
            return 0.75
        if stem in found.passage.stems:
            return 0.65
        if _in_compound(term, found.best.keys):
            return 0.85
        if _in_compound(term, found.passage.keys):
            return 0.6
        if term.key in self._corpus.keys or term.folded in self._corpus.keys:
            return 0.5
        return 0.0

    def _number(self) -> str:
        numbers = self._corpus.numbers
        for clause in self._statement.clauses:
            for number in clause.numbers:
                same = [other for value in number.values for other in numbers.get(value, ())]
                if not same:
                    if number.in_words and number.unit is None and max(number.values) <= 3:
                        # "These two rules"
                        continue
                    return "number"
                if all(units_differ(number, other) for other in same):
                    return "unit"
        for found in self._aligned:
            reason = _belongs_to_another(found)
            if reason:
                return reason
        return ""

    def _name(self) -> str:
        known = self._corpus.keys
        for clause in self._statement.clauses:
            for term in clause.terms:
                if not term.name or term.key in known or term.folded in known or term.folded.removesuffix("s") in known:
                    continue
                if f"{term.folded}s" in known or (term.key != term.folded and self._across):
                    continue
                if self._across and any(_alike(term.folded, other) for other in known):
                    continue
                if any(char.isdigit() for char in term.folded) or not self._across:
                    return "name"
                if self._across and not term.folded.endswith(("ion", "ung", "eit")):
                    return "name"
        return ""

    def _date(self) -> str:
        for clause in self._statement.clauses:
            if not clause.anchors <= self._corpus.anchors:
                return "date"
            if any(not date & self._corpus.dates for date in clause.dates):
                return "date"
        for found in self._aligned:
            periods = set().union(*(clause.periods for clause in found.statement.clauses))
            if found.clause.periods and periods and not found.clause.periods & periods:
                return "unit"
        return ""

    def _said_otherwise(self) -> str:
        for found in self._aligned:
            if self._denied_otherwise(found, sure=found.shared >= 0.45 * max(2, found.clause.weight)):
                return "negation"
            outcomes, said = _outcomes(found.clause), set().union(*map(_outcomes, found.statement.clauses))
            if outcomes and said and not outcomes & said:
                return "negation"
        return ""

    def _denied_otherwise(self, found: _Aligned, *, sure: bool) -> bool:
        """Whether the clause denies what the passage says, or the other way round; `sure` if both speak of the same."""
        clause, best = found.clause, found.best
        said = _signs(self._statement.clauses)
        passage = _signs(found.statement.clauses)
        # Words of which there is an opposite: "rejected", "not approved".
        mine, theirs = _signs([clause]), _signs([best])
        denying = {term.key for term in (*clause.terms, *best.terms) if term.denies}
        if any(number.unit == "clock" for number in clause.numbers):
            # It is open until it closes.
            denying.discard("open")
        both = [key for key in denying if (key in mine and key in passage) or (key in theirs and key in said)]
        for key in both:
            if not (mine.get(key) or said[key]) & (theirs.get(key) or passage[key]):
                return True
        if both and any(key in mine for key in both):
            return False
        if not sure:
            return False
        # Words without an opposite on the other side count only beside a "not": synonyms may be missing in the lexicon.
        whole = [each.clause for each in self._aligned if each.best is best]
        for clauses in ([clause], whole, [*whole, *self._adrift(found)]):
            if not _differ(clauses, [best], both):
                return False
        # One clause may say what several of the passage say.
        heard = [each for each in found.statement.clauses if each is best or (each.keys - best.keys) & clause.keys]
        return len(heard) == 1 or _differ(whole, heard, both)

    def _adrift(self, found: _Aligned) -> list[Clause]:
        """The other clauses of the sentence of which the passages say little: they may belong to this one."""
        placed = [each.clause for each in self._aligned if each.shared >= 1 or each.best is found.best]
        return [clause for clause in self._statement.clauses if not any(clause is each for each in placed)]

    def _quantifier(self) -> str:
        for found in self._aligned:
            words, passage = found.clause.words, found.statement.words()
            if found.clause.periods or any(anchor.startswith("weekday") for anchor in found.clause.anchors):
                # "each month", "every Sunday"
                continue
            if _bounds(found.clause) and _bounds(found.best) and not _bounds(found.clause) & _bounds(found.best):
                return "quantifier"
            restricted = lexicon.ONLY | lexicon.PARTIAL | lexicon.EXCEPTIONS
            if words & lexicon.ALWAYS and passage & restricted and not words & restricted:
                return "quantifier"
            if words & lexicon.UNIVERSAL and not passage & lexicon.UNIVERSAL and not passage & {"per", "je", "par"}:
                return "quantifier"
        return ""

    def _modality(self) -> str:
        for found in self._aligned:
            said, passage = _force(found.clause), _force(found.best)
            if said and not passage:
                said, passage = _force_of(self._statement), _force_of(found.statement)
            if said and passage and not said & passage and not found.clause.negations | found.best.negations:
                return "modality"
        return ""

    def _cause(self) -> str:
        words = self._statement.words()
        if not words & lexicon.CAUSES:
            return ""
        told = [_with_its_cause(found) for found in self._aligned]
        if not any(clause.words & lexicon.CAUSES_TOO or "cause" in clause.keys for each in told for clause in each):
            return "cause"
        # Cause and effect stand in one sentence of a passage, or in two of which the later one refers to the other.
        anchors = set().union(*(clause.anchors for clause in self._statement.clauses))
        terms = [term for clause in self._statement.clauses for term in clause.terms]
        whole, said = len(anchors) + len(terms), _signs(self._statement.clauses)
        for each in told:
            keys = frozenset().union(*(clause.keys | clause.stems for clause in each))
            signs = _signs(each)
            opposite = {term.key for clause in each for term in clause.terms if term.denies}
            opposite |= {term.key for term in terms if term.denies}
            missing = [
                term
                for term in terms
                if (term.key not in keys and term.folded not in keys and term.folded[:5] not in keys)
                or (term.key in opposite and term.key in signs and not said[term.key] & signs[term.key])
            ]
            if len(missing) + len(anchors - keys) <= whole * 0.35:
                return ""
        return "cause"

    def _swapped(self) -> str:
        for found in self._aligned:
            if self._takes_from_elsewhere(found) or self._deed_of_another(found) or self._mixes(found):
                return "swapped"
            if _compared_otherwise(found) or _done_otherwise(found) or _exchanged(found):
                return "swapped"
            if self._another_instead(found):
                return "name"
        return ""

    def _takes_from_elsewhere(self, found: _Aligned) -> bool:
        """Whether the clause puts a word of another statement in the place of one of this."""
        if found.best.words & lexicon.PRONOUNS:
            return False
        if any(term.key in ("person", "party") for term in found.clause.terms):
            return False
        sentence = frozenset().union(*(clause.keys for clause in found.statement.clauses))
        strange = [term for term in found.clause.terms if self._strange(term, found)]
        replaced = self._replaced(found)
        for term in strange:
            if term.key not in self._corpus.keys and term.folded not in self._corpus.keys:
                continue
            rivals = [other for other in replaced if _is_rival(other, term)]
            if rivals and term.key not in sentence and not _joined(term, found):
                return True
            # Within one sentence: another clause of it speaks of this one.
            others = [clause for clause in self._statement.clauses if clause is not found.clause]
            if any(other.key in clause.keys for other in replaced for clause in others):
                return True
        return False

    def _replaced(self, found: _Aligned) -> list[Term]:
        """What the clause of the passage speaks of, and nothing does that the sentence says of it."""
        whole = [each.clause for each in self._aligned if each.best is found.best]
        return [
            term
            for term in found.best.terms
            if self._takes_part(term) and not any(_stands_in(term, each.keys, each.stems) for each in whole)
        ]

    def _another_instead(self, found: _Aligned) -> bool:
        """Whether a word stands where the clause of the passage has another one: "with oil", "1,340 trout"."""
        if self._across:
            return False
        slots = {_slot(term) for term in self._replaced(found)} - {""}
        return any(
            _slot(term) in slots
            and self._takes_part(term)
            and not _stands_in(term, found.best.keys, found.best.stems)
            and not _joined(term, found)
            for term in found.clause.terms
        )

    def _strange(self, term: Term, found: _Aligned) -> bool:
        """Whether the clause of the passage doesn't speak of it, nor the passage as a whole."""
        if not self._takes_part(term) or _stands_in(term, found.best.keys, found.best.stems):
            return False
        places = found.passage.places.get(term.key) or found.passage.places.get(term.folded) or []
        return term.name or (0 not in places and (term.key in lexicon.PARTICIPANTS or len(places) < 2))

    def _takes_part(self, term: Term) -> bool:
        return (
            term.name
            or term.key in lexicon.PARTICIPANTS
            or (term.noun and not self._across and term.key not in lexicon.CONCEPTS)
        )

    def _mixes(self, found: _Aligned) -> bool:
        """Whether the clause says of one passage what another one says of something else."""
        passage = found.passage
        foreign = [
            term
            for term in found.clause.terms
            if (term.key in self._corpus.keys or term.folded in self._corpus.keys)
            and not _stands_in(term, passage.keys, passage.stems)
        ]
        return len({term.key for term in foreign}) >= 2 and len(foreign) * 4 >= len(found.clause.terms)

    def _deed_of_another(self, found: _Aligned) -> bool:
        """Whether somebody is said to have done what another one did."""
        for term in () if self._across else found.clause.terms:
            if term.key not in _DEEDS or term.key not in found.passage.places:
                continue
            passive = bool(found.clause.words & lexicon.PASSIVE)
            names = {name.folded for name in found.clause.terms if name.name and (passive or name.at < term.at)}
            if not names:
                continue
            done = [found.passage.clauses[at] for at in found.passage.places[term.key]]
            by = [{other.folded for other in clause.terms if other.name} for clause in done]
            if all(by) and not any(names & each for each in by):
                return not any(clause.words & lexicon.PRONOUNS for clause in done)
        return False


def _is_rival(other: Term, term: Term) -> bool:
    """Whether another word may have the place of one: of somebody who acts, only somebody else who does."""
    return term.key not in lexicon.PARTICIPANTS or other.name or other.key in lexicon.PARTICIPANTS


def _slot(term: Term) -> str:
    return term.before if term.before[:1].isdigit() else lexicon.PREPOSITIONS.get(term.before, "")


def _exchanged(found: _Aligned) -> bool:
    """Whether two numbers of the clause have changed places: each stands beside what the other one is said of."""
    clause, best = found.clause, found.best
    if len(clause.numbers) < 2 or len(best.numbers) < 2:
        return False
    shared = {term.key for term in clause.terms} & {term.key for term in best.terms}
    beside, beside_there = _nearest(clause, shared), _nearest(best, shared)
    units = {number.values: number.unit for number in (*clause.numbers, *best.numbers)}
    for value, key in beside.items():
        for other, there in beside_there.items():
            if units[value] != units[other]:
                # A unit goes with its number, wherever that stands.
                continue
            if other != value and there == key and other in beside and value in beside_there:
                if beside[other] != key and beside_there[value] != key:
                    return True
    return False


def _nearest(clause: Clause, keys: set[str]) -> dict[frozenset[float], str]:
    """For each number the word that stands nearest to it."""
    terms = [term for term in clause.terms if term.key in keys]
    return {
        number.values: min(terms, key=lambda term: abs(term.at - number.at)).key for number in clause.numbers if terms
    }


def _joined(term: Term, found: _Aligned) -> bool:
    """Whether the clause joins two sentences of the passage: the other one says more of it than this word."""
    for statement in found.passage.statements:
        keys = frozenset().union(*(clause.keys for clause in statement.clauses))
        if term.key in keys:
            more = [
                other
                for other in found.clause.terms
                if other.key in keys and other.key not in found.best.keys and abs(other.at - term.at) > other.name
            ]
            if len(more) - 1 >= 2:
                return True
    return False


def _stands_in(term: Term, keys: frozenset[str], stems: frozenset[str]) -> bool:
    word = term.folded
    return term.key in keys or word in keys or word[:5] in stems or _in_compound(term, keys)


def _in_compound(term: Term, keys: frozenset[str]) -> bool:
    """Whether a word is part of one of the others, or one of them part of it: Kessel, Heizkessel."""
    word = term.folded
    if len(word) < 5 or term.key in lexicon.PARTICIPANTS:
        # A Verkäufer is no Käufer.
        return False
    return any(len(key) >= 5 and (key in word or word in key) for key in keys)


def _belongs_to_another(found: _Aligned) -> str:
    """Whether the passage says another number where the clause says this one."""
    for number in found.clause.numbers:
        if number.unit is None or any(other.values & number.values for other in found.best.numbers):
            continue
        said = {value for each in found.clause.numbers for value in each.values}
        rivals = [other for other in found.best.numbers if other.unit == number.unit and not other.values & said]
        if rivals and found.shared >= 2:
            return "number"
    return ""


def _alike(word: str, other: str) -> bool:
    """Whether two words may be one name in two languages: Denmark, Dänemark."""
    if word[:1] != other[:1] or abs(len(word) - len(other)) > 3:
        return False
    first, second = _consonants(word), _consonants(other)
    return first[:3] == second[:3] or word[:4] == other[:4]


def _consonants(word: str) -> str:
    return re.sub("[aeiouyhw]", "", word.replace("sch", "s").replace("c", "k"))


def _differ(clauses: Sequence[Clause], others: Sequence[Clause], both: Sequence[str]) -> bool:
    """Whether only the one or only the others are denied."""
    every = (*clauses, *others)
    negations = sum(_negations(clause) for clause in every)
    if negations % 2 == 0:
        return False
    denials = negations + sum(_denials(clause, others, both) for clause in clauses)
    denials += sum(_denials(clause, clauses, both) for clause in others)
    return denials % 2 == 1 and (denials + sum(clause.exceptions for clause in every)) % 2 == 1


def _negations(clause: Clause) -> int:
    """How often it says "not"; "not more than" is "at most"."""
    more = clause.compared_at is not None and any(term.key == "rise" and not term.denies for term in clause.terms)
    return clause.negations - 1 if more and clause.negations and clause.numbers else clause.negations


def _denials(clause: Clause, others: Sequence[Clause], both: Sequence[str]) -> int:
    """How many of its words deny something, by their meaning or as "unpaid" does."""
    count = sum(term.denies and term.key not in both and term.key != "rise" for term in clause.terms)
    beginnings = {term.folded[:4] for other in others for term in other.terms}
    for term in clause.terms:
        if not term.denies and term.folded[:2] in ("un", "in", "im", "ir") and term.folded[2:6] in beginnings:
            count += 1
    return count


def _outcomes(clause: Clause) -> set[str]:
    return {term.key for term in clause.terms if term.key in lexicon.OUTCOMES}


def _signs(clauses: Sequence[Clause]) -> dict[str, set[bool]]:
    """For each word, whether it is denied: by a word beside it, or by its own opposite."""
    signs: dict[str, set[bool]] = defaultdict(set)
    for clause in clauses:
        for term in clause.terms:
            signs[term.key].add((clause.negations + term.denies) % 2 == 1)
    return signs


def _bounds(clause: Clause) -> frozenset[str]:
    """Whether it says "at least" or "at most"."""
    return frozenset(("minimum", "maximum")) & clause.keys


def _force(clause: Clause) -> set[str]:
    force = set()
    if clause.words & lexicon.OBLIGED:
        force.add("obliged")
    if clause.words & lexicon.PERMITTED and not clause.words & lexicon.ONLY:
        force.add("permitted")
    return force


def _with_its_cause(found: _Aligned) -> list[Clause]:
    """The clauses of the passage's sentence, and of its neighbour where the later one of both refers to the other."""
    statements = found.passage.statements
    at = next(place for place, each in enumerate(statements) if each is found.statement)
    clauses = list(found.statement.clauses)
    if at and found.statement.words() & lexicon.CAUSES_BACK:
        clauses += statements[at - 1].clauses
    if at + 1 < len(statements) and statements[at + 1].words() & lexicon.CAUSES_BACK:
        clauses += statements[at + 1].clauses
    return clauses


def _force_of(statement: Statement) -> set[str]:
    return set().union(*(_force(clause) for clause in statement.clauses))


def _compared_otherwise(found: _Aligned) -> bool:
    """Whether what is compared has changed its place with what it is compared to."""
    clause, best = found.clause, found.best
    if clause.compared_at is None or best.compared_at is None:
        return False
    before, after = _halves(clause)
    before_best, after_best = _halves(best)
    kept = len(before & before_best) + len(after & after_best)
    moved = len((before - after) & (after_best - before_best)) + len((after - before) & (before_best - after_best))
    straight = len((before - after) & (before_best - after_best)) + len((after - before) & (after_best - before_best))
    return moved > 0 and moved >= straight and kept >= 0


def _halves(clause: Clause) -> tuple[set[str], set[str]]:
    before = {term.key for term in clause.terms if term.at < (clause.compared_at or 0)}
    return before, {term.key for term in clause.terms if term.at >= (clause.compared_at or 0)}


def _done_otherwise(found: _Aligned) -> bool:
    """Whether who does it and to whom it is done have changed places: the name is on the other side of the verb."""
    if found.clause.words & lexicon.PASSIVE or found.best.words & lexicon.PASSIVE:
        return False
    deeds = {term.key: term.at for term in found.clause.terms if term.key in _DONE_TO}
    for term in found.best.terms:
        if term.key not in deeds:
            continue
        for name in found.clause.terms:
            there = next((other for other in found.best.terms if other.name and other.folded == name.folded), None)
            if there is not None and (name.at < deeds[term.key]) != (there.at < term.at):
                return True
    return False
