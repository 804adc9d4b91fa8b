"""What the offline model remembers: facts that the person has told it. Pure; read from their texts at each ask."""

import re
from collections.abc import Sequence

from agentic_backend.agents.offline_calls import clause_pattern, clauses

_READ = 20_000
"""Facts are looked for in so many characters from the beginning of each text."""

_REMEMBER = clause_pattern(r"remember(?: that|:| this:) (?P<fact>.{1,500}?)")
_ATTRIBUTE = clause_pattern(
    r"(?:by the way,? )?my (?P<what>[a-z][a-z' -]{0,40}?) (?P<verb>is|are) (?P<value>\w.{0,199}?)"
)
_CALLED = clause_pattern(r"(?:i am called|i'm called|(?:you can )?call me) (?P<value>\w.{0,99}?)")

_OTHER_PERSON = {
    "i": "you",
    "i'm": "you're",
    "i am": "you are",
    "i was": "you were",
    "i've": "you've",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "myself": "yourself",
}
_FIRST_PERSON = re.compile(r"\b(?:i am|i was|i'm|i've|i|me|my|mine|myself)\b", re.IGNORECASE)


class Memory:
    """The facts in `texts`, oldest first; of what is said twice the later holds."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._attributes: dict[str, tuple[str, str]] = {}
        self._remembered: dict[str, None] = {}
        for text in texts:
            for line in text[:_READ].splitlines():
                for _, clause in clauses(line.removeprefix("- ")):
                    self._read(clause)

    def attribute(self, what: str) -> str | None:
        """What "my `what`" is: `attribute("name")` after "my name is Zorblax" is "Zorblax"."""
        return self._attributes.get(what.lower(), (None, None))[1]

    @property
    def facts(self) -> list[str]:
        """All facts as clauses that speak to the person: "your name is Zorblax", "you like tea"."""
        attributes = [f"your {what} {verb} {value}" for what, (verb, value) in self._attributes.items()]
        return attributes + list(self._remembered)

    def _read(self, clause: str) -> None:
        remembered = _REMEMBER.fullmatch(clause)
        fact = remembered["fact"] if remembered else clause
        if match := _ATTRIBUTE.fullmatch(fact):
            self._attributes[match["what"].lower()] = (match["verb"].lower(), _value(match["what"], match["value"]))
        elif (match := _CALLED.fullmatch(fact)) and match["value"][0].isupper():
            self._attributes["name"] = ("is", _value("name", match["value"]))
        elif remembered:
            self._remembered[_addressed(fact)] = None


def _value(what: str, value: str) -> str:
    if what.lower() == "name":
        return re.split(r" (?:and|but|from|so) ", value)[0]
    return _addressed(value)


def _addressed(fact: str) -> str:
    """`fact` as it is said back: "my dog likes me" becomes "your dog likes you"."""
    return _FIRST_PERSON.sub(lambda match: _OTHER_PERSON[match[0].lower()], fact)
