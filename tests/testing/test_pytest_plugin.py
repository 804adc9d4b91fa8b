"""The fixtures of the pytest plugin, in plain test functions and without --record-models."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from agentic_backend.experts.plain_chat.graph import build
from agentic_backend.testing import AgentRun, RecordedModel, ScriptedModel

pytest_plugins = ["agentic_backend.pytest_plugin"]


def test_an_agent_runs_from_a_plain_function(
    agent_runner: Callable[..., AgentRun], scripted_model: Callable[..., ScriptedModel]
) -> None:
    run = agent_runner(build, "Hello", model=scripted_model("Hi"))
    assert run.final_text == "Hi"


def test_a_recording_is_beside_its_test_and_never_made_unasked(
    agent_runner: Callable[..., AgentRun], recorded_model: Callable[..., RecordedModel]
) -> None:
    def provider() -> ScriptedModel:
        raise AssertionError("is only called to record")

    model = recorded_model(provider)
    assert model.path == Path(__file__).parent / "recordings" / (
        "test_a_recording_is_beside_its_test_and_never_made_unasked.json"
    )
    run = agent_runner(build, "Hello", model=model)
    assert run.error is not None and run.error.detail is not None
    assert run.error.detail.type.endswith("NotRecorded") and not model.path.exists()


def test_each_model_of_a_test_has_a_file_of_its_own(
    recorded_model: Callable[..., RecordedModel], request: pytest.FixtureRequest
) -> None:
    folder = Path(__file__).parent / "recordings"
    assert [recorded_model().path, recorded_model(name="judge").path] == [
        folder / f"{request.node.name}.json",
        folder / "judge.json",
    ]
    with pytest.raises(ValueError, match=r"^judge\.json has the calls of another model of this test"):
        recorded_model(name="judge")


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit(3)])
def test_an_agent_that_wants_to_end_the_process_ends_its_run(
    ends: BaseException, agent_runner: Callable[..., AgentRun]
) -> None:
    async def end(state: MessagesState) -> None:
        raise ends

    run = agent_runner(StateGraph(MessagesState).add_node("end", end).add_edge(START, "end").compile(), "Hello")
    assert run.status == "error" and run.error is not None
    assert "end the server" in run.error.content or run.error.detail is not None
