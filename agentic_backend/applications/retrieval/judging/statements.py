"""Texts as the lexical judge compares them: sentences, their clauses, and what each clause says. Pure."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from Stemmer import Stemmer  # type: ignore[import-not-found]

from agentic_backend.applications.retrieval.judging import lexicon

LONGEST_WORD = 64
_STEMMERS = {"de": "german", "en": "english", "fr": "french"}
_MEANINGS = lexicon.meanings()
_PHRASES = {code: {name.partition("_")[0] for name in names if "_" in name} for code, names in _MEANINGS.items()}
"""The words with which phrases begin."""
_NUMBER_WORDS = lexicon.number_words()
_STRONG_JOINTS = frozenset("while whereas but wahrend aber sondern mais tandis".split())
_WEAK_JOINTS = frozenset("and und et or oder ou".split())
_NOT_MORE = frozenset("more later less mehr weniger spater plus moins only nur seulement".split())
_PREFIX = 5
_CLOCKS = {"en": ("am", "pm"), "de": ("uhr",), "fr": ("h",)}
_PARTICIPLE = re.compile(
    r"(?P<before>ab|an|auf|aus|bei|durch|ein|mit|nach|uber|um|unter|vor|weg|zu|zuruck|)ge(?P<stem>\w{3,}?)(?:e?t|en)"
)
_FREE = re.compile(r"frei(?:e[mnrs]?)?$")
# How much of the smaller unit a larger one is: two years are 24 months, and a month is said for 30 days.
_SMALLER = {
    "year": ("month", 12.0),
    "quarter": ("month", 3.0),
    "month": ("day", 30.0),
    "week": ("day", 7.0),
    "hour": ("minute", 60.0),
    "cent": ("eur", 0.01),
    "tonne": ("kilogram", 1000.0),
    "kilometre": ("metre", 1000.0),
}
_TOKEN = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d(?!\d)|\d{1,2}[./]\d{1,2}[./]\d{4}(?!\d))"
    r"|(?P<time>\d{1,2}:\d\d(?!\d)|\d{1,2}\s?h\s?\d\d(?!\d))"
    r"|(?P<number>\d{1,3}(?:[ \u00a0\u202f.,'’]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)"
    r"(?:(?:er|re|st|nd|rd|th|e|ème)\b)?"
    r"|(?P<code>[^\W\d_]+-?\d[\w-]*)"
    r"|(?P<word>[^\W\d_]+(?:-[^\W\d_]+)*)"
    r"|(?P<symbol>[€$£¥%]|°[CF])"
    r"|(?P<mark>[.;:,!?()–—])"
)
# As in "don't" and "can't".
_NOT = re.compile(r"(?:\b(?:ca|wo|sha))?n['’]t\b", re.I)
# Where a sentence may end: at a mark before a space, or at the end of a line. Closing marks and citations belong to it.
_END = re.compile(
    r"(?:(?<![.!?…])[.!?…]+|[\u3002\uff01\uff1f])[\"'»”’)\]*_]*(?:\s*(?:\[[^\]\n]{1,40}\]|【[^】\n]{1,40}】))*(?=\s|$)|\n+"
)
_ABBREVIATIONS = frozenset(
    "dr prof mr mrs ms st no nr art abs ca etc e.g i.e z.b d.h u.a bzw evtl ggf inkl max min mio mrd tel vgl m mm p par"
    " sect sec fig approx vs str".split()
)


class Number(NamedTuple):
    values: frozenset[float]
    """What it may stand for: `1.200` is 1200 or 1.2."""
    unit: str | None
    in_words: bool
    at: int = 0
    """Which token of the sentence it is."""


class Term(NamedTuple):
    key: str
    """The concept, or else the stem: folded, without accents."""
    folded: str
    denies: bool
    name: bool
    """Is it the name of somebody or something, as far as its letters tell?"""
    at: int
    """Which token of the sentence it is."""
    before: str
    """The word before it, folded."""
    noun: bool = True
    """Whether it may be a noun: in German these have capitals."""


@dataclass(slots=True)
class Clause:
    terms: list[Term] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    """All words, folded, those that say little too."""
    anchors: set[str] = field(default_factory=set)
    """Months, days of the week, seasons."""
    periods: set[str] = field(default_factory=set)
    """How often, or for how long each."""
    dates: list[frozenset[tuple[int, int]]] = field(default_factory=list)
    """Day and month, in both orders where nobody says which is first."""
    negations: int = 0
    exceptions: int = 0
    compared_at: int | None = None
    """Which token compares: "than"."""
    keys: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()
    """The beginnings of longer words, which words of the same root share."""
    cognates: frozenset[str] = frozenset()
    """The consonants of longer words, which words of the same root share in several languages."""

    @property
    def weight(self) -> int:
        return len(self.terms) + len(self.numbers) + len(self.anchors)

    def finished(self) -> "Clause":
        self.keys = frozenset(
            [
                *(term.key for term in self.terms),
                *(term.folded for term in self.terms),
                *(f"#{value:g}" for number in self.numbers for value in number.values),
                *self.anchors,
                *(f"{day}.{month}." for date in self.dates for day, month in date),
            ]
        )
        self.stems = frozenset(term.folded[:_PREFIX] for term in self.terms if len(term.folded) >= _PREFIX)
        self.cognates = frozenset(cognate for term in self.terms if (cognate := cognate_of(term.folded)))
        return self


@dataclass(slots=True)
class Statement:
    """A sentence."""

    clauses: list[Clause]

    def words(self) -> set[str]:
        return set().union(*(clause.words for clause in self.clauses))


class _Token(NamedTuple):
    kind: str
    text: str
    folded: str


def folded(text: str) -> str:
    """Without case and accents: `Öffnet` is `offnet`."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


