"""Whether an application can start, and finds what it needs: for `agentic-backend validate --deep`."""

from collections.abc import Awaitable, Callable
from functools import partial

from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.config.checks import CheckFailed
from agentic_backend.hosting.loading import LoadedApplication

_CLOSE_S, _GIVEN_UP_S = 1.0, 0.1
# The part of the time limit that each of two steps may take.
_PART = 0.4


async def check_application(loaded: LoadedApplication, limit_s: float) -> str:
    """Start it, have it check what it needs, and close it. Raises CheckFailed."""
    application = loaded.application
    author: AuthorsCalls[None] = AuthorsCalls(f"application:{loaded.id}")
    fields = {"application": loaded.id}
    failed: list[str] = []
    steps = (("start", application.start), ("check", application.check), ("close", application.aclose))
    for step, method in steps:
        if failed and step == "check":
            continue
        # It may be no async method of this class.
        call = partial(_awaited, method)
        try:
            await author.result(call, _CLOSE_S if step == "close" else _PART * limit_s, fields)
        except CallFailed as error:
            failed.append(f"{step}: {error.error}{f' at {error.where}' if error.where else ''}")
    await author.aclose(_GIVEN_UP_S)
    if failed:
        raise CheckFailed("; ".join(failed), "see to what it needs")
    return f"version {loaded.version} starts, and has what it needs"


async def _awaited(method: Callable[[], Awaitable[None]]) -> None:
    await method()
