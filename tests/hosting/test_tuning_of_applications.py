"""The keys of applications in the `tuning` of agents: checked with their places, and told to their applications."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.tools import tool
from pydantic import field_validator
from support.chat_client import chat
from support.rest_client import rest
from support.running_server import FAST, running_server

from agentic_backend.agents.agent_manager import AgentManager
from agentic_backend.agents.catalog.catalog import ApplicationKeys
from agentic_backend.application import Application, ApplicationSettings, application_of, current_context
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.loading import Applications, load_applications
from agentic_backend.testing import open_application

HERE = "hosting.test_tuning_of_applications:"


class Measuring(Application):
    """Says what entries say to it."""

    id = "measuring"
    title = "Measuring"
    version = "1"

    class Tuning(ApplicationSettings):
        most: int = 3
        unit: str = "cm"

        @field_validator("unit")
        @classmethod
        def known(cls, unit: str) -> str:
            if unit == "ell":
                raise RuntimeError("nobody knows")
            return unit


class Fields(Measuring):
    id = "fields"


class NoDefault(Measuring):
    class Tuning(ApplicationSettings):  # type: ignore[assignment]
        most: int


class NoModel(Measuring):
    Tuning = dict  # type: ignore[assignment]


class Silent(Measuring):
    Tuning = None  # type: ignore[assignment]


@tool
def measure() -> str:
    """Measures."""
    said = application_of(Measuring).tuning_of(current_context().agent_id)
    return f"{said.most} {said.unit}"


def loaded(*names: str) -> Applications:
    return load_applications([ApplicationEntry(class_path=HERE + name) for name in names])


def entry(agent_id: str, **tuning: Any) -> dict[str, Any]:
    path = "agentic_backend.experts.assistant.assistant:Assistant"
    return {"id": agent_id, "class_path": path, "tools": [f"{HERE}measure"], "tuning": tuning}


def served(tmp_path: Path, keys: ApplicationKeys, **tuning: Any) -> AgentManager:
    file = tmp_path / "agents_catalog.yaml"
    file.write_text(yaml.safe_dump({"agents": [entry("plain"), entry("tuned", **tuning)]}))
    return AgentManager.load(file, {"default"}, keys=keys)


async def test_an_agents_entry_tunes_the_application_for_it_alone(tmp_path: Path) -> None:
    agents = [entry("plain"), entry("tuned", measuring={"most": 7})]
    applications = [{"class_path": f"{HERE}Measuring"}]
    settings = {**FAST, "applications": applications, "agents": {"database": {"enabled": True}}}
    async with (
        running_server(tmp_path, agents=agents, settings=settings) as server,
        chat(server.address) as client,
        rest(server) as http,
    ):
        for agent_id, told in (("plain", "3 cm"), ("tuned", "7 cm")):
            final = (await client.ask("use the tool measure with {}", agent_id=agent_id))[-1]
            assert final.get("status") == "ok", final
            parts = [part for message in final["messages"] for part in message["parts"]]
            assert [part["content"] for part in parts if part["type"] == "tool_result"] == [told]
        # Agents of the database are read by the same rules, and editors told of them.
        wrong = yaml.safe_dump({"id": "third", "tuning": {"measuring": {"most": "many"}}})
        [problem] = (await http.post("/admin/agents/check", json={"yaml": wrong})).json()["problems"]
        assert problem["message"] == "expected an integer, found 'many'"
        schema = (await http.get("/admin/agents/schema")).json()["$defs"]["AgentTuning"]
        assert schema["properties"]["measuring"]["properties"].keys() == {"most", "unit"}
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("tuning", "told"),
    [
        ({"measuring": {"most": "many"}}, "agents[1].tuning.measuring.most: expected an integer, found 'many'"),
        ({"measuring": {"mist": 3}}, "agents[1].tuning.measuring.mist: unknown key 'mist'; did you mean 'most'?"),
        ({"measuring": 3}, "agents[1].tuning.measuring: expected"),
        ({"measuring": {"unit": "ell"}}, "agents[1].tuning.measuring: can't be checked: RuntimeError"),
        ({"mesuring": {}}, "agents[1].tuning.mesuring: unknown key 'mesuring'; did you mean 'measuring'?"),
        ({"feilds": {}}, "agents[1].tuning.feilds: unknown key 'feilds'; did you mean 'fields'?"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place_and_its_agent_is_not_served(
    tmp_path: Path, tuning: dict[str, Any], told: str
) -> None:
    agents = served(tmp_path, loaded("Measuring").keys, **tuning)
    [problem] = map(str, agents.problems)
    assert told in problem
    assert [agent.settings.id for agent in agents.served()] == ["plain"]


def test_what_is_said_to_one_that_can_not_be_loaded_is_left_alone(tmp_path: Path) -> None:
    applications = loaded("NoDefault")
    assert applications.loaded == []
    agents = served(tmp_path, applications.keys, measuring={"most": "many"})
    assert (agents.problems, len(agents.served())) == ([], 2)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Fields", "the id can't be 'fields'"),
        ("NoDefault", "each field of 'Tuning' needs a default"),
        ("NoModel", "'Tuning' has to be a subclass of ApplicationSettings"),
    ],
)
def test_what_is_no_tuning_keeps_the_application_from_serving(name: str, told: str) -> None:
    [problem] = map(str, loaded(name).problems)
    assert told in problem


async def test_without_an_entry_there_are_defaults_and_without_a_tuning_an_error() -> None:
    async with open_application(Measuring) as opened:
        assert opened.application.tuning_of("nobody").most == 3
    async with open_application(Silent) as opened:
        with pytest.raises(LookupError):
            opened.application.tuning_of("nobody")
