"""Source maps, so that a browser's tools name the module and line behind each line of a linked file.

Of the format (ECMA-426, version 3) they use only what maps whole lines.
"""

import json
from collections.abc import Iterable

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

Origin = tuple[int, int]
"""The index of a source and the line in it, both from 0."""


def source_map(sources: list[str], origins: Iterable[Origin | None]) -> bytes:
    """`sources` are URLs relative to the map's; `origins` has one for each line, None for those of no source."""
    mappings, last_source, last_line = [], 0, 0
    for origin in origins:
        if origin is None:
            mappings.append("")
            continue
        source, line = origin
        mappings.append("A" + _vlq(source - last_source) + _vlq(line - last_line) + "A")
        last_source, last_line = source, line
    return json.dumps({"version": 3, "sources": sources, "names": [], "mappings": ";".join(mappings)}).encode()


def _vlq(number: int) -> str:
    """`number` as a base64 VLQ: the sign is the lowest bit, and each digit has five bits, the lowest first."""
    rest = abs(number) << 1 | (number < 0)
    digits = ""
    while True:
        digit, rest = rest & 31, rest >> 5
        digits += _DIGITS[digit | (32 if rest else 0)]
        if not rest:
            return digits
