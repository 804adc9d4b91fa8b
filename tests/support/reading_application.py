"""An application that reads documents for its users."""

from collections.abc import Sequence

from agentic_backend.application import Application, Call, DocumentUnreadable, Frame, User, Value


class Text(Frame):
    text: str


class Kind(Value):
    kind: str


class Reading(Application):
    """Reads documents."""

    id = "reading"
    title = "Reading"
    version = "1.0.0"

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/texts", self.read_text, errors=[DocumentUnreadable])]

    async def read_text(self, user: User, body: Text) -> Kind:
        """What kind of file this is."""
        document = await self.read_document("a.md", body.text.encode("latin-1"), user=user)
        return Kind(kind=document.kind)
