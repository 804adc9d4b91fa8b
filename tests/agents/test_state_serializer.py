"""What is stored of a graph is read without running code: only types that are named are built."""

import json
import os
import pickle
import re
import typing
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, NewType, NotRequired, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack
import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel, SecretStr
from pydantic_settings import BaseSettings
from support.phrase_model import PhraseModel
from typing_extensions import TypedDict

from agentic_backend.agents.state.readable_state import readable
from agentic_backend.agents.state.state_serializer import StateSerializer, Unstorable, serializer
from agentic_backend.agents.state.state_types import types_of
from agentic_backend.errors import StateRefused


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int


@dataclass
class Leaf:
    at: Point
    seen: datetime | None = None


class Shape(BaseModel):
    colours: list[Colour] = []


class Circle(Shape):
    radius: int = 1


Content = TypeVar("Content")


class Box(BaseModel, Generic[Content]):
    content: Content


class Order(BaseModel):
    number: int

    class Line(BaseModel):
        text: str


Key = NewType("Key", Leaf)


class Nested(TypedDict):
    leaves: NotRequired[dict[str, Annotated[list[Leaf | None], "of a tree"]]]


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    nested: tuple[Nested, ...]
    shape: Shape
    box: Box[int]
    line: Order.Line
    secret: SecretStr
    anything: Any
    one: typing.Sequence[Key]


def graph_of(state: Any) -> Any:
    return StateGraph(state).add_node("node", lambda state: {}).add_edge(START, "node").compile()


def extension(code: int, *held: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(held)))


def within(packed: bytes) -> list[bytes]:
    """The same by itself and within what may be read."""
    inner = ormsgpack.unpackb(packed, ext_hook=ormsgpack.Ext)
    return [packed, ormsgpack.packb({"a": [inner]}), _ext(7, packed), extension(0, "builtins", "set", [inner])]


def _ext(code: int, data: bytes) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, data))


def forged(command: str) -> dict[str, bytes]:
    """Packed values that would run `command`, each by another way of LangGraph's serializer."""
    message = AIMessage("x").model_dump()
    return {
        "one argument": extension(0, "os", "system", command),
        "arguments": extension(1, "os", "system", [command]),
        "keywords": extension(2, "os", "system", {"command": command}),
        "a process": extension(1, "subprocess", "Popen", [["sh", "-c", command]]),
        "an expression": extension(0, "builtins", "eval", f"__import__('os').system({command!r})"),
        "a method": extension(3, "os", "path", command, "exists"),
        "a method of a safe type": extension(3, "pathlib", "Path", command, "home"),
        "a method of dates": extension(3, "datetime", "datetime", command, "strptime"),
        "pydantic 1": extension(4, "os", "system", {"command": command}),
        "pydantic 2": extension(5, "os", "system", {"command": command}, "model_validate_json"),
        "a message that is none": extension(5, "langchain_core.messages.ai.os", "system", message, ""),
        "a dotted name": extension(0, "langchain_core", "messages.ai.os.system", command),
        "a tool": extension(2, "langchain_core.tools", "Tool", {"name": "x"}),
        "no names": extension(0, ["os"], "system", command),
        "objects": extension(6, "|O", [1], "C", bytes(8)),
        "a code of its own": extension(99, "os", "system", command),
    }


@pytest.mark.parametrize("way", forged(""))
def test_what_would_run_code_is_refused_wherever_it_stands(tmp_path: Path, way: str) -> None:
    made = tmp_path / "made"
    serde = StateSerializer(types_of(graph_of(State)), ["tests", "agentic_backend"])
    for packed in within(forged(f"touch {made}")[way]):
        with pytest.raises(StateRefused):
            serde.loads_typed(("msgpack", packed))
        readable(packed)
    assert not made.exists()


def test_the_error_names_the_type_and_the_setting_and_nothing_of_the_value() -> None:
    with pytest.raises(StateRefused) as caught:
        serializer.loads_typed(("msgpack", forged("secret words")["one argument"]))
    assert "'os.system'" in caught.value.content and "agents.state_types" in caught.value.content
    assert "secret words" not in caught.value.content
    assert caught.value.__cause__ is None