_SAME_SOUND = str.maketrans({"c": "k", "q": "k", "z": "s", "v": "f", "w": "f", **dict.fromkeys("aeiouyhj")})


def cognate_of(word: str) -> str:
    """What a longer word shares with its like in another language: fonction, Funktion, function."""
    if len(word) < 6:
        return ""
    consonants = word.replace("ph", "f").replace("sch", "s").translate(_SAME_SOUND)
    return f"{word[0].translate(_SAME_SOUND)}≈{consonants[:4]}" if len(consonants) >= 4 else ""


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence stands: start and end in characters, without the spaces around it; a line ends one."""
    start = 0
    for end in _END.finditer(text):
        if end[0][0] != "\n" and _goes_on(text, start, end):
            continue
        yield from _trimmed(text, start, end.start() if end[0][0] == "\n" else end.end())
        start = end.end()
    yield from _trimmed(text, start, len(text))


def _goes_on(text: str, start: int, end: re.Match[str]) -> bool:
    """Whether the mark ends no sentence: it stands after an abbreviation, an initial or a number of a list or date."""
    if end[0] != ".":
        return False
    before = text[max(start, end.start() - 12) : end.start()].split()
    last = before[-1].lower().lstrip("(*[") if before else ""
    after = text[end.end() : end.end() + 20].lstrip()
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        return True
    if last.isdigit() and len(last) <= 2:
        # "1. Juni", "1. A point of a list": where nothing is before it, or a month comes.
        return (len(before) == 1 and not text[start : end.start()].strip().removesuffix(last).strip()) or (
            folded(after.split()[0].strip(".,")) in lexicon.MONTHS if after else False
        )
    return after[:1].islower()


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    kept = piece.strip()
    if kept:
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(kept)


class Reader:
    """Reads texts, and keeps what it has found out about each word; for one call, as stemmers are of one thread."""

    def __init__(self) -> None:
        self._stemmers = {code: Stemmer(name, 0) for code, name in _STEMMERS.items()}
        self._known: dict[tuple[str, str], tuple[str, bool]] = {}

    def statement(self, sentence: str, language: str) -> Statement:
        tokens = [
            _Token(kind, text, folded(text))
            for found in _TOKEN.finditer(_NOT.sub(" not", sentence[:4_000]))
            if (kind := found.lastgroup) and (text := found[kind])
        ]
        # "per cent" is a unit.
        for at in range(1, len(tokens)):
            if tokens[at].folded == "cent" and tokens[at - 1].folded in ("per", "pour"):
                tokens[at] = _Token("symbol", "%", "%")
        return Statement([clause.finished() for clause in self._clauses(tokens, language)])

    def _clauses(self, tokens: list[_Token], language: str) -> list[Clause]:
        clauses, joint = [Clause()], ""
        for clause, joint_before in self._pieces(tokens, language):
            last = clauses[-1]
            least = {"weak": 3, "strong": 2, "mark": 2, "": 99}[joint]
            if last.weight >= least and clause.weight >= least:
                clauses.append(clause)
            else:
                _merge(last, clause)
            joint = joint_before
        return clauses

    def _pieces(self, tokens: list[_Token], language: str) -> Iterator[tuple[Clause, str]]:
        """Clauses as marks and conjunctions part them, each with what comes after it."""
        clause, at, first = Clause(), 0, True
        while at < len(tokens):
            token = tokens[at]
            joint = _joint(token)
            if joint:
                yield clause, joint
                clause = Clause()
            at = self._take(clause, tokens, at, language, first) if token.kind != "mark" else at + 1
            first = first and token.kind in ("mark", "number")
        yield clause, ""

    def _take(self, clause: Clause, tokens: list[_Token], at: int, language: str, first: bool) -> int:
        """Adds what the token at `at` says to the clause; which token comes next."""
        token = tokens[at]
        if token.kind == "date":
            day, month, year = (int(part) for part in _date(token.text))
            # Whether day or month is first, nobody says.
            clause.dates.append(frozenset(((day, month), (month, day))))
            clause.numbers += [Number(frozenset((float(year),)), None, False)]
        elif token.kind == "time":
            hours, minutes = re.findall(r"\d+", token.text)
            clause.numbers.append(Number(frozenset((int(hours) * 60.0 + int(minutes),)), "clock", False, at))
        elif token.kind == "number" or _is_number_word(tokens, at):
            return _take_number(clause, tokens, at, language)
        elif token.kind == "code":
            clause.terms.append(Term(token.folded, token.folded, False, True, at, _before(tokens, at)))
            clause.words.add(token.folded)
        elif token.kind == "word":
            return self._take_word(clause, tokens, at, language, first)
        return at + 1

    def _take_word(self, clause: Clause, tokens: list[_Token], at: int, language: str, first: bool) -> int:
        token, after = tokens[at], _after(tokens, at)
        word = token.folded[:LONGEST_WORD]
        clause.words.add(word)
        for end in (at + 3, at + 2) if word in _PHRASES[language] else ():
            words = [each.folded for each in tokens[at:end]]
            meaning = _MEANINGS[language].get(phrase := "_".join(words))
            if meaning is not None and end <= len(tokens):
                clause.words.update(words)
                clause.terms.append(Term(meaning.concept, phrase, meaning.denies, False, at, ""))
                return end
        if word in lexicon.EACH and after in lexicon.UNITS:
            clause.periods.add(f"per:{lexicon.UNITS[after]}")
        if word in ("have", "has", "had") and after == "to":
            clause.words.add("have_to")
        if language == "fr" and (word == "car" or token.text.lower() == "dû"):
            # In other languages, and without its accent, it says no cause.
            clause.words.add("parce")
        if _is_negation(tokens, at, language):
            clause.negations += 1
        elif word in lexicon.EXCEPTIONS:
            clause.exceptions += 1
        says_much = _compares(word, language) or not _says_little(token, word, language)
        if not _take_time(clause, tokens, at) and says_much and word not in lexicon.UNITS:
            key, denies = self._meaning(word, token.text, language)
            noun = language != "de" or token.text[0].isupper()
            name = _is_name(tokens, at, language, first)
            clause.terms.append(Term(key, word, denies, name, at, _before(tokens, at), noun))
        return at + 1

    def _meaning(self, word: str, text: str, language: str) -> tuple[str, bool]:
        """The concept or the stem of a word, and whether it denies it."""
        known = self._known.get((language, text))
        if known is None:
            known = self._known[language, text] = self._found_meaning(word, text, language)
        return known

    def _found_meaning(self, word: str, text: str, language: str) -> tuple[str, bool]:
        meanings = _MEANINGS[language]
        meaning = meanings.get(word)
        if meaning is None and language == "de":
            participle = _PARTICIPLE.fullmatch(word)
            if participle is not None and not any(f"{word[:length]}*" in meanings for length in range(6, len(word))):
                word = text = participle["before"] + participle["stem"]
        if word.startswith("non-") and len(word) > 6:
            key, denies = self._found_meaning(word[4:], text[4:], language)
            return key, not denies
        free = _FREE.search(word) if language == "de" else None
        for length in range(len(word), 2, -1):
            if meaning is not None:
                return meaning.concept, meaning.denies
            if free is not None and length == free.start():
                return self._found_meaning(word[:length], text[: length - len(word)], language)[0], True
            meaning = meanings.get(f"{word[:length]}*")
        if meaning is not None:
            return meaning.concept, meaning.denies
        return folded(self._stemmers[language].stemWord(text.lower()[:LONGEST_WORD])), False


def _take_time(clause: Clause, tokens: list[_Token], at: int) -> bool:
    """Adds a month, a day of the week, a season, a period or a comparison, if the token is one."""
    word = tokens[at].folded
    if word in lexicon.MONTHS and _is_month(tokens[at], tokens, at):
        month = lexicon.MONTHS[word]
        clause.anchors.add(f"month:{month}")
        for day in _beside(tokens, at):
            clause.dates.append(frozenset(((day, month),)))
    elif word in lexicon.ANCHORS and (word != "ete" or _before(tokens, at) in ("en", "l", "d", "cet", "chaque")):
        clause.anchors.add(lexicon.ANCHORS[word])
    elif word in lexicon.PERIODS:
        clause.periods.add(lexicon.PERIODS[word])
    elif word in lexicon.COMPARISONS and clause.compared_at is None:
        clause.compared_at = at
    else:
        return False
    return True


def _compares(word: str, language: str) -> bool:
    """Whether it says "more" or "less", which are small words that say much."""
    meaning = _MEANINGS[language].get(word)
    return meaning is not None and meaning.concept == "rise"


def _merge(into: Clause, clause: Clause) -> None:
    into.terms += clause.terms
    into.numbers += clause.numbers
    into.words |= clause.words
    into.anchors |= clause.anchors
    into.periods |= clause.periods
    into.dates += clause.dates
    into.negations += clause.negations
    into.exceptions += clause.exceptions
    if into.compared_at is None:
        into.compared_at = clause.compared_at


def _joint(token: _Token) -> str:
    if token.kind == "mark":
        return "mark" if token.text != "." else ""
    if token.folded in _STRONG_JOINTS:
        return "strong"
    return "weak" if token.folded in _WEAK_JOINTS else ""


def _date(text: str) -> list[str]:
    parts = re.split(r"[./-]", text)
    return parts[::-1] if len(parts[0]) == 4 else parts


def _is_number_word(tokens: list[_Token], at: int) -> bool:
    token = tokens[at]
    if token.folded in lexicon.ONE:
        # "eine Woche" is a number, "eine Garantie" is none.
        return at + 1 < len(tokens) and tokens[at + 1].folded in lexicon.UNITS
    return token.kind == "word" and token.folded in _NUMBER_WORDS


def _take_number(clause: Clause, tokens: list[_Token], at: int, language: str) -> int:
    token, in_words = tokens[at], tokens[at].kind == "word"
    values = {float(_NUMBER_WORDS.get(token.folded, 1))} if in_words else _values(token.text)
    before, start = tokens[at - 1] if at else None, at
    unit = lexicon.UNITS.get(before.folded) if before is not None and before.kind == "symbol" else None
    at += 1
    if in_words and token.folded.endswith(("mal", "twice")):
        unit = "times"
    if in_words and at < len(tokens):
        pair = f"{token.folded} {tokens[at].folded}"
        if pair in _NUMBER_WORDS:
            values, at = {float(_NUMBER_WORDS[pair])}, at + 1
    while at < len(tokens) and (
        tokens[at].folded in lexicon.MULTIPLIERS or (tokens[at].folded in ("hundred", "hundert", "cents") and in_words)
    ):
        factor = lexicon.MULTIPLIERS.get(tokens[at].folded, 100.0)
        values, at = {value * factor for value in values}, at + 1
        if at < len(tokens) and tokens[at].text == "." and tokens[at - 1].folded in ("mio", "mrd", "tsd"):
            at += 1
    if at < len(tokens) and unit is None:
        after = tokens[at]
        if after.folded in _CLOCKS[language] and max(values) <= 24:
            return _take_clock(clause, values, after.folded, at)
        if after.folded in lexicon.RANGES and max(values) <= 24 and _is_clock(tokens, at + 1, language):
            # "from 7 to 4 pm": which half of the day, nobody says.
            minutes = {value * 60 for value in values}
            minutes |= {value + 720 for value in minutes} if language == "en" else set()
            clause.numbers.append(Number(frozenset(minutes), "clock", in_words, start))
            return at
        unit, at = _unit(tokens, at)
    clause.numbers.append(_number(values, unit, in_words, start))
    return at


def _number(values: set[float], unit: str | None, in_words: bool, at: int) -> Number:
    smaller = _SMALLER.get(unit or "")
    if smaller is not None:
        values = values | {value * smaller[1] for value in values}
    return Number(frozenset(values), unit, in_words, at)


def units_differ(number: Number, other: Number) -> bool:
    """Whether two numbers that may be equal are of units that are not: 14 days and 14 weeks."""
    first, second = number.unit, other.unit
    if first is None or second is None or first == second or {first, second} == {"clock", "hour"}:
        return False
    for one, two in ((number, other), (other, number)):
        smaller, factor = _SMALLER.get(one.unit or "", ("", 1.0))
        if smaller == two.unit and any(value * factor in two.values for value in one.values):
            return False
    return True


def _take_clock(clause: Clause, values: set[float], word: str, at: int) -> int:
    minutes = {value * 60 for value in values}
    if word == "am" and max(values) > 12:
        clause.numbers.append(Number(frozenset(values), None, False))
        return at
    if word == "pm":
        minutes = {value % 720 + 720 for value in minutes}
    # French "h" may be a duration too.
    clause.numbers.append(Number(frozenset(minutes | (values if word == "h" else set())), "clock", False, at - 1))
    return at + 1


def _is_clock(tokens: list[_Token], at: int, language: str) -> bool:
    """Whether the token is a time of the day."""
    if at >= len(tokens):
        return False
    return tokens[at].kind == "time" or (tokens[at].kind == "number" and _after(tokens, at) in _CLOCKS[language])


def _unit(tokens: list[_Token], at: int) -> tuple[str | None, int]:
    """The unit that follows a number, after at most one word such as "working"; and which token comes next."""
    if tokens[at].folded in ("d", "de") and at + 1 < len(tokens):
        # "3,2 millions d'euros"
        at += 1
    if tokens[at].folded in lexicon.UNITS:
        return lexicon.UNITS[tokens[at].folded], at + 1
    if at + 1 < len(tokens) and tokens[at].kind == "word" and tokens[at].text.islower():
        between = tokens[at].folded
        if all(between not in words for words in lexicon.STOP_WORDS.values()):
            return lexicon.UNITS.get(tokens[at + 1].folded), at
    return None, at


def _values(text: str) -> set[float]:
    bare = re.sub(r"[ \u00a0\u202f'’]", "", text)
    marks = re.findall("[.,]", bare)
    values = set()
    if not marks:
        return {float(bare)}
    decimal, last = bare.replace(",", "."), marks[-1]
    if len(marks) == 1:
        values.add(float(decimal))
        if re.fullmatch(r"\d{1,3}[.,]\d{3}", bare):
            values.add(float(re.sub("[.,]", "", bare)))
    elif len(set(marks)) == 1:
        values.add(float(re.sub("[.,]", "", bare)))
    else:
        whole, _, part = bare.rpartition(last)
        values.add(float(f"{re.sub('[.,]', '', whole)}.{part}"))
    return values


def _before(tokens: list[_Token], at: int) -> str:
    return tokens[at - 1].folded if at else ""


def _after(tokens: list[_Token], at: int) -> str:
    return tokens[at + 1].folded if at + 1 < len(tokens) else ""


def _beside(tokens: list[_Token], at: int) -> list[int]:
    """The day that stands beside a month, if one does: "3. Juni", "June 3"."""
    places = [at - 1, at - 2 if at and tokens[at - 1].text == "." else at + 1, at + 1]
    for place in places:
        if 0 <= place < len(tokens) and tokens[place].kind == "number" and len(tokens[place].text) <= 2:
            return [int(tokens[place].text)]
    return []


def _is_negation(tokens: list[_Token], at: int, language: str) -> bool:
    word, after = tokens[at].folded, tokens[at + 1] if at + 1 < len(tokens) else None
    if language == "fr" and word == "plus":
        # "il n'y a plus"
        return any(token.folded in ("n", "ne") for token in tokens[max(0, at - 4) : at])
    if word not in lexicon.NEGATIONS[language]:
        return False
    # "not only", "no later than", "nicht mehr als"
    return not (after is not None and after.folded in _NOT_MORE and word in ("no", "not", "nicht", "pas"))


def _is_month(token: _Token, tokens: list[_Token], at: int) -> bool:
    if token.folded not in ("may", "march", "mars"):
        return True
    beside = [tokens[place] for place in (at - 1, at + 1) if 0 <= place < len(tokens)]
    return any(other.kind == "number" for other in beside) or (
        at > 0 and token.text[0].isupper() and tokens[at - 1].folded in ("in", "of", "by", "until")
    )


def _says_little(token: _Token, word: str, language: str) -> bool:
    if len(word) < 2:
        return True
    words = lexicon.STOP_WORDS[language]
    return word in words or token.text.lower() in words or word in lexicon.UNIVERSAL or word in lexicon.PARTIAL


def _is_name(tokens: list[_Token], at: int, language: str, first: bool) -> bool:
    token = tokens[at]
    if not token.text[0].isupper():
        return False
    before = tokens[at - 1] if at else None
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    beside = [other for other in (before, after) if other is not None and other.kind == "word"]
    if language == "de":
        # Nouns have capitals too; a name stands after another one or a title, or ends as streets do.
        if token.folded.endswith(("weg", "strasse", "platz", "allee", "gasse")):
            return True
        capital = before is not None and before.kind == "word" and before.text[0].isupper() and at > 1
        # "wenn Sie Hunde halten", "vier Wochen Zeit"
        return (
            capital
            and before is not None
            and before.folded not in lexicon.STOP_WORDS["de"]
            and before.folded not in lexicon.UNITS
        )
    if first:
        return any(other is after and other.text[0].isupper() for other in beside)
    return token.folded not in lexicon.TITLES
