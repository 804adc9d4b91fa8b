"""A small application: the words of an organisation, from its settings."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    Call,
    Frame,
    NotFound,
    PageSize,
    Query,
    User,
    Value,
)

PATH = "support.glossary:Glossary"


class Terms(Query):
    """Which terms."""

    limit: Annotated[int, PageSize(100)] = 50


class Term(Value):
    """A term, and what it means."""

    term: str
    meaning: str


class TermList(Value):
    """Terms in alphabetical order."""

    terms: list[Term]
    asked_by: str


class Text(Frame):
    """A text to look through."""

    text: str = Field(min_length=1, max_length=10_000)


class Glossary(Application):
    """What the words of the house mean."""

    id = "glossary"
    title = "Glossary"
    version = "1.2.0"

    class Settings(ApplicationSettings):
        terms: dict[str, str] = Field(default_factory=dict)

    def calls(self) -> Sequence[Call]:
        return [
            Call("GET", "/terms", self.list_terms),
            Call("GET", "/terms/{term}", self.get_term, errors=[NotFound]),
            Call("POST", "/found", self.find_terms, status=201),
            Call("DELETE", "/terms/{term}", self.forget_term, roles=frozenset({"editor"})),
        ]

    async def list_terms(self, user: User, query: Terms) -> TermList:
        """All terms. Who asks is told so."""
        return self._list(user, sorted(self.settings.terms)[: query.limit])

    async def get_term(self, user: User, term: str) -> Term:
        """One term."""
        if term not in self.settings.terms:
            raise NotFound(f"There is no term '{term}'.")
        return Term(term=term, meaning=self.settings.terms[term])

    async def find_terms(self, user: User, body: Text) -> TermList:
        """The terms that occur in a text."""
        return self._list(user, sorted(term for term in self.settings.terms if term in body.text))

    async def forget_term(self, user: User, term: str) -> None:
        """Forget a term."""
        self.settings.terms.pop(term, None)

    def _list(self, user: User, terms: Sequence[str]) -> TermList:
        found = [Term(term=term, meaning=self.settings.terms[term]) for term in terms]
        return TermList(terms=found, asked_by=user.id)
