"""Finds personal data in texts: e-mail addresses, card numbers, IBANs, phone numbers, IP and MAC addresses, URLs.

The types are those of LangChain's PIIMiddleware, and phone numbers and IBANs. Its own detectors are not used: those for
e-mail addresses and URLs take time that is quadratic in the length of a text. Each search here takes linear time: runs
of characters are taken once, by possessive quantifiers behind a look-behind, and every other repetition has a bound.

Texts are searched as people read them (see typography). Spaces and line breaks are of the patterns themselves, because
most texts have them.
"""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args

from agentic_backend.text.normal_form import normal_form
from agentic_backend.text.plain_text import UNSPACED, narrow, without_invisible
from agentic_backend.text.typography import decoded, set_plainly, with_halves_of_marks

PiiType = Literal["email", "credit_card", "iban", "phone", "ip", "mac_address", "url"]
PII_TYPES: tuple[PiiType, ...] = get_args(PiiType)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A value in a text, from `start` to `end`."""

    type: PiiType
    start: int
    end: int
    value: str = field(repr=False)
    """As people read it: without escapes, marks, and what nobody sees."""
    typed: str | None = field(default=None, repr=False)
    """What stands in the text, if that isn't `value`."""

    @property
    def key(self) -> str:
        """What is the same of one value in all its forms."""
        match self.type:
            case "email":
                return self.value.lower()
            case "ip":
                return str(ip_address(self.value)) if _is_ip(self.value) else self.value
            case "phone":
                return re.sub("^00", "+", "".join(re.findall(r"[+\d]", self.value)))
            case "credit_card" | "iban" | "mac_address":
                return "".join(filter(str.isalnum, self.value)).upper()
            case "url":
                return self.value


_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@((?:[^\W_]|-)++(?:\.(?:[^\W_]|-)++)+)")
_URL_TAIL = r"[^\s<>\"{}|\\^`\[\]]"
_URL = re.compile(
    rf"\b(?:https?://|www\.){_URL_TAIL}++|(?<![\w.@-])(?:[a-z0-9-]++\.)++[a-z]{{2,}}+/{_URL_TAIL}*+", re.IGNORECASE
)
# What ends the names of files: of two labels where it ends hosts too, and of any number.
_CODE_ENDINGS = frozenset({"py", "rs", "md", "sh"})
_FILE_ENDINGS = frozenset(
    (
        "bak bat bib cfg conf cpp cs css csv dll doc docx env exe gif go gz hpp htm html ini ipynb java jpeg jpg js "
        "json jsx kt lock log lua mdx mjs pdf php png proto rb rst scss sql svg tar tex toml ts tsx txt vue webp xls "
        "xlsx xml yaml yml"
    ).split()
)
# In pairs; and in fours with dots, as switches print it, with a letter and a digit, as it is no amount and no words.
_MAC = re.compile(
    r"(?<![\w:-])[0-9A-F]{2}([:-])(?:[0-9A-F]{2}\1){4}[0-9A-F]{2}(?![\w:-])"
    r"|(?<![\w.])(?=[0-9.]{0,13}[A-F])(?=[A-F.]{0,13}\d)(?:[0-9A-F]{4}\.){2}[0-9A-F]{4}(?!\w|\.\w)",
    re.IGNORECASE,
)
_IP = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)|(?<![\w:])[0-9A-Fa-f:]{3,39}(?![\w:])")
_VERSION = re.compile(r"(?:\b(?:v|ver|version|release|build|section|chapter)\.? ?[:=]? ?|\u00a7 ?)\Z", re.IGNORECASE)

# A slice in code, as in `a[1::2]`, and what stands before it.
_SLICE, _SLICED = re.compile(r"\d{0,9}::\d{0,9}"), re.compile(r"[\w\])]\[[\d:, -]{0,20}\Z")
# Words of these scripts, and the endings of Korean, stand right beside a value.
_BESIDE = re.compile(f"[{UNSPACED}\u1100-\u11ff\u3100-\u318f\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f]")

