"""Whatever holds a text that is no text, the text is cleaned, and what is clean stays the object that it is."""

import itertools
import operator
from collections import ChainMap, OrderedDict, UserDict, UserList, UserString, deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, SecretStr

from agentic_backend.agents.state.clean_values import clean_value, clean_writes

BAD, GOOD = "a\udce9\x00", "a\ufffd\ufffd"


@dataclass(frozen=True)
class Note:
    text: str


class Pair(NamedTuple):
    one: str
    other: int


@dataclass(frozen=True, slots=True)
class Slotted:
    notes: frozenset[Note]


class Frozen(BaseModel, frozen=True):
    text: str


def colour(text: str) -> Any:
    return {BAD: Enum("Colour", {"RED": BAD}).RED, GOOD: GOOD}[text]


VALUES: list[Any] = [
    *(lambda text: UserDict({text: [text]}), lambda text: UserList([text]), lambda text: UserString(text)),
    *(lambda text: MappingProxyType({text: text}), lambda text: Path("/tmp") / text, lambda text: SecretStr(text)),
    *(lambda text: frozenset({(text,), Note(text), frozenset({text})}), lambda text: Slotted(frozenset({Note(text)}))),
    *(
        lambda text: {Pair(text, 1): 1, Note(text): 2, Path(text): 3},
        lambda text: {Frozen(text=text): Frozen(text=text)},
    ),
    *(colour, lambda text: {"a": [colour(text)], colour(text): 1}),
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


def test_what_is_too_deep_to_be_changed_is_told_by_its_class_and_stays_if_it_is_clean() -> None:
    clean, unclean, cleaned = [GOOD], [BAD], []
    for _ in range(100_000):
        clean, unclean = [clean], [unclean]
    assert clean_value(clean) is clean
    cleaned = clean_value([unclean])
    for _ in range(100):
        [cleaned] = cleaned
    assert cleaned == "<list>"


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


class Fixed(Mapping[str, int]):
    """Can't be made of a mapping."""

    def __init__(self, *items: tuple[str, int]) -> None:
        self._of = dict(items)

    def __getitem__(self, key: str) -> int:
        return self._of[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


class Keeping(list[str]):
    def clear(self) -> None:
        pass


class Bag(MutableMapping[str, str]):
    """Its copies share its items."""

    def __init__(self, items: Mapping[str, str]) -> None:
        self._of = dict(items)

    def __getitem__(self, key: str) -> str:
        return self._of[key]

    def __setitem__(self, key: str, value: str) -> None:
        self._of[key] = value

    def __delitem__(self, key: str) -> None:
        del self._of[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


class Lazy(Mapping[str, list[str]]):
    """Makes its items as they are read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, key: str) -> list[str]:
        return [self._text]

    def __iter__(self) -> Iterator[str]:
        return iter(["key"])

    def __len__(self) -> int:
        return 1


class Twin(tuple[str, str]):
    def __new__(cls, one: str, other: str) -> "Twin":
        return super().__new__(cls, (one, other))


def test_an_authors_own_containers_keep_what_they_hold() -> None:
    found = clean_value(Named("n", [BAD]))
    assert (type(found), list(found), found.name) == (Named, [GOOD], "n")
    assert clean_value(deque([BAD], maxlen=2)).maxlen == 2


def test_what_an_authors_own_container_refuses_becomes_a_plain_one() -> None:
    clean = Twin(GOOD, "b")
    found = clean_value([Twin(BAD, "b"), Fixed((BAD, 1)), Keeping([BAD]), clean])
    assert found == [(GOOD, "b"), {GOOD: 1}, [GOOD], clean]
    assert [type(one) for one in found] == [tuple, dict, list, Twin] and found[3] is clean
    assert clean_value(ChainMap({"a": 1}, {"b": BAD})) == {"a": 1, "b": GOOD}


def test_a_mapping_whose_copies_share_its_items_stays_as_it_was_given() -> None:
    bag = Bag({"text": BAD})
    found = clean_value(bag)
    assert type(found) is Bag and dict(found) == {"text": GOOD} and dict(bag) == {"text": BAD}


def test_what_mappings_make_as_they_are_read_is_not_taken_for_one_another() -> None:
    found = clean_value([Lazy(f"{number}{BAD}") for number in range(5)])
    assert found == [{"key": [f"{number}{GOOD}"]} for number in range(5)]


def test_what_may_be_a_key_is_not_changed_in_place() -> None:
    note = Note(BAD)
    assert clean_value({note: note}) == {Note(GOOD): Note(GOOD)} and note.text == BAD


def test_what_no_store_can_read_stays() -> None:
    class Unread(dict[str, str]):
        def items(self) -> Any:
            raise RuntimeError

    other, unread = object(), Unread(a="b")
    found = clean_value({"other": other, "unread": unread, "text": BAD})
    assert found["other"] is other and found["unread"] is unread and found["text"] == GOOD