class Running:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made",)


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("pickle", pickle.dumps(Running())),
        ("json", json.dumps({"lc": 2, "type": "constructor", "id": ["os", "mkdir"], "args": ["made"]}).encode()),
        ("json", json.dumps({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"]}).encode()),
        ("", b""),
    ],
)
def test_other_forms_are_not_read(form: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StateRefused):
        serializer.loads_typed((form, data))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"x", bytearray(b"x"), 1, "text", [1.5, True], {1: "a"}),
        [datetime(2026, 1, 2, 3, tzinfo=UTC), date(2026, 1, 2), time(1, 2), timedelta(3), UTC, ZoneInfo("UTC")],
        [UUID(int=1), Decimal("1.50"), {1}, frozenset({1}), deque([1]), Path("/a"), re.compile("a+")],
        [ip_address("::1"), ip_network("10.0.0.0/8")],
        [HumanMessage("hello", id="1"), ToolMessage("x", tool_call_id="c", artifact={"a": {1}}), RemoveMessage("1")],
        Document("text", metadata={"at": date(2026, 1, 2)}),
        [
            Send("node", {"a": HumanMessage("x")}),
            Interrupt({"a": 1}, id="i"),
            Command(resume={"a": 1}, goto=["b"]),
            Overwrite([1]),
        ],
        _DeltaSnapshot([HumanMessage("x")]),
    ],
    ids=str,
)
def test_data_messages_and_langgraphs_own_types_come_back(value: Any) -> None:
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        {"leaves": {"a": [Leaf(Point(1), datetime(2026, 1, 2)), None]}},
        [Shape(colours=[Colour.RED]), Circle(radius=2)],
        Box[int](content=1),
        Order.Line(text="a"),
        SecretStr("a"),
        (Leaf(Point(1)),),
    ],
    ids=str,
)
def test_what_a_graphs_state_names_comes_back(value: Any) -> None:
    inner = graph_of(State)
    outer = StateGraph(TypedDict("Outer", {"text": str})).add_node("inner", inner).add_edge(START, "inner").compile()  # type: ignore[operator]
    for graph in (inner, outer):
        serde = StateSerializer(types_of(graph))
        again = serde.loads_typed(serde.dumps_typed({"value": value}))["value"]
        assert again == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_the_class_of_structured_output_comes_back() -> None:
    prebuilt = [create_react_agent(PhraseModel(), [], response_format=form) for form in (Order, ("Order.", Order))]
    for agent in (create_agent(PhraseModel(), response_format=Order), *prebuilt):
        serde = StateSerializer(types_of(agent))
        assert serde.loads_typed(serde.dumps_typed(Order(number=1))) == Order(number=1)


@dataclass
class Unnamed:
    text: str


@pytest.mark.parametrize("value", [Unnamed("words"), {"a": [Unnamed("words")]}, Leaf(Point(1), Unnamed("words"))])
@pytest.mark.parametrize("named", [__name__, f"{__name__}.Unnamed"])
def test_what_could_not_be_read_is_not_written_until_the_setting_names_it(value: Any, named: str) -> None:
    with pytest.raises(Unstorable) as caught:
        StateSerializer([Leaf], ["tests", f"{__name__}.Point"]).dumps_typed(value)
    assert f"'{__name__}.Unnamed'" in str(caught.value) and "agents.state_types" in str(caught.value)
    assert "words" not in str(caught.value)
    serde = StateSerializer([Leaf, Point], [named])
    assert serde.loads_typed(serde.dumps_typed(value)) == value


@pytest.mark.parametrize("name", ["os", "system", "deque", "HumanMessage", "create_agent", "Running", "graph_of"])
def test_a_module_that_is_named_lets_in_its_own_classes_of_data_alone(name: str) -> None:
    with pytest.raises(StateRefused):
        StateSerializer(named=[__name__]).loads_typed(("msgpack", extension(0, __name__, name, "x")))


class Ticket(BaseModel):
    class Kind(Enum):
        NEW = "new"

    kind: Kind


class Bill(BaseModel):
    class Kind(Enum):
        PAID = "paid"

    kind: Kind


class Note(AIMessage):
    mark: str = ""


class Figure(ABC):
    """Holds no data itself."""

    @property
    @abstractmethod
    def name(self) -> str: ...


@dataclass
class Square(Figure):
    side: int
    name = "square"


@dataclass
class Derived:
    number: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = 2 * self.number


@dataclass
class Strict:
    text: str

    def __post_init__(self) -> None:
        if self.text == "changed":
            raise ValueError("no such text")


class Page(BaseModel, Generic[Content]):
    items: list[Content]


class Colours(Page[Colour]): ...


@dataclass
class Held(Generic[Content]):
    content: Content


@dataclass
class HeldPoint(Held[Point]): ...


@dataclass
class Half:
    points: "list[Point]"
    known_to_a_type_checker: "Missing | None" = None  # type: ignore[name-defined]  # noqa: F821


def changed() -> Strict:
    strict = Strict("a")
    strict.text = "changed"
    return strict


