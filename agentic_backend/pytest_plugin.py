"""The pytest plugin: fixtures to test agents with. A run that uses none of them pays nothing for it.

pytest is no dependency of the server: only pytest imports this module, by its entry point.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

_PASSED = pytest.StashKey[bool]()
_COLD = (
    "This test passed with the agent as it was, and fails where the agent is closed before it is asked again in its "
    "session, and built anew with the history from the store."
)

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from agentic_backend.testing import AgentRun, RecordedModel, ScriptedModel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("agentic-backend").addoption(
        "--record-models",
        action="store_true",
        help="ask the providers' models of `recorded_model`, and keep what they say",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    # A run that scripts no model doesn't import them.
    if (scripted := sys.modules.get("agentic_backend.testing.scripted_model")) is not None:
        scripted.number_models_anew()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test that has asked more than once in a session, and passed, is run again with cold agents.

    A server closes agents that nobody uses, and builds them anew with the history from the store: an answer that
    depends on it is found so. Only a failure of the second run is reported.
    """
    _cold(was_asked_twice=False)
    result = yield
    opened = sys.modules.get("agentic_backend.testing.opened_agent")
    if opened is None or not opened.Cold.was_asked_twice or not isinstance(item, pytest.Function):
        return result
    if not item.stash.get(_PASSED, False):
        return result
    item._initrequest()
    _cold(is_on=True)
    try:
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    finally:
        _cold(is_on=False)
    for report in reports:
        if report.failed:
            report.sections.append(("agent", _COLD))
            item.ihook.pytest_runtest_logreport(report=report)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_PASSED] = item.stash.get(_PASSED, True) and report.passed
    return report


def _cold(**values: bool) -> None:
    """Set values of Cold, if a test has imported it."""
    if (opened := sys.modules.get("agentic_backend.testing.opened_agent")) is not None:
        for name, value in values.items():
            setattr(opened.Cold, name, value)


@pytest.fixture
def agent_runner(request: pytest.FixtureRequest) -> "Callable[..., AgentRun]":
    """Runs an agent from a plain test function: `run_agent`, without `await`. In an asynchronous one await that."""
    from agentic_backend.loop.event_loop import run_until_ended
    from agentic_backend.testing import run_agent

    def run(agent: object, ask: Any, **options: Any) -> "AgentRun":
        network = {"network": True} if request.config.getoption("--record-models", default=False) else {}
        with asyncio.Runner() as runner:
            return run_until_ended(runner.get_loop(), run_agent(agent, ask, **{**network, **options}))

    return run


@pytest.fixture
def scripted_model() -> "Iterator[Callable[..., ScriptedModel]]":
    """Makes a ScriptedModel of its turns. The test fails if it ends with a turn that nobody has asked for."""
    from agentic_backend.testing import ScriptedModel

    made: list[ScriptedModel] = []

    def make(*turns: Any, **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(*turns, **options))
        return made[-1]

    yield make
    unsaid = sum(model.unsaid for model in made)
    if unsaid:
        raise AssertionError(f"{unsaid} turns of scripted models were not asked for")


@pytest.fixture
def recorded_model(request: pytest.FixtureRequest) -> "Callable[..., RecordedModel]":
    """Makes a RecordedModel whose file is `recordings/TEST.json` beside the test's, or another `name`.

    `model` makes the provider's model; it is only called with --record-models. Several models of a test need names:
    each has its own file. Raises ValueError otherwise.
    """
    from agentic_backend.testing import RecordedModel

    record = bool(request.config.getoption("--record-models", default=False))
    folder = Path(request.path).parent / "recordings"
    taken = set[Path]()

    def make(model: "Callable[[], BaseChatModel] | None" = None, *, name: str | None = None) -> RecordedModel:
        file = folder / f"{name or re.sub(r'[^A-Za-z0-9_.-]+', '-', request.node.name)}.json"
        if file in taken:
            raise ValueError(f"{file.name} has the calls of another model of this test; give this one a `name`")
        taken.add(file)
        return RecordedModel(file, model() if record and model is not None else None, record=record)

    return make


@pytest.fixture
def blocked_network() -> Iterator[list[str]]:
    """No network within the test; the hosts that something has tried to reach, as a live list."""
    from agentic_backend.testing import blocked_network

    with blocked_network() as tried:
        yield tried
