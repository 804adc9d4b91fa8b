"""Values of any type as JSON, and too large ones cut."""

import json
import math
from collections import deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from agentic_backend.streaming.content import json_form as json_form_module
from agentic_backend.streaming.content.json_form import cut, json_form, value_form

UNREADABLE = {"_unreadable": "list"}


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: int


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)
    point: Point
    anything: Any = None


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({Colour.RED: Level.HIGH, 1: "one", None: 0, False: 1}, {"red": 3, "1": "one", "null": 0, "false": 1}),
        (Point(1, 2), [1, 2]),
        (
            Model(point=Point(1, 2), anything={b"x"}, more=Colour.RED),
            {"point": [1, 2], "anything": ["x"], "more": "red"},
        ),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (timedelta(hours=1), "PT1H"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/tmp") / "a", "/tmp/a"),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (float("inf"), "Infinity"),
        ({float("nan"): -math.inf, 2**70: 1}, {"NaN": "-Infinity", str(2**70): 1}),
        (-(2**63) - 1, str(-(2**63) - 1)),
        ("\ud800", "\ufffd"),
        (object(), "<object>"),
        (deque([1]), "<deque>"),
        (Model, "<ModelMetaclass>"),
    ],
)
def test_each_type_has_a_json_form(value: Any, form: Any) -> None:
    assert json_form(value) == form
    orjson.dumps(json_form(value))


def test_what_contains_itself_or_never_ends_is_unreadable() -> None:
    around: list[Any] = []
    around += [around, around]
    assert json_form(around) == UNREADABLE
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    assert json_form(deep) == UNREADABLE
    doubling: list[Any] = [1]
    for _ in range(60):
        doubling = [doubling, doubling]
    assert json_form(doubling) == UNREADABLE
    shared = {"a": 1}
    assert json_form([shared, shared]) == [{"a": 1}, {"a": 1}]


def test_all_fields_of_a_value_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_form_module, "_MOST_VALUES", 1_000)
    shown = value_form({"rows": [[0] * 999, [0] * 999], "why": "Sure?", **{f"n{n}": [0] * 400 for n in range(20)}})
    assert shown["rows"] == UNREADABLE and shown["why"] == "Sure?"
    assert sum(len(field) for field in shown.values() if isinstance(field, list)) <= 1_000
    assert value_form({n: n for n in range(1_001)}) == {"_unreadable": "dict"}


def test_the_values_of_enums_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Table(Enum):
        ROWS = tuple(range(600))

    monkeypatch.setattr(json_form_module, "_MOST_VALUES", 1_000)
    assert json_form([Table.ROWS]) == [list(range(600))]
    assert json_form([Table.ROWS, Table.ROWS]) == UNREADABLE


_TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner),
)


@given(JSON)
def test_json_is_its_own_form(value: Any) -> None:
    assert json_form(value) == value


@given(JSON, st.integers(200, 400))
def test_what_is_cut_fits_and_says_how_much_is_left_out(value: Any, most: int) -> None:
    shown = cut(value, most)
    whole = orjson.dumps(value)
    assert len(orjson.dumps(shown)) <= most
    if len(whole) <= most:
        assert shown == value
        return
    kept, _, note = shown.rpartition("\n[cut: ")
    text = value if isinstance(value, str) else whole.decode()
    assert text.startswith(kept) and len(kept) > 0
    assert int(note.removesuffix(" more bytes left out]")) == len(text.encode()) - len(kept.encode())


def test_a_text_is_cut_as_a_text() -> None:
    assert cut("x" * 1000, 200).startswith("xxx")
    assert cut({"a": "x" * 1000}, 200).startswith('{"a":"xxx')
    assert json.loads(orjson.dumps(cut('"' * 1000, 300))).startswith('"""')
