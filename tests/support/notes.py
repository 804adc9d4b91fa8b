"""An application with records of each owner: shared notes, comments on sessions, and the words of the house."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from agentic_backend.application import (
    Application,
    Call,
    Frame,
    Index,
    Kind,
    NotFound,
    Query,
    Record,
    User,
    Value,
)

PATH = "support.notes:Notes"


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


class Note(Record):
    text: str
    topic: str = ""
    slug: str | None = None
    at: datetime | None = None
    stars: float = 0
    mood: Mood = Mood.GOOD


class Comment(Record):
    text: str


class Word(Record):
    word: str
    meaning: bytes = b""


NOTES = Kind(
    "note",
    Note,
    indexes={
        "by_topic": Index("topic", "stars"),
        "by_time": Index("at"),
        "by_mood": Index("mood"),
        "topics": Index("topic", all_owners=True),
        "by_slug": Index("slug", unique=True, all_owners=True),
    },
    most=300,
)
COMMENTS = Kind("comment", Comment, owner="session", append_only=True)
WORDS = Kind("word", Word, owner="application", indexes={"by_word": Index("word", unique=True)})


class NewNote(Frame):
    """A note."""

    text: str
    topic: str = ""


class Topic(Query):
    """Which notes."""

    topic: str = ""
    cursor: str | None = None


class Page(Value):
    """Texts of notes."""

    texts: list[str]
    next_cursor: str | None


class Written(Value):
    """The key of a note."""

    key: str


class Notes(Application):
    """Notes of people, which others may read."""

    id = "notes"
    title = "Notes"
    version = "1.0.0"
    records: Sequence[Kind[Any]] = (NOTES, COMMENTS, WORDS)

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/notes", self.add, status=201),
            Call("GET", "/notes", self.find),
            Call("GET", "/all", self.find_all),
            Call("DELETE", "/notes/{key}", self.remove, errors=[NotFound]),
            Call("POST", "/sessions/{session}/comments", self.comment, status=201),
        ]

    async def add(self, user: User, body: NewNote) -> Written:
        stored = await self.records_of(NOTES).of_user(user.id).add(Note(text=body.text, topic=body.topic))
        return Written(key=stored.key)

    async def find(self, user: User, query: Topic) -> Page:
        own = self.records_of(NOTES).of_user(user.id)
        page = await own.find("by_topic", query.topic, limit=2, cursor=query.cursor)
        return Page(texts=[each.value.text for each in page.records], next_cursor=page.next_cursor)

    async def find_all(self, user: User, query: Topic) -> Page:
        page = await self.records_of(NOTES).of_all(user.id).find("topics", query.topic, cursor=query.cursor)
        return Page(texts=[f"{each.user_id}: {each.value.text}" for each in page.records], next_cursor=None)

    async def remove(self, user: User, key: str) -> None:
        own = self.records_of(NOTES).of_user(user.id)
        if (stored := await own.get(key)) is None:
            raise NotFound("There is no such note.")
        await own.remove(stored)

    async def comment(self, user: User, session: str, body: NewNote) -> Written:
        stored = await self.records_of(COMMENTS).of_session(user.id, session).add(Comment(text=body.text))
        return Written(key=stored.key)
