"""An application that shows something in a form of its own, from a tool of an agent's."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from langchain_core.tools import tool
from pydantic import Field, computed_field, field_serializer

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


class Odd(Value):
    """With what pydantic does on the way out."""

    value: Any = Field(default=None, serialization_alias="theValue")
    cents: int = 12345

    @field_serializer("cents")
    def in_euros(self, cents: int) -> float:
        return cents / 100

    @computed_field
    def doubled(self) -> int:
        return 2 * self.cents


SKETCH = PartKind("sketch", Sketch)
ODD = PartKind("odd", Odd)
FOREIGN = PartKind("foreign", Sketch)


class Showing(Application):
    """Draws sketches."""

    id = "showing"
    title = "Showing"
    version = "1"
    parts = (SKETCH, ODD)

    def calls(self) -> Sequence[Call]:
        return [Call("GET", "/outside", self.outside)]

    async def outside(self, user: User) -> None:
        self.show(SKETCH, Sketch(title="a"), "a")


class Other(Value):
    """None of the sketches."""

    title: str
    secret: str


HOW: dict[str, tuple[Any, Any, Any]] = {
    "sketch": (SKETCH, Sketch(title="A boat", points=(1, 2)), "A **boat** of Zorblax's."),
    "undeclared": (FOREIGN, Sketch(title="A boat"), "A boat"),
    "other": (SKETCH, Other(title="A boat", secret="my secret"), "A boat"),
    "unchecked": (SKETCH, Sketch.model_construct(title="A boat", points="my secret"), "A boat"),
    "half": (SKETCH, Sketch(title="A boat"), "A \ud800 boat"),
    "large": (SKETCH, Sketch(title="x" * 3_000_000), "A boat"),
    "no text": (SKETCH, Sketch(title="A boat"), None),
    "blank": (SKETCH, Sketch(title="my secret"), " \n"),
    "dict": (SKETCH, {"title": "my secret"}, "A boat"),
    "class": (Sketch, Sketch(title="my secret"), "A boat"),
    "odd": (ODD, Odd(), "An odd one"),
    "deep": (ODD, Odd(value=reduce(lambda inner, _: [inner], range(150), [])), "Deep"),
    "deepest": (ODD, Odd(value=reduce(lambda inner, _: [inner], range(90), [])), "Deep"),
    "long integer": (ODD, Odd(value=2**70), "Long"),
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
