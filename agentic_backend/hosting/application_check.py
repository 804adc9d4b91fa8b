"""Whether an application can start, and finds what it needs: for `agentic-backend validate --deep`."""

from collections.abc import Awaitable, Callable

from agentic_backend.agents.run.authors_calls import AuthorsCalls, CallFailed
from agentic_backend.config.checks import CheckFailed
from agentic_backend.hosting.loading import LoadedApplication

_CLOSE_S, _GIVEN_UP_S = 1.0, 0.1
# The part of the time limit that each of two steps may take.
_PART = 0.4


async def check_application(loaded: LoadedApplication, limit_s: float) -> str:
    """Start it, have it check what it needs, and close it. Raises CheckFailed."""
    application, fields = loaded.application, {"application": loaded.id}
    author = AuthorsCalls(f"application:{loaded.id}")
    failed: list[str] = []

    async def step(name: str, method: Callable[[], Awaitable[None]], timeout_s: float) -> None:
        try:
            await author.done(method, timeout_s, fields)
        except CallFailed as error:
            failed.append(f"{name}: {error.error}{f' at {error.where}' if error.where else ''}")

    await step("start", lambda: application.start(), _PART * limit_s)
    if not failed:
        await step("check", lambda: application.check(), _PART * limit_s)
    await step("close", lambda: application.aclose(), _CLOSE_S)
    await author.aclose(_GIVEN_UP_S)
    if failed:
        raise CheckFailed("; ".join(failed), "see to what it needs")
    return f"version {loaded.version} starts, and has what it needs"
