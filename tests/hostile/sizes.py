"""How much the hostile tests send: enough to fail without the guard in every run, all of it with `TESTS=long`."""

from typing import TypeVar

from support.further_cases import LONG

T = TypeVar("T")

TIMEOUT_S = 1_200 if LONG else 300


def sized(short: T, long: T) -> T:
    """`long` in `make hostile`, else `short`."""
    return long if LONG else short