@pytest.mark.parametrize(
    ("named", "value"),
    [
        (tuple[Ticket, Bill], [Ticket(kind=Ticket.Kind.NEW), Bill(kind=Bill.Kind.PAID)]),
        (AnyMessage, [Note("text", mark="!", id="1")]),
        (list[Figure], [Square(2)]),
        (Derived, [Derived(2)]),
        (Strict, [changed()]),
        (Page[Colour], [Page[Colour](items=[Colour.RED])]),
        (Colours, [Colours(items=[Colour.RED])]),
        (HeldPoint, [HeldPoint(Point(1))]),
        (Half, [Half([Point(1)])]),
    ],
    ids=lambda one: type(one[0]).__name__ if isinstance(one, list) else "",
)
def test_what_authors_write_comes_back(named: Any, value: Any) -> None:
    serde = StateSerializer(types_of(graph_of(TypedDict("Named", {"value": named}))))  # type: ignore[operator]
    assert serde.loads_typed(serde.dumps_typed(value)) == value


def test_inner_classes_of_one_name_stay_as_they_are_stored() -> None:
    class Other:
        class Line(BaseModel):
            text: int

    Other.Line.__module__ = __name__
    serde = StateSerializer([Order.Line, Other.Line])
    assert serde.loads_typed(serde.dumps_typed(Order.Line(text="a"))) == {"text": "a"}


def test_a_word_of_an_enumeration_that_nothing_names_is_a_text() -> None:
    class Level(StrEnum):
        HIGH = "high"

    form, data = serializer.dumps_typed({"level": Level.HIGH, "levels": [Level.HIGH]})
    assert serializer.loads_typed((form, data)) == {"level": "high", "levels": ["high"]}


class Tool(BaseModel):
    """A graph that a tool runs, and the function that runs it."""

    graph: Any

    def __call__(self, text: str) -> str:
        """Run it."""
        return text


def running(graph: Any, way: str) -> Any:
    """An agent that runs `graph` where LangGraph does not look for subgraphs."""

    def helper(text: str) -> Any:
        return graph.invoke({"text": text})

    def run(text: str) -> str:
        """Run the graph."""
        return str(helper(text))

    if way == "tool":
        return create_agent(PhraseModel(), [run])
    node = Tool(graph=graph) if way == "object" else lambda state: run("x")
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()


@pytest.mark.parametrize("way", ["tool", "object", "helper"])
def test_the_types_of_graphs_that_functions_hold_count(way: str) -> None:
    inner = graph_of(TypedDict("Inner", {"text": str, "leaf": Leaf}))  # type: ignore[operator]
    assert {Leaf, Point} <= types_of(running(inner, way))


class Reads(BaseSettings):
    key: str = "a"


@dataclass
class Context:
    reads: Reads
    leaf: Leaf


class WithSettings(TypedDict):
    reads: Reads


def test_neither_a_context_nor_settings_count() -> None:
    builder = StateGraph(WithSettings, context_schema=Context).add_node("n", lambda state: {}).add_edge(START, "n")
    assert {Context, Reads, Leaf} & types_of(builder.compile()) == set()


@pytest.mark.parametrize("named", ["json.decoder.JSONDecoder", "gone.module"])
def test_a_setting_that_names_no_module_lets_nothing_in(named: str) -> None:
    with pytest.raises(StateRefused):
        StateSerializer((), [named]).loads_typed(("msgpack", extension(0, named, "x", "y")))


def test_a_stored_pattern_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert serializer.loads_typed(("msgpack", extension(1, "re", "compile", ["secret", int(re.DEBUG)]))).pattern
    assert capsys.readouterr().out == ""


def test_the_error_tells_nothing_that_stands_for_a_name() -> None:
    with pytest.raises(StateRefused) as caught:
        serializer.loads_typed(("msgpack", extension(3, "datetime", "datetime", "x", {"secret": "words"})))
    assert "secret" not in caught.value.content


def test_a_value_that_its_class_refuses_never_turns_into_plain_data() -> None:
    serde = StateSerializer([Colour])
    with pytest.raises(StateRefused, match=r"'.*Colour' can't be made") as caught:
        serde.loads_typed(("msgpack", extension(0, __name__, "Colour", "secret words")))
    assert "secret words" not in caught.value.content


@pytest.mark.parametrize("code", [0, 7, 99])
def test_lists_nested_in_layers_are_an_error_and_no_crash(code: int) -> None:
    packed = ormsgpack.packb(None)
    for _ in range(40):
        packed = _ext(code, b"\x91" * 1_000 + packed)
    with pytest.raises((StateRefused, ValueError)):
        serializer.loads_typed(("msgpack", packed))


def test_a_tree_of_data_comes_back() -> None:
    tree: Any = Held(None)
    for _ in range(60):
        tree = Held([tree])
    serde = StateSerializer([Held])
    assert serde.loads_typed(serde.dumps_typed(tree)) == tree


def test_what_is_nested_too_deeply_is_an_error_and_no_crash() -> None:
    packed = ormsgpack.packb(None)
    for _ in range(3_000):
        packed = _ext(7, packed)
    with pytest.raises(ValueError):
        serializer.loads_typed(("msgpack", packed))
