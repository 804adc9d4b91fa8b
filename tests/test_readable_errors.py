"""readable_errors: what authors' code raises can be looked at outside, whatever its class does."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from agentic_backend.disclosure.readable_errors import UnreadableError, readable_errors


def raising(*_: object) -> Any:
    raise RuntimeError("not today")


class Plain(Exception):
    pass


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        return raising() if name in ("__module__", "__qualname__", "__name__") else super().__getattribute__(name)


def hostile(**members: Any) -> BaseException:
    return type("Hostile", (Exception,), members)("closed")


def with_cause() -> BaseException:
    error = Plain("told")
    error.__cause__ = error.__context__ = hostile(__context__=property(raising))
    return error


def in_group() -> BaseException:
    return ExceptionGroup("several", [Plain("told"), hostile(__class__=property(raising))])  # type: ignore[list-item]


def raised(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as caught, readable_errors():
        raise error
    return caught.value


@pytest.mark.parametrize(
    "make",
    [
        lambda: hostile(__cause__=property(raising)),
        lambda: hostile(__traceback__=property(raising)),
        lambda: hostile(__context__=property(lambda error: error)),
        lambda: hostile(__class__=property(lambda error: KeyboardInterrupt)),
        lambda: hostile(__suppress_context__=property(raising)),
        lambda: hostile(__notes__=property(raising)),
        lambda: hostile(__getattribute__=raising),
        lambda: hostile(__setattr__=raising, __cause__=property(raising)),
        lambda: Meta("Hostile", (Exception,), {"__cause__": property(raising)})("closed"),
    ],
)
def test_what_cant_be_looked_at_is_replaced(make: Callable[[], BaseException]) -> None:
    error = make()
    told = raised(error)
    assert type(told) is UnreadableError and str(told).endswith(".Hostile")
    assert told.__context__ is None
    assert "raised" in "".join(traceback.format_exception(told)), "where it was raised"


def test_of_what_can_be_looked_at_only_the_cause_is_replaced() -> None:
    error = with_cause()
    assert raised(error) is error
    assert type(error.__cause__) is UnreadableError
    assert error.__context__ is error.__cause__, "in the usual form of chaining they are one"
    assert "told" in "".join(traceback.format_exception(error))


def test_of_a_group_only_the_member_is_replaced() -> None:
    told = raised(in_group())
    assert isinstance(told, ExceptionGroup) and list(map(type, told.exceptions)) == [Plain, UnreadableError]
    assert "several" in "".join(traceback.format_exception(told))


def test_a_guard_within_another_adds_nothing() -> None:
    with pytest.raises(UnreadableError) as caught, readable_errors(), readable_errors():
        raise hostile(__cause__=property(raising))
    assert caught.value.__context__ is None and caught.value.__cause__ is None


async def test_a_cancellation_stays_one() -> None:
    with pytest.raises(asyncio.CancelledError), readable_errors():
        raise type("Hostile", (asyncio.CancelledError,), {"__cause__": property(raising)})


@pytest.mark.parametrize("error", [Plain("told"), KeyboardInterrupt(), ExceptionGroup("g", [Plain(), ValueError()])])
def test_all_else_is_raised_as_it_is(error: BaseException) -> None:
    error.__cause__ = Plain("why")
    error.__cause__.__context__ = error
    assert raised(error) is error