# The end of a line within a number; in a quoted mail the next one begins with `>`.
_BREAK = r"(?:\r?\n[ \t]{0,16}(?:> {0,2})?)"
_GAP = rf"(?: {{0,2}}[-./_+] {{0,2}}{_BREAK}?| {{1,4}}{_BREAK}?|{_BREAK})"
# Groups of four, of Amex (4-6-5) and of Diners (4-6-4). Candidates may overlap, so that a number before one hides none.
# These begin with a digit, and look behind it: a search that begins with what is rare is fast.
_GROUPED_CARD = re.compile(
    rf"[0-9](?<!\d\d)(?=\d{{3}}{_GAP}(?:\d{{4}}{_GAP}\d{{4}}{_GAP}\d{{1,4}}(?:{_GAP}\d{{3}})?"
    rf"|\d{{6}}{_GAP}\d{{4,5}})(?!\d)())"
)
_CARD = re.compile(r"[0-9](?<!\d\d)(?<!\d[.,]\d)(?<!0x\d)\d{11,18}(?!\d)")
# What networks' numbers begin with. Only Visa's have 13 digits, only Maestro's 12.
_NETWORK = re.compile(
    r"(?!\d{12,13}\Z)(?:[3-6]|2[2-7]|8[12]|9792|2131|1800)\d+|4\d{12}|(?:50(?:18|20|38)|5[6-8]\d\d|6[37]\d\d)\d{8}"
)
# The neighbours of rows of fours in a table.
_ROW_BEFORE = re.compile(r"(?:^|\n)[ \t]{0,16}\d{4}(?: {1,4}\d{4})? {0,4}\r?\n[ \t]{0,16}\Z")
_ROW_AFTER = re.compile(r" {0,4}\r?\n[ \t]{0,16}\d{4}(?: {1,4}\d{4})? {0,4}(?:\r?\n|\Z)")
_LONGEST_ROW = 64

# Without IGNORECASE, by which some letters of other languages are among A to Z.
_IBAN = re.compile(rf"(?<![^\W_])(?=([A-Za-z]{{2}} ?\d{{2}}(?:{_GAP}?[A-Za-z0-9]){{11,30}}))")

_PHONE = re.compile(
    r"(?<![\w+])(?<![0-9a-fA-F]{4}-)(?<!\d[.,/-])("
    # As of North America and of Russia, whose numbers have eleven digits; and of others.
    r"(?:\+|00)[17](?:[ ./()-]{0,3}\d){10}|(?:\+|00)[2-689](?:[ ./()-]{0,3}\d){6,14}"
    r"|(?:1 ?[.-]? ?)?(?:\(\d{3}\) {0,2}(?:- ?)?|\d{3}[ .-])\d{3}[ .-]\d{4}"
    r"|[2-9]\d{2}(?: {2}| - )[2-9]\d{2}(?: {2}| - )\d{4}"
    r"|0[1-9](?:(?: {1,3}| ?[./-] ?)\d{2}){4}"
    r"|\(?0[1-9]\d{0,4}\)?[ /-]{1,3}\d{2,8}(?:[ -]{1,3}\d{2,4}){0,4}"
    r"|0[1-9]\d{8,10}"
    r")(?: ?(?:x|ext\.?) ?\d{1,6})?(?!\d)"
)
# With a line break where the first line is no whole number by itself, so that numbers below each other stay apart.
_WRAPPED_PHONE = re.compile(
    r"(?<![\w+])(?<![0-9a-fA-F]{4}-)("
    rf"(?:\+|00)[1-9](?:(?:[ ./()-]{{0,3}}\d){{1,8}} {{0,4}}|(?:[ ./()-]{{0,3}}\d){{1,12}} ?[-/] {{0,4}}){_BREAK}"
    r"(?:\(?[1-9](?:[ ./()-]{0,3}\d){1,11}|0(?:[ ./()-]{0,3}\d){1,5})"
    rf"|(?:\([2-9]\d\d\) {{0,4}}|[2-9]\d\d[-.] {{0,4}}){_BREAK}[2-9]\d\d[ .-]\d{{4}}"
    rf"|(?:\([2-9]\d\d\) ?|[2-9]\d\d[-.])[2-9]\d\d[-.]? {{0,4}}{_BREAK}\d{{4}}"
    rf"|0[1-9](?:(?: {{1,3}}| ?[./-] ?| ?[./-]? {{0,3}}{_BREAK})\d{{2}}){{4}}(?! ?\d)"
    rf"|\(?0[1-9]\d{{1,4}}\)?[ /-]{{1,3}}(?:\d{{2,4}} ?[ -]?){{0,2}} {{0,4}}{_BREAK}[1-9]\d{{2,8}}(?! ?\d)"
    r")(?!\d)"
)
_BREAK_BETWEEN_DIGITS = re.compile(rf"[0-9][ )./-]{{0,6}}{_BREAK}\(?[0-9]")
# The first group of another number, of which more follows.
_NEXT_PHONE = re.compile(r"[ ./-]{1,3}(?:\+|00?)[1-9]")
_GOES_ON = re.compile(r"[ ./-]{1,3}\d")
_DATE = re.compile(r"\d\d[ /-]\d\d[ /-](?:19|20)\d\d(?!\d)")
_FEWEST_PHONE_DIGITS, _MOST_PHONE_DIGITS = 9, 17
# With `+`, and with zeros, which many numbers begin with that are no phone's.
_FEWEST_INTERNATIONAL_DIGITS, _FEWEST_ZEROED_DIGITS = 8, 11

