"""Where code is cut: before functions and classes, else at empty lines, rather at the margin than within."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_DEFINITION = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([a-z]+\))?|unsafe"
    r"|extern|override|virtual|inline|sealed|data|open|suspend|local|declare)\s+){0,6}"
    r"(?:def|class|function|fn|func|fun|interface|struct|enum|impl|trait|module|namespace|object|record|protocol"
    r"|extension|sub|proc|macro_rules!|type\s+\w+\s+(?:struct|interface)|create\s+(?:or\s+replace\s+)?(?:table|view"
    r"|function|procedure|trigger|index))\b",
    re.IGNORECASE,
)
# A comment, a decorator or an attribute belongs to the definition below it.
_ABOVE = re.compile(r"@\w|#|//|/\*|\*|--|'''|\"\"\"|<!--|;")


class CodeLine(NamedTuple):
    start: int
    """Of its first character that is no space."""
    end: int
    weight: float
    """How good it is to cut before it: 1 before a function at the margin, near 0 within a statement."""
    above: "Scope | None"
    """What it stands in, such as a class."""


class Scope(NamedTuple):
    indent: int
    start: int
    end: int
    above: "Scope | None"


def code_lines(text: str, start: int, end: int) -> Iterator[CodeLine]:
    lines, place, is_after_empty = [], start, True
    for line in text[start:end].split("\n"):
        if bare := line.strip():
            head = bare[:200]
            indent = len(line[: line.index(bare[0])].expandtabs(4))
            begin = place + line.index(bare[0])
            lines.append((begin, begin + len(bare), indent, is_after_empty, head))
            is_after_empty = False
        else:
            is_after_empty = True
        place += len(line) + 1
    is_definition = [False] * (len(lines) + 1)
    for number in range(len(lines) - 1, -1, -1):
        indent, head = lines[number][2], lines[number][4]
        below = number + 1 < len(lines) and is_definition[number + 1] and lines[number + 1][2] == indent
        is_definition[number] = bool(_DEFINITION.match(head)) or (below and bool(_ABOVE.match(head)))
    scope: Scope | None = None
    for number, (begin, stop, indent, is_after_empty, head) in enumerate(lines):
        while scope is not None and scope.indent >= indent:
            scope = scope.above
        begins = is_definition[number] and not (number and is_definition[number - 1] and lines[number - 1][2] == indent)
        weight = (0.7 if is_after_empty else 0.1) + (0.3 if begins else 0.0)
        if head[0] in ")]}":
            weight = 0.0
        yield CodeLine(begin, stop, weight / (1 + min(indent, 40) / 8), scope)
        if _DEFINITION.match(head):
            scope = Scope(indent, begin, stop, scope)
