"""Finds personal data in texts: e-mail addresses, card numbers, IBANs, phone numbers, IP and MAC addresses, URLs.

The types are those of LangChain's PIIMiddleware, and phone numbers and IBANs. Its own detectors are not used: those for
e-mail addresses and URLs take time that is quadratic in the length of a text. Each search here takes linear time: runs
of characters are taken once, by possessive quantifiers behind a look-behind, and every other repetition has a bound.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, get_args

from agentic_backend.plain_text import has_invisible, narrow, without_invisible

PiiType = Literal["email", "credit_card", "iban", "phone", "ip", "mac_address", "url"]
PII_TYPES: tuple[PiiType, ...] = get_args(PiiType)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A value in a text: `text[start:end]`."""

    type: PiiType
    start: int
    end: int
    value: str = field(repr=False)


_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@(?:[^\W_]|-)++(?:\.(?:[^\W_]|-)++)+")
_URL_TAIL = r"[^\s<>\"{}|\\^`\[\]]"
_URL = re.compile(
    rf"\b(?:https?://|www\.){_URL_TAIL}++|(?<![\w.@-])(?:[a-z0-9-]++\.)++[a-z]{{2,}}+/{_URL_TAIL}*+", re.IGNORECASE
)
_MAC = re.compile(r"(?<![\w:-])[0-9A-F]{2}([:-])(?:[0-9A-F]{2}\1){4}[0-9A-F]{2}(?![\w:-])", re.IGNORECASE)
_IP = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w)|(?<![\w:])[0-9A-Fa-f:]{3,39}(?![\w:])")
# Groups of four, of Amex (4-6-5) and of Diners (4-6-4). Candidates may overlap, so that a number before one hides none.
_CARD = re.compile(
    r"(?<!\d)(?=(\d{4}([ \u00a0.-]?)\d{4}\2\d{4}\2\d{1,4}(?:\2\d{3})?(?!\d)|\d{4}([ \u00a0.-]?)\d{6}\3\d{4,5}(?!\d)))"
)
# Maestro, which is shorter.
_SHORT_CARD = re.compile(r"(?<!\d)(?:50(?:18|20|38)|5[6-8]\d\d|6[37]\d\d)\d{8}(?!\d)")
_IBAN = re.compile(r"(?<![^\W_])(?=([A-Z]{2}\d{2}(?:[ \u00a0]?[A-Z0-9]){11,30}))", re.IGNORECASE)
_PHONE = re.compile(
    r"(?<![\w+])("
    r"(?:\+|00)[1-9](?:[ \u00a0./()-]{0,3}\d){6,14}"
    r"|(?:1[ .-]?)?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}"
    r"|\(?0[1-9]\d{0,4}\)?[ /-]{1,3}\d{2,8}(?:[ -]\d{2,4}){0,4}"
    r"|0[1-9](?:\.\d{2}){4}"
    r"|0[1-9]\d{8,10}"
    r")(?: ?(?:x|ext\.?) ?\d{1,6})?(?!\d)"
)
_FEWEST_PHONE_DIGITS, _MOST_PHONE_DIGITS = 9, 17
_FEWEST_INTERNATIONAL_DIGITS = 7

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

    A value is found in wide forms and with invisible characters in it too; `Found.value` is without these.
    """
    text = narrow(text)
    candidates = list(_candidates(text, types))
    if has_invisible(text):
        # In both forms, because an invisible character may also be all that stands between two values.
        plain = without_invisible(text)
        for rank, start, end in _candidates(plain.text, types):
            candidates.append((rank, *plain.span(start, end)))
    merged: list[tuple[int, int, int]] = []
    for rank, start, end in sorted(candidates, key=lambda one: (one[1], -one[2], one[0])):
        if merged and start < merged[-1][2]:
            first_rank, first_start, first_end = merged[-1]
            merged[-1] = first_rank, first_start, max(first_end, end)
        else:
            merged.append((rank, start, end))
    return [Found(PII_TYPES[rank], start, end, without_invisible(text[start:end]).text) for rank, start, end in merged]


def _candidates(text: str, types: Collection[PiiType]) -> Iterator[tuple[int, int, int]]:
    """The rank in PII_TYPES, the start and the end of each value."""
    for rank, type_ in enumerate(PII_TYPES):
        if type_ in types:
            for start, end in _DETECTORS[type_](text):
                yield rank, start, end


def _emails(text: str) -> Iterator[Span]:
    return (found.span() for found in _EMAIL.finditer(text))


def _urls(text: str) -> Iterator[Span]:
    for found in _URL.finditer(text):
        yield found.start(), found.start() + len(found.group().rstrip(".,;:!?)'*_"))


def _mac_addresses(text: str) -> Iterator[Span]:
    return (found.span() for found in _MAC.finditer(text))


def _ip_addresses(text: str) -> Iterator[Span]:
    for found in _IP.finditer(text):
        candidate = found.group()
        if "." in candidate or candidate.count(":") > 1:
            try:
                ip_address(candidate)
            except ValueError:
                continue
            yield found.span()


def _card_numbers(text: str) -> Iterator[Span]:
    for found in _CARD.finditer(text):
        if _passes_luhn([int(character) for character in found.group(1) if character.isdigit()]):
            yield found.span(1)
    for found in _SHORT_CARD.finditer(text):
        if _passes_luhn([int(character) for character in found.group()]):
            yield found.span()


def _passes_luhn(digits: list[int]) -> bool:
    doubled = [digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2]]
    return len(digits) >= 12 and any(digits) and (sum(doubled) + sum(digits[::-2])) % 10 == 0


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
    for found in _PHONE.finditer(text):
        candidate = found.group(1)
        digits = sum(character.isdigit() for character in candidate)
        fewest = _FEWEST_INTERNATIONAL_DIGITS if candidate.startswith(("+", "00")) else _FEWEST_PHONE_DIGITS
        if fewest <= digits <= _MOST_PHONE_DIGITS:
            yield found.span()


_DETECTORS: dict[PiiType, Callable[[str], Iterator[Span]]] = {
    "email": _emails,
    "credit_card": _card_numbers,
    "iban": _ibans,
    "phone": _phones,
    "ip": _ip_addresses,
    "mac_address": _mac_addresses,
    "url": _urls,
}