# The length of an IBAN by its country, from the registry of SWIFT.
_IBAN_LENGTHS = {
    entry[:2]: int(entry[2:])
    for entry in (
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 "
        "ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 "
        "LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 "
        "PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 "
        "YE30"
    ).split()
}


def find_pii(text: str, types: Collection[PiiType] = PII_TYPES) -> list[Found]:
    """The values of `types` in `text`, by place. Where two overlap they are one, of the type that begins first.

    A value is found in escapes, in typography and in marks too; no value goes beyond an empty line. Of a pair of marks
    around a part of a value, both are of its place.
    """
    plain = decoded(text)
    plainest = set_plainly(plain)
    candidates = [(rank, *plain.span(start, end)) for rank, start, end in _candidates(plain.text, types)]
    if plainest is not plain:
        # In both forms, because what is left out may also be all that stands between two values.
        candidates += [(rank, *plainest.span(start, end)) for rank, start, end in _candidates(plainest.text, types)]
    if plain.text is not text and "url" in types:
        # Its escapes are its own.
        candidates += [(PII_TYPES.index("url"), start, end) for start, end in _urls(text)]
    if plainest.text is not text:
        candidates = [(rank, *with_halves_of_marks(text, start, end)) for rank, start, end in candidates]
    merged: list[tuple[int, int, int]] = []
    for rank, start, end in sorted(candidates, key=lambda one: (one[1], -one[2], one[0])):
        if merged and start < merged[-1][2]:
            first_rank, first_start, first_end = merged[-1]
            merged[-1] = first_rank, first_start, max(first_end, end)
        else:
            merged.append((rank, start, end))
    return [_found(PII_TYPES[rank], start, end, text[start:end]) for rank, start, end in merged]


def _found(type_: PiiType, start: int, end: int, typed: str) -> Found:
    if type_ == "url":
        value = without_invisible(narrow(typed)).text
    else:
        value = set_plainly(decoded(normal_form("NFC", typed))).text
    return Found(type_, start, end, value, None if value == typed else typed)


def _candidates(text: str, types: Collection[PiiType]) -> Iterator[tuple[int, int, int]]:
    """The rank in PII_TYPES, the start and the end of each value."""
    has_beside = _BESIDE.search(text) is not None
    for rank, type_ in enumerate(PII_TYPES):
        if type_ in types:
            # A URL may go on in such letters, so they become what it takes.
            apart = _BESIDE.sub("~" if type_ == "url" else "|", text) if has_beside else text
            found = list(_DETECTORS[type_](apart))
            if has_beside and type_ == "email":
                # One may be of such letters itself.
                found += _beside(found, _emails(text))
            for start, end in found:
                yield rank, start, end


def _beside(found: Sequence[Span], others: Iterable[Span]) -> list[Span]:
    """Those of `others` that overlap none of `found`; both are in order."""
    left = deque(found)
    kept: list[Span] = []
    for start, end in others:
        while left and left[0][1] <= start:
            left.popleft()
        if not left or end <= left[0][0]:
            kept.append((start, end))
    return kept


def _emails(text: str) -> Iterator[Span]:
    if "@" not in text:
        return
    for found in _EMAIL.finditer(text):
        domain = found[1].rstrip("-")
        # A version of a package ends in a number too.
        if domain.rpartition(".")[2][:1].isalpha() or _is_ip(domain):
            yield found.start(), found.start(1) + len(domain)


def _urls(text: str) -> Iterator[Span]:
    if "/" not in text and "www." not in text.lower():
        return
    for found in _URL.finditer(text):
        if _is_file(found.group()):
            continue
        yield (
            found.start(),
            found.start() + len(found.group().rstrip(".,;:!?)'*_\u00ab\u00bb\u2018\u2019\u201c\u201d\u2026")),
        )


def _is_file(found: str) -> bool:
    """Whether this begins as the path of a file does, such as `foo.py/bar`, and with nothing that makes it a host."""
    host = found.partition("/")[0].lower()
    ending = host.rpartition(".")[2]
    return not host.startswith("www.") and (
        ending in _FILE_ENDINGS or (ending in _CODE_ENDINGS and host.count(".") == 1)
    )


def _mac_addresses(text: str) -> Iterator[Span]:
    return (found.span() for found in _MAC.finditer(text))


