"""Notes that a team shares: an agent or a call writes them down, and everybody finds them by their topic."""

from collections.abc import Sequence

from langchain_core.tools import tool

from agentic_backend.application import (
    Application,
    Call,
    Chore,
    Command,
    Frame,
    Index,
    Kind,
    Metric,
    NotFound,
    Panel,
    PartKind,
    Query,
    RateLimited,
    Record,
    RecordConflict,
    User,
    Value,
    application_of,
    current_context,
)


class Note(Record):
    """A note, which belongs to whoever has written it."""

    text: str
    topic: str


class Topic(Record):
    """How many notes there are on a topic, by its name as the key."""

    notes: int


class Written(Value):
    """A note that has just been written down."""

    text: str
    topic: str


NOTES = Kind("note", Note, indexes={"by_topic": Index("topic", all_owners=True)})
TOPICS = Kind("topic", Topic, owner="application")
WRITTEN = PartKind("written", Written)
SAVED = Metric("saved", "counter", "Notes that were written down.")


class NewNote(Frame):
    """A note to write down."""

    text: str
    topic: str


class OnTopic(Query):
    """Which notes."""

    topic: str
    cursor: str | None = None


class NotePage(Value):
    """Notes by their keys, and the cursor of the next page."""

    notes: dict[str, str]
    next_cursor: str | None


class TopicList(Value):
    """The numbers of notes by topic."""

    topics: dict[str, int]


class TeamNotes(Application):
    """Notes that a team shares."""

    id = "team-notes"
    title = "Team notes"
    version = "1.0.0"
    catalog = "agents_catalog.yaml"
    records = (NOTES, TOPICS)
    metrics = (SAVED,)
    parts = (WRITTEN,)
    panels = (
        Panel("board", "Team notes", "board.html"),
        Panel("written", "A note", "written.html", place=WRITTEN),
    )

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/notes", self.add_note),
            Call("GET", "/notes", self.find_on_topic),
            Call("DELETE", "/notes/{key}", self.remove_note, errors=[NotFound]),
            Call("GET", "/topics", self.list_topics),
        ]

    def chores(self) -> Sequence[Chore]:
        return [Chore(self.count_again, every_s=3600)]

    def commands(self) -> Sequence[Command]:
        return [Command(self.count_again)]

    async def add_note(self, user: User, body: NewNote) -> None:
        """Write a note down."""
        await self.save(user.id, Note(text=body.text, topic=body.topic))

    async def find_on_topic(self, user: User, query: OnTopic) -> NotePage:
        """Everybody's notes on a topic, a page of them."""
        page = await self.records_of(NOTES).of_all(user.id).find("by_topic", query.topic, cursor=query.cursor)
        return NotePage(notes={one.key: one.value.text for one in page.records}, next_cursor=page.next_cursor)

    async def remove_note(self, user: User, key: str) -> None:
        """Remove a note of the user's own."""
        own = self.records_of(NOTES).of_user(user.id)
        if (note := await own.get(key)) is None:
            raise NotFound("There is no such note.")
        await own.remove(note)

    async def list_topics(self, user: User) -> TopicList:
        """The topics."""
        page = await self.records_of(TOPICS).of_application().find(limit=200)
        return TopicList(topics={one.key: one.value.notes for one in page.records})

    async def save(self, user_id: str, note: Note) -> None:
        """Write the note down, and count it, both or neither."""
        topics = self.records_of(TOPICS).of_application()
        adding = self.records_of(NOTES).of_user(user_id).adding(note)
        for _ in range(10):
            topic = await topics.get(note.topic)
            if topic is None:
                counting = topics.adding(Topic(notes=1), note.topic)
            else:
                counting = topics.changing(topic, Topic(notes=topic.value.notes + 1))
            try:
                await self.write([adding, counting])
            except RecordConflict:
                # Somebody else has counted a note on this topic meanwhile.
                continue
            self.measure(SAVED)
            return
        raise RateLimited("Too many write notes on this topic; try again in a moment.", retry_after_s=1)

    async def count_again(self) -> None:
        """Count the notes on each topic again: some have gone with their users."""
        topics = self.records_of(TOPICS).of_application()
        async for topic in topics.each():
            count = await self.count(topic.key)
            try:
                await (topics.change(topic, Topic(notes=count)) if count else topics.remove(topic))
            except RecordConflict:
                # A note has come meanwhile, and is counted.
                continue

    async def count(self, topic: str) -> int:
        everybodys = self.records_of(NOTES).of_all(None)
        return sum([1 async for _ in everybodys.each("by_topic", topic)])


@tool
async def save_note(text: str, topic: str) -> str:
    """Write a note down for the team."""
    notes = application_of(TeamNotes)
    await notes.save(current_context().user_id, Note(text=text, topic=topic))
    notes.show(WRITTEN, Written(text=text, topic=topic), f"**{topic}**: {text}")
    return f"Written down under '{topic}'."


@tool
async def find_notes(topic: str) -> str:
    """Find what the team has written down on a topic."""
    everybodys = application_of(TeamNotes).records_of(NOTES).of_all(current_context().user_id)
    page = await everybodys.find("by_topic", topic, limit=20)
    return "\n".join(f"- {one.value.text}" for one in page.records) or "Nothing is written down on that."
