"""Query strings: each parameter has one meaning, and a wrong one is named."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import pytest
from pydantic import Field
from starlette.datastructures import QueryParams

from agentic_backend.errors import BadFrame
from agentic_backend.transports.rest.query_string import Cursor, Name, PageSize, Query, SearchText, Time, WholeNumber


class Everything(Query):
    q: SearchText | None = None
    name: Name | None = None
    state: Literal["open", "closed"] | None = None
    at: Time | None = None
    after: Annotated[int, WholeNumber(-1, 100)] = -1
    limit: Annotated[int, PageSize(200)] = 50
    cursor: Cursor | None = None
    each: list[str] = Field(default_factory=list, max_length=3)


def read(text: str) -> Everything:
    return Everything.of(QueryParams(text))


def test_absent_empty_and_unknown_parameters_are_as_if_not_there() -> None:
    assert read("") == read("q=&name=&state=&at=&cursor=&each=") == read("unknown=1&unknown=2") == Everything()


def test_of_repeated_parameters_the_last_counts_and_a_list_has_all() -> None:
    query = read("name=first&name=second&each=a&each=&each=b")
    assert (query.name, query.each) == ("second", ["a", "b"])


@pytest.mark.parametrize(
    ("given", "read_as"),
    [("1", 1), ("199", 199), ("200", 200), ("201", 200), ("0" * 30 + "7", 7), ("9" * 1_000, 200)],
)
def test_a_page_is_as_large_as_asked_for_up_to_what_may_be(given: str, read_as: int) -> None:
    assert read(f"limit={given}").limit == read_as


@pytest.mark.parametrize(
    "given", ["", "0", "-1", "1.0", "1e3", "+1", " 1", "x", "0x10", "\u0661", "1_000", "9" * 5_000]
)
def test_what_is_no_size_of_a_page_is_refused(given: str) -> None:
    with pytest.raises(BadFrame, match="limit: expected a whole number from 1 on"):
        Everything.of(QueryParams({"limit": given}))


@pytest.mark.parametrize(("given", "read_as"), [("-1", -1), ("0", 0), ("100", 100)])
def test_a_whole_number_within_its_bounds_is_read(given: str, read_as: int) -> None:
    assert read(f"after={given}").after == read_as


@pytest.mark.parametrize("given", ["", "-2", "101", "1.5", "nan", "9" * 30])
def test_a_whole_number_beyond_its_bounds_is_refused(given: str) -> None:
    with pytest.raises(BadFrame, match="after: expected a whole number from -1 to 100"):
        Everything.of(QueryParams({"after": given}))


@pytest.mark.parametrize(
    "given", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00", "2026-01-31T13:00:00%2B01:00"]
)
def test_a_time_is_read_in_utc(given: str) -> None:
    assert read(f"at={given}").at == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "given", ["now", "2026-13-01T00:00:00Z", "2026-01-31T00:00:00%2B23:00", "0001-01-01T00:00:00%2B10:00", "1769860800"]
)
def test_what_is_no_time_is_refused(given: str) -> None:
    with pytest.raises(BadFrame, match="at: expected a time such as"):
        read(f"at={given}")


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("q=" + "x" * 201, "q: expected at most 200 characters"),
        ("q=a%00b", "q: expected at most 200 characters, and no control characters"),
        ("name=" + "x" * 129, "name: "),
        ("state=half", "state: "),
        ("cursor=" + "x" * 1_001, "cursor: "),
        ("each=a&each=b&each=c&each=d", "each: "),
    ],
)
def test_a_wrong_parameter_is_named_and_its_value_is_not(given: str, content: str) -> None:
    with pytest.raises(BadFrame, match=content) as refused:
        read(given)
    assert given.partition("=")[2] not in refused.value.content
