"""The assistant's tools, called as an agent calls them."""

import asyncio
import json
import re
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from agentic_backend.experts.assistant.arithmetic import ArithmeticProblem, evaluate
from agentic_backend.experts.assistant.cities import CITIES
from agentic_backend.experts.assistant.tools import TOOLS, calculate, current_time, search_documents, slow_task


async def use(tool: BaseTool, **args: Any) -> ToolMessage:
    result = await tool.ainvoke({"type": "tool_call", "id": "call_1", "name": tool.name, "args": args})
    assert isinstance(result, ToolMessage)
    return result


def test_the_tools_say_what_they_are_for() -> None:
    assert [tool.name for tool in TOOLS] == ["current_time", "calculate", "slow_task", "search_documents"]
    assert all(tool.description for tool in TOOLS)
    assert all(field.get("description") for tool in TOOLS for field in tool.args.values())


@pytest.mark.parametrize(
    ("city", "place", "offset"),
    [
        ("Tokyo", "Tokyo", "+09:00"),
        ("  sao PAULO", "São Paulo", "-03:00"),
        ("Delhi, India", "Delhi", "+05:30"),
        ("asia/tokyo", "Asia/Tokyo", "+09:00"),
        ("UTC", "UTC", "+00:00"),
    ],
)
async def test_the_time_in_a_city(city: str, place: str, offset: str) -> None:
    before = datetime.now(UTC)
    result = await use(current_time, city=city)
    match = re.fullmatch(r"In (.+) it is (\d\d:\d\d) on (\w+), (.+) \(UTC(.\d\d:\d\d)\)\.", result.text)
    assert match, result.text
    assert (match[1], match[5]) == (place, offset)
    told = datetime.strptime(f"{match[3]} {match[4]} {match[2]} {match[5]}", "%A %d %B %Y %H:%M %z")
    assert before - timedelta(minutes=1) <= told <= datetime.now(UTC)


async def test_an_unknown_city_is_a_failed_result_with_near_misses() -> None:
    result = await use(current_time, city="Tokio")
    assert result.status == "error"
    assert "Did you mean Tokyo" in result.text


@pytest.fixture
def no_time_zone_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=())
    yield
    zoneinfo.reset_tzpath()


@pytest.mark.usefixtures("no_time_zone_data")
async def test_without_time_zone_data_the_tool_says_so() -> None:
    result = await use(current_time, city="Tokyo")
    assert result.status == "error"
    assert "no time zone database" in result.text


def test_every_city_has_a_time_zone() -> None:
    assert set(CITIES.values()) <= zoneinfo.available_timezones()
    assert list(CITIES) == sorted(CITIES, key=lambda city: city.replace("ã", "a"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12*34", "408"),
        ("(1 + 2) * 3 - -4", "13"),
        ("7 // 2", "3"),
        ("7 % 4", "3"),
        ("2**10", "1024"),
        ("4/2", "2"),
        ("0.1 + 0.2", "0.3"),
        ("1e3", "1000"),
    ],
)
async def test_arithmetic(expression: str, value: str) -> None:
    result = await use(calculate, expression=expression)
    assert (result.status, result.text) == ("success", f"{expression} = {value}")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1/0", "divided by zero"),
        ("2**100000", "too large"),
        ("9**9**9", "too large"),
        ("1e308*10", "too large"),
        ("10.0**400", "too large"),
        ("(-8)**0.5", "not a real number"),
        ("(1+2", "not in order"),
        ("", "Only numbers"),
        ("__import__('os')", "Only numbers"),
        ("5(3)", "Only numbers"),
        ("1+" * 100 + "1", "longer than"),
        ("(" * 99 + "1" + ")" * 99, None),
    ],
)
async def test_what_can_not_be_calculated_is_a_failed_result(expression: str, reason: str | None) -> None:
    result = await use(calculate, expression=expression)
    assert result.status == ("error" if reason else "success")
    assert (reason or "= 1") in result.text


def test_no_product_grows_without_bound() -> None:
    with pytest.raises(ArithmeticProblem, match="too large"):
        evaluate("*".join(["(9**600)"] * 10))


async def test_a_slow_task_takes_its_time_and_can_be_cancelled() -> None:
    assert (await use(slow_task, seconds=0)).text == "The slow task took 0 seconds."
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await use(slow_task, seconds=60)


@pytest.mark.parametrize("seconds", [-1, 61, float("nan")])
async def test_a_slow_task_has_bounds(seconds: float) -> None:
    result = await use(slow_task, seconds=seconds)
    assert result.status == "error"
    assert "between 0 and 60 seconds" in result.text


@pytest.mark.parametrize(
    ("query", "title", "heading"),
    [
        ("close codes", "Chat Protocol v2", "Close codes"),
        ("session busy", "Troubleshooting", "session_busy"),
        ("write an agent class", "Writing an AgentFlow class", "When a class is needed"),
        ("Prometheus metrics", "Running the server", "Metrics and health"),
        ("an agent asks a person", "Sessions and exchanges", "Waiting for a person"),
    ],
)
async def test_the_documents_are_found(query: str, title: str, heading: str) -> None:
    found = json.loads((await use(search_documents, query=query)).text)
    assert 1 <= len(found) <= 3
    assert (found[0]["title"], found[0]["heading"]) == (title, heading)
    assert all(passage["text"] for passage in found)


async def test_a_search_without_hits_names_the_documents() -> None:
    result = await use(search_documents, query="flobble")
    assert result.status == "success"
    assert "nothing about 'flobble'" in result.text
    assert "Troubleshooting" in result.text
