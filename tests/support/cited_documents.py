"""Documents of each kind with facts of their own, and questions that are answered by citing just these."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from support.made_documents import a_docx, a_laid_out_pdf, a_paragraph

_SYLLABLES = ("ba", "do", "ke", "lu", "mi", "no", "pe", "ra", "su", "ti")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that one passage of one document has."""

    name: str
    price: int

    @property
    def sentence(self) -> str:
        return f"The tariff {self.name} costs {self.price} euros a year."

    @property
    def question(self) -> str:
        return f"What does the tariff {self.name} cost?"


def facts(count: int) -> list[Fact]:
    """So many, no two of which share a name or a price."""
    return [Fact(_name(number), 100 + number) for number in range(count)]


def documents_of(of: Sequence[Fact]) -> dict[str, bytes]:
    """A document of each kind by its name; together they have these facts."""
    return {name: made([*of[place :: len(_MADE)]]) for place, (name, made) in enumerate(_MADE.items())}


def _name(number: int) -> str:
    first, second, third = number // 100, number // 10 % 10, number % 10
    return f"{_SYLLABLES[third]}{_SYLLABLES[second]}{_SYLLABLES[first]}rix".capitalize()


# Enough that each fact has a passage of its own.
_FILLING = "Nobody has to know more of this, and it is said here once more so that there is something to read. " * 12


def _markdown(of: Sequence[Fact]) -> bytes:
    # Two units of JavaScript's strings each.
    return "\n\n".join(f"# About {each.name} 🚆\n\n{_FILLING}\n\n{each.sentence}" for each in of).encode()


def _html(of: Sequence[Fact]) -> bytes:
    made = "".join(f"<h2>About {each.name}</h2><p>{_FILLING}</p><p>{each.sentence}</p>" for each in of)
    return f"<!doctype html><html><head><title>Tariffs</title></head><body><main>{made}</main></body></html>".encode()


def _docx(of: Sequence[Fact]) -> bytes:
    content = (
        (a_paragraph(f"About {each.name}", "Heading1"), a_paragraph(_FILLING), a_paragraph(each.sentence))
        for each in of
    )
    return a_docx(*(paragraph for each in content for paragraph in each))


def _csv(of: Sequence[Fact]) -> bytes:
    return "\n".join(["tariff,price,remark", *(f"{each.name},{each.price},{each.sentence}" for each in of)]).encode()


def _code(of: Sequence[Fact]) -> bytes:
    made = (f"def price_of_{each.name.lower()}():\n    # {each.sentence}\n    return {each.price}\n" for each in of)
    return "\n\n".join(made).encode()


def _pdf(of: Sequence[Fact]) -> bytes:
    pages = []
    for each in of:
        filling = [_FILLING[start : start + 60] for start in range(0, 600, 60)]
        lines = [(f"About {each.name}", 40.0, 270.0, 18.0, True), (each.sentence, 40.0, 240.0, 10.0, False)]
        lines += [(text, 40.0, 220.0 - 14 * number, 10.0, False) for number, text in enumerate(filling)]
        pages.append(lines)
    return a_laid_out_pdf(*pages)


_MADE: dict[str, Callable[[Sequence[Fact]], bytes]] = {
    "tariffs.md": _markdown,
    "tariffs.html": _html,
    "tariffs.docx": _docx,
    "tariffs.csv": _csv,
    "tariffs.py": _code,
    "tariffs.pdf": _pdf,
}
