"""An application that shows something in a form of its own, from a tool of an agent's."""

from collections.abc import Sequence
from typing import Any

from langchain_core.tools import tool

from agentic_backend.application import Application, Call, PartKind, User, Value, application_of

PATH = "support.showing_application:Showing"
AGENT = {
    "id": "painter",
    "class_path": "agentic_backend.experts.assistant.assistant:Assistant",
    "tools": ["support.showing_application:paint"],
}


class Sketch(Value):
    """What is drawn."""

    title: str
    points: tuple[int, ...] = ()


SKETCH = PartKind("sketch", Sketch)
FOREIGN = PartKind("foreign", Sketch)


class Showing(Application):
    """Draws sketches."""

    id = "showing"
    title = "Showing"
    version = "1"
    parts = (SKETCH,)

    def calls(self) -> Sequence[Call]:
        return [Call("GET", "/outside", self.outside)]

    async def outside(self, user: User) -> None:
        self.show(SKETCH, Sketch(title="a"), "a")


class Other(Value):
    """None of the sketches."""

    title: str
    secret: str


HOW: dict[str, tuple[PartKind[Any], Value, str]] = {
    "sketch": (SKETCH, Sketch(title="A boat", points=(1, 2)), "A **boat** of Zorblax's."),
    "undeclared": (FOREIGN, Sketch(title="A boat"), "A boat"),
    "other": (SKETCH, Other(title="A boat", secret="my secret"), "A boat"),
    "unchecked": (SKETCH, Sketch.model_construct(title="A boat", points="my secret"), "A boat"),
    "half": (SKETCH, Sketch(title="A boat"), "A \ud800 boat"),
    "large": (SKETCH, Sketch(title="x" * 3_000_000), "A boat"),
    "no text": (SKETCH, Sketch(title="A boat"), None),
}


@tool
def paint(how: str) -> str:
    """Paints."""
    kind, value, text = HOW[how]
    try:
        application_of(Showing).show(kind, value, text)
    except (LookupError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "painted"
