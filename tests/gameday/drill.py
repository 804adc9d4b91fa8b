"""drill: one fault happens to a site, and everything that its catalogue entry says of it comes true, and ends."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from gameday.fault import Fault
from gameday.site import Site

# How long a state is waited for; alerts of the shipped ranges need minutes to be silent again.
_LONGEST_S, _LONGEST_IN_FULL_S = 150, 700


async def drill(fault: Fault, site: Site) -> float:
    """How many seconds after its injection the alert's expression was true."""
    expression = fault.expression(in_full=site.in_full)
    until = _Until(_LONGEST_IN_FULL_S if site.in_full else _LONGEST_S)
    await until(lambda: is_quiet(site, expression, fault), f"{fault.alert} is silent before")
    async with site.asked(*fault.ask) as outcomes:
        await until(lambda: answered(outcomes), "people get something before")
        await until(lambda: is_quiet(site, expression, fault), f"{fault.alert} is silent while people ask")
        outcomes.clear()
        server, said = site.server, len(site.log())
        began = time.monotonic()
        async with fault.inject(site):
            said = said if site.server is server else 0
            await until(lambda: is_true(site, expression, fault), f"{fault.alert} is true")
            detected_s = time.monotonic() - began
            await until(lambda: is_logged(site, fault, said), f"the log says {fault.log}")
            await until(lambda: is_ready(site, fault.ready), f"readiness is {fault.ready}")
            await until(lambda: got(outcomes, fault.outcome), f"people get {fault.outcome}: {outcomes}")
        # Its counters go on only while somebody asks.
        short = fault.expression(in_full=False)
        if fault.ends_soon_in_full or not site.in_full:
            await until(lambda: is_quiet(site, short, fault), f"{fault.alert} is silent afterwards")
        await until(lambda: is_ready(site, "ok"), "it is ready again")
        outcomes.clear()
        await until(lambda: answered(outcomes), "people get something again")
    return detected_s


class _Until:
    """Waits for a state; the error names it."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s

    async def __call__(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            async with asyncio.timeout(self._longest_s):
                while not await condition():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"never came: {what}") from None


async def is_true(site: Site, expression: str, fault: Fault) -> bool:
    return bool(await site.true_for(expression, fault.labels))


async def is_quiet(site: Site, expression: str, fault: Fault) -> bool:
    # Nothing is known before the first scrape.
    is_scraped = bool(await site.prometheus.query("up == 1"))
    return is_scraped and not await is_true(site, expression, fault)


async def is_ready(site: Site, status: str) -> bool:
    return await site.ready() == status


async def is_logged(site: Site, fault: Fault, said: int) -> bool:
    return any(names(line, fault) for line in site.log()[said:])


def names(line: dict[str, Any], fault: Fault) -> bool:
    """Whether the line is the event, and each field what the fault says."""
    return line["message"] == fault.log and all(
        re.search(pattern, str(line.get(name, ""))) for name, pattern in fault.fields.items()
    )


async def got(outcomes: dict[str, int], wanted: str) -> bool:
    return any(re.fullmatch(wanted, outcome) for outcome in outcomes)


async def answered(outcomes: dict[str, int]) -> bool:
    return "ok" in outcomes
