"""Worker processes of applications: declared, called behind the border, and ended with their application."""

import os
from typing import Any

import pytest
from support.processes import children, runs
from support.rest_client import error_of
from support.working_application import PATH, Working

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.application import Worker
from agentic_backend.config.checks import CheckFailed
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.application_check import check_application
from agentic_backend.hosting.declared_work import declared_workers
from agentic_backend.hosting.loading import LoadedApplication, load_applications
from agentic_backend.testing import open_application


async def test_calls_reach_the_worker_until_the_application_closes() -> None:
    before = children(os.getpid())
    async with open_application(Working, {"start": 4}) as opened, opened.client("ann") as ann:
        assert children(os.getpid()) == before
        assert (await ann.post("/count")).json() == {"answer": 5}
        pid = (await ann.post("/pid")).json()["answer"]
        failed = await ann.post("/fail")
        assert (failed.status_code, error_of(failed)["retryable"]) == (503, False)
        died = error_of(await ann.post("/die"))
        assert (died["code"], died["retryable"]) == ("application_unavailable", True)
        assert not runs(pid)
        pid = (await ann.post("/pid")).json()["answer"]
        with pytest.raises(LookupError):
            await opened.application.in_worker("absent", "count")
    assert not runs(pid) and children(os.getpid()) == before


def loaded(**settings: Any) -> LoadedApplication:
    return load_applications([ApplicationEntry(class_path=PATH, settings=settings)]).loaded[0]


async def test_a_check_may_ask_the_worker() -> None:
    before = children(os.getpid())
    assert "starts" in await check_application(loaded(), ChatModels({}), 20)
    with pytest.raises(CheckFailed, match="ApplicationUnavailable"):
        await check_application(loaded(fails=True), ChatModels({}), 20)
    assert children(os.getpid()) == before


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("workers", "'workers' has to answer a list"),
        ([object()], "'workers' has to answer a list"),
        ([Worker(f"w{number}", "a:B") for number in range(9)], "at most 8"),
        ([Worker("Embedder", "a:B")], "a name has"),
        ([Worker("a", "a.B")], "class_path"),
        ([Worker("a", "os:path.join")], "class_path"),
        ([Worker("a", "a:B", arguments={"a": object()})], "arguments"),
        ([Worker("a", "a:B", arguments={"a-b": 1})], "arguments"),
        ([Worker("a", "a:B", memory_mb=1)], "memory_mb"),
        ([Worker("a", "a:B", memory_mb=10**9)], "memory_mb"),
        ([Worker("a", "a:B", idle_s=float("inf"))], "idle_s"),
        ([Worker("a", "a:B", start_s=True)], "start_s"),
        ([Worker("a", "a:B", environment=("A=B",))], "environment"),
        ([Worker("a", "a:B", environment=["A"])], "environment"),  # type: ignore[arg-type]
        ([Worker("a", "a:B"), Worker("a", "a:C")], "another worker"),
    ],
)
def test_an_odd_worker_is_refused(declared: object, said: str) -> None:
    with pytest.raises(ClassPathError, match=said):
        declared_workers(declared)
