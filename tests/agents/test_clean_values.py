"""Whatever holds a text that is no text, the text is cleaned, and what is clean stays the object that it is."""

import itertools
import operator
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from agentic_backend.agents.clean_values import clean_value, clean_writes

BAD, GOOD = "a\udce9\x00", "a\ufffd\ufffd"


@dataclass(frozen=True)
class Note:
    text: str


class Pair(NamedTuple):
    one: str
    other: int


VALUES: list[Any] = [
    *(lambda text: text, lambda text: [1, {"a": (text, b"\xff", None)}], lambda text: {text: {text}}, Note),
    *(lambda text: deque([text]), lambda text: {(text, 1): text}),
    *(lambda text: Pair(text, 1), lambda text: OrderedDict(a=text), lambda text: Document(page_content=text)),
    *(lambda text: Send("node", {"a": text}), lambda text: Command(update={"a": [text]}, goto=[Send("node", text)])),
    lambda text: ToolMessage([{"type": "text", "text": text}], tool_call_id=text, artifact={text: [text]}),
    lambda text: AIMessage(text, tool_calls=[{"name": text, "args": {text: text}, "id": text}]),
]


@pytest.mark.parametrize("made_of", VALUES)
def test_a_text_is_cleaned_whatever_holds_it(made_of: Any) -> None:
    assert clean_value(made_of(BAD)) == made_of(GOOD)
    clean = made_of(GOOD)
    assert clean_value(clean) is clean


def test_a_container_stays_as_it_was_given() -> None:
    given = {"files": [BAD]}
    assert clean_value(given) == {"files": [GOOD]}
    assert given == {"files": [BAD]}


def test_no_key_hides_another() -> None:
    found = clean_value(dict(zip(["\udce9", "\ufffd", "\udcea"], [1, 2, 3], strict=True)))
    assert sorted(found.values()) == [1, 2, 3] and found["\ufffd"] == 2
    assert all(key.startswith("\ufffd") for key in found)


def test_what_holds_itself_or_is_deep_comes_to_an_end() -> None:
    ring: list[Any] = [BAD]
    ring.append(ring)
    assert clean_value(ring)[0] == GOOD
    wide: Any = [BAD]
    for _ in range(90):
        wide = [wide, wide]
    deep = clean_value(wide)
    for _ in range(90):
        deep = deep[1]
    assert deep == [GOOD]
    for _ in range(100_000):
        wide = [wide]
    assert clean_value(wide) is wide


class State(TypedDict, total=False):
    files: Annotated[list[Any], operator.add]
    answer: str


def test_what_nodes_write_and_ask_is_clean_to_other_nodes_and_to_the_checkpoints() -> None:
    clean_writes()
    seen: list[Any] = []

    def lists(state: State) -> Any:
        return Command(update={"files": [{BAD: BAD}]}, goto=[Send("asks", {"files": [BAD]})])

    def asks(state: State) -> Any:
        seen.append(state)
        return {"answer": interrupt({"about": BAD})}

    graph = StateGraph(State).add_node("lists", lists, destinations=("asks",)).add_node("asks", asks)
    compiled = graph.add_edge(START, "lists").compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    [asked] = compiled.invoke({"files": []}, config)["__interrupt__"]
    assert asked.value == {"about": GOOD} and seen == [{"files": [GOOD]}]
    assert compiled.invoke(Command(resume=BAD), config) == {"files": [{GOOD: GOOD}], "answer": GOOD}


def test_so_is_what_a_workflow_returns() -> None:
    clean_writes()

    @task
    def step() -> str:
        return BAD

    @entrypoint()
    def workflow(_: str) -> dict[str, str]:
        return {"of": step().result()}

    assert workflow.invoke("go") == {"of": GOOD}


def test_keys_that_all_become_the_same_stay_apart_and_short() -> None:
    given = {"".join(map(chr, codes)): None for codes in itertools.product(range(1, 9), repeat=5)}
    found = clean_value(given)
    assert len(found) == len(given) == 32_768
    assert max(map(len, found)) < 12


class Named(list[str]):
    def __init__(self, name: str, items: Sequence[str] = ()) -> None:
        super().__init__(items)
        self.name = name


class Twin(tuple[str, str]):
    def __new__(cls, one: str, other: str) -> "Twin":
        return super().__new__(cls, (one, other))


def test_an_authors_own_containers_keep_what_they_hold() -> None:
    found = clean_value(Named("n", [BAD]))
    assert (type(found), list(found), found.name) == (Named, [GOOD], "n")
    assert clean_value(deque([BAD], maxlen=2)).maxlen == 2
    twin = Twin(BAD, "b")
    found = clean_value([twin, BAD])
    assert found[0] is twin and found[1] == GOOD
