"""An application with a panel at each place. What they do, a test tells them in their frames."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from langchain_core.tools import tool

from agentic_backend.application import (
    Application,
    ApprovalRequired,
    Call,
    Forbidden,
    Frame,
    LinkPart,
    Panel,
    PartKind,
    Preview,
    Query,
    Upload,
    User,
    Value,
    application_of,
    emit_parts,
)

PATH = "support.panel_application:Boards"
AGENT = {
    "id": "drawing-boards",
    "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
    "tools": ["support.panel_application:draw", "support.panel_application:point"],
}
DOCUMENT = (Path(__file__).parent / "board.html").read_text()


class Drawing(Value):
    """What is drawn."""

    title: str


class Said(Value):
    """Who has said what of which board."""

    who: str
    board: str
    words: str
    large: int = 2**60 + 1


class Pinned(Value):
    """What was put on a board."""

    who: str
    board: str
    name: str
    text: str


class Words(Frame):
    """What to say."""

    words: str


class Loudly(Query):
    """How to say it."""

    loudly: bool = False


DRAWING = PartKind("drawing", Drawing)


class Boards(Application):
    """Panels at all places."""

    id = "boards"
    title = "Boards"
    version = "1"
    parts = (DRAWING,)
    panels = (
        Panel("board", "Board", "board.html", may=frozenset({"ask", "decide", "follow"}), preview="tell"),
        Panel("whole", "Whole board", "board.html", place="instead"),
        Panel("small", "Small board", "board.html", place="sidebar"),
        Panel("drawing", "Drawing", "board.html", place=DRAWING),
        Panel("admins", "Admins' board", "board.html", roles=frozenset({"admin"})),
    )

    def calls(self) -> Sequence[Call]:
        return [
            Call("POST", "/boards/{board}/words", self.say, errors=[Forbidden]),
            Call("POST", "/boards/{board}/erased", self.erase, errors=[ApprovalRequired]),
            Call("POST", "/boards/{board}/files", self.pin),
            Call("POST", "/told", self.tell),
            Call("GET", "/panels/{name}", self.get_named),
            Call("GET", "/{name}", self.get_any),
        ]

    async def tell(self, user: User, body: Words) -> Preview:
        """What a link opens."""
        return Preview(text=f"{body.words}, for {user.id}")

    async def say(self, user: User, board: str, body: Words, query: Loudly) -> Said:
        """Say something."""
        if body.words == "nonsense":
            raise Forbidden("Not here.")
        return Said(who=user.id, board=board, words=body.words.upper() if query.loudly else body.words)

    async def erase(self, user: User, board: str, body: Words) -> Said:
        """Erase a board, once the person has approved of it."""
        self.require_approval("Erase the board", {"board": board, "words": body.words})
        return Said(who=user.id, board=board, words="erased")

    async def pin(self, user: User, board: str, upload: Upload) -> Pinned:
        """Put a file on a board."""
        text = (await asyncio.to_thread(upload.file.read)).decode()
        return Pinned(who=user.id, board=board, name=upload.name, text=text[:100])

    async def get_named(self, user: User, name: str) -> Said:
        """A call whose path could be that of a panel's document."""
        return Said(who=user.id, board=name, words="")

    async def get_any(self, user: User, name: str) -> Said:
        """A call whose path could be that of the application's document."""
        return Said(who=user.id, board=name, words="")


@tool
def draw(title: str) -> str:
    """Draws."""
    application_of(Boards).show(DRAWING, Drawing(title=title), f"A drawing of **{title}**.")
    return "drawn"


@tool
def point(words: str) -> str:
    """Points to something on a board, and to a panel that few people see."""
    data = {"words": words}
    emit_parts(
        LinkPart(kind="view", title=words, panel="boards/board", panel_data=data),
        LinkPart(kind="view", title="admins", panel="boards/admins", panel_data=data),
    )
    return "pointed"