def _ip_addresses(text: str) -> Iterator[Span]:
    for found in _IP.finditer(text):
        candidate = found.group()
        if "." in candidate:
            if _is_ip(candidate) and not _VERSION.search(text, max(0, found.start() - 12), found.start()):
                yield found.span()
        elif _is_hardly_code(candidate) and _is_ip(candidate) and not _is_slice(text, found):
            yield found.span()


def _is_hardly_code(candidate: str) -> bool:
    """Whether colons are of an address: in code, two are between names, or behind one."""
    is_name = ":" not in candidate.strip(":") and not candidate.startswith(":")
    return candidate.count(":") > 1 and not is_name and not candidate.replace(":", "").isalpha()


def _is_slice(text: str, found: re.Match[str]) -> bool:
    before = max(0, found.start() - 24), found.start()
    return _SLICE.fullmatch(found.group()) is not None and _SLICED.search(text, *before) is not None


def _is_ip(candidate: str) -> bool:
    try:
        ip_address(candidate)
    except ValueError:
        return False
    return True


def _card_numbers(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text):
        if _is_card(found.group()):
            yield found.span()
    whole_until = 0
    wrapped: list[Span] = []
    for found in _GROUPED_CARD.finditer(text):
        start, length = found.start(), _length_of_card(text[found.start() : found.start(1)])
        end = start + length
        if "\n" in text[start:end]:
            if start >= whole_until and not _is_of_a_table(text, start, end):
                wrapped.append((start, end))
        elif length:
            # What is a number in its line is no rest of the one above.
            while wrapped and wrapped[-1][1] > start:
                wrapped.pop()
            whole_until = end
            yield start, end
    yield from wrapped


def _length_of_card(candidate: str) -> int:
    """How much of the beginning of `candidate`, which has groups of digits, is the number of a card; 0 if none is."""
    found = list(re.finditer(r"\d+", candidate))
    # Three digits behind four groups may be the number's end or its security code.
    for groups in (found, found[:4]):
        end = groups[-1].end()
        digits = "".join(group[0] for group in groups)
        if candidate[:end].count("\n") in (0, 1, len(groups) - 1) and _is_card(digits):
            return end
    return 0


def _is_of_a_table(text: str, start: int, end: int) -> bool:
    before = _ROW_BEFORE.search(text, max(0, start - _LONGEST_ROW), start)
    return before is not None or _ROW_AFTER.match(text, end) is not None


def _is_card(number: str) -> bool:
    if not _NETWORK.fullmatch(number):
        return False
    digits = list(map(int, number))
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[::-2])) % 10 == 0


def _ibans(text: str) -> Iterator[Span]:
    for found in _IBAN.finditer(text):
        candidate = found.group(1)
        length = _IBAN_LENGTHS.get(candidate[:2].upper())
        if length is None:
            continue
        places = [place for place, character in enumerate(candidate) if character.isalnum()][:length]
        if len(places) == length and _passes_mod_97("".join(candidate[place] for place in places)):
            yield found.start(1), found.start(1) + places[-1] + 1


def _passes_mod_97(iban: str) -> bool:
    # A letter counts as its number in base 36.
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


def _phones(text: str) -> Iterator[Span]:
    position = 0
    while (found := _PHONE.search(text, position)) is not None:
        position = found.end()
        start, end = found.span(1)
        begun = _NEXT_PHONE.finditer(text, start, end) if _GOES_ON.match(text, end) else ()
        first = next((place.start() for place in begun if _is_phone(text[start : place.start()])), None)
        if first is not None:
            # Two numbers stand beside each other; the second one is looked at by itself.
            position = first
            yield start, first
        elif _is_phone(text[start:end]):
            yield found.span()
    if _BREAK_BETWEEN_DIGITS.search(text):
        for wrapped in _WRAPPED_PHONE.finditer(text):
            candidate = wrapped.group(1)
            digits = sum(map(str.isdigit, candidate))
            if candidate.count("\n") == 1 and _FEWEST_PHONE_DIGITS <= digits <= _MOST_PHONE_DIGITS:
                yield wrapped.span()


def _is_phone(candidate: str) -> bool:
    fewest = _FEWEST_PHONE_DIGITS
    if candidate.startswith(("+", "00")):
        fewest = _FEWEST_INTERNATIONAL_DIGITS if candidate[0] == "+" else _FEWEST_ZEROED_DIGITS
    return fewest <= sum(map(str.isdigit, candidate)) <= _MOST_PHONE_DIGITS and not _DATE.match(candidate)


_DETECTORS: dict[PiiType, Callable[[str], Iterator[Span]]] = {
    "email": _emails,
    "credit_card": _card_numbers,
    "iban": _ibans,
    "phone": _phones,
    "ip": _ip_addresses,
    "mac_address": _mac_addresses,
    "url": _urls,
}
