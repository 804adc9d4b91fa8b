"""The JSON Schema of the catalog: current, complete, and of one mind with the server, as far as a schema can tell."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs.catalog import GRAPHS
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from support.contract import CATALOG_SCHEMA, catalog_schema_document
from support.json_places import places
from support.shipped_agents import CATALOG, GRAPH_LEADER, RECITING, SHIPPED

from agentic_backend.agents.catalog.catalog import AgentSettings, KnownNames, read_catalog
from agentic_backend.agents.catalog.catalog_schema import SHIPPED_CLASSES, catalog_schema
from agentic_backend.agents.catalog.entry_parts import CONFIGURED_AGENT, CONFIGURED_LEADER
from agentic_backend.cli import main

ROOT = Path(__file__).parents[2]
SCHEMA = catalog_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
FULL: dict[str, Any] = {
    "id": "boss-1",
    "name": "The boss",
    "description": "Leads.",
    "icon": "👩‍💻",
    "tags": ["one"],
    "type": "leader",
    "crew": ["a", "b"],
    "class_path": "some.module:Agent",
    "enabled": False,
    "default": True,
    "model": "fast",
    "access": {"roles": ["admin"]},
    "require_approval": ["send", "drop_*"],
    "prompt": {"file": "prompts/boss.md"},
    "tools": ["current_time", "create_note", "tools.crm:find"],
    "apis": [{"id": "crm", "operations": ["get*", "POST /notes"]}, {"id": "shop"}],
    "middleware": [{"name": "ModelCallLimitMiddleware", "args": {"run_limit": 5}}, {"name": "my.module:Mine"}],
    "output": {"type": "object", "properties": {"city": {"type": "string"}}},
    "permissions": {"send_*": ["mail:write:self"]},
    "auto_resume": True,
    "stream": {"nodes": ["answer"], "final_only": False},
    "hold_output": True,
    "store": "shared",
    "limits": {"silence_s": 1.5, "tool_s": 2, "run_s": 3, "steps": 4, "model_calls": 5, "tool_calls": 6, "tokens": 7},
    "session_limits": {"max_messages": 3, "max_duration_s": 60},
    "tuning": {
        "fields": {"prompt": "Be nice.", "nested": {"x": [1]}},
        "mcp_servers": [{"id": "files", "require_tools": ["read"], "tools": ["read"]}, {"id": "web"}],
    },
    "chat": {"starters": ["Hello"], "history_exchanges": 0, "profile": "compact"},
}
SMALL = {"id": "one", "class_path": "m:n"}


def errors(entry: object) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors({"agents": [entry]})]


def accepted(entry: object) -> bool:
    try:
        AgentSettings.model_validate(entry)
    except ValidationError:
        return False
    return True


def test_every_key_of_an_entry_is_tried() -> None:
    assert FULL.keys() == AgentSettings.model_fields.keys() == SCHEMA["$defs"]["AgentSettings"]["properties"].keys()


def test_it_is_a_schema_and_every_key_is_described() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for model in SCHEMA["$defs"].values():
        assert [name for name, key in model["properties"].items() if not key.get("description")] == []


def test_the_published_one_is_current() -> None:
    assert CATALOG_SCHEMA.read_bytes() == catalog_schema_document(), "stale: write it anew with `make contract`"


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_editors_propose_the_shipped_classes() -> None:
    assert set(SHIPPED_CLASSES) == {entry["class_path"] for entry in SHIPPED if "class_path" in entry} | {
        CONFIGURED_AGENT,
        CONFIGURED_LEADER,
    }


@pytest.mark.parametrize("path", [CATALOG, *sorted((ROOT / "bench").glob("*catalog.yaml"))], ids=lambda path: path.name)
def test_a_catalog_that_is_served_is_valid(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    models = [entry["model"] for entry in content["agents"] if "model" in entry]
    assert read_catalog(path, KnownNames(models, ["operations"])).problems == []
    assert list(VALIDATOR.iter_errors(content)) == []


@pytest.mark.parametrize(
    "entry",
    [
        FULL,
        SMALL,
        RECITING,
        GRAPH_LEADER,
        *({"id": name, "class_path": target} for name, target in GRAPHS.items()),
        {"id": "x"},
        {"id": "x", "prompt": "Be brief.", "type": "leader", "crew": ["a"]},
        {**SMALL, "require_approval": "all"},
        {**SMALL, "stream": "all"},
        {**SMALL, "stream": "final_only"},
        {**SMALL, "crew": []},
        {**SMALL, "model": None, "icon": None, "limits": {"steps": None}},
        {**SMALL, "icon": "日本"},
        {**SMALL, "class_path": "some.module.Agent"},
    ],
    ids=lambda entry: str(entry)[:60],
)
def test_an_entry_that_is_served_is_valid(entry: dict[str, Any]) -> None:
    assert accepted(entry)
    assert errors(entry) == []


@pytest.mark.parametrize(
    "entry",
    [
        "just text",
        {"class_path": "m:n"},
        {**SMALL, "nmae": "y"},
        {**SMALL, "prompt": ""},
        {**SMALL, "prompt": {}},
        {**SMALL, "prompt": {"file": None}},
        {**SMALL, "prompt": {"text": "Be brief."}},
        {**SMALL, "tools": ["current_tiem"]},
        {**SMALL, "apis": [{}]},
        {**SMALL, "apis": [{"id": "crm", "operations": []}]},
        {**SMALL, "apis": [{"id": "crm", "url": "https://example.org"}]},
        {**SMALL, "middleware": [{"args": {}}]},
        {**SMALL, "output": []},
        {**SMALL, "id": 5},
        {**SMALL, "id": "a b"},
        {**SMALL, "id": "x" * 65},
        {**SMALL, "name": ""},
        {**SMALL, "class_path": "m n"},
        {**SMALL, "class_path": "m"},
        {**SMALL, "type": "boss"},
        {**SMALL, "crew": ["y"]},
        {**SMALL, "crew": ["y"], "type": "agent"},
        {**SMALL, "icon": ""},
        {**SMALL, "icon": "🦊" * 13},
        {**SMALL, "stream": "finals"},
        {**SMALL, "stream": {"node": ["a"]}},
        {**SMALL, "require_approval": ["all", "x"]},
        {**SMALL, "require_approval": ["all"]},
        {**SMALL, "require_approval": "send"},
        {**SMALL, "require_approval": [""]},
        {**SMALL, "require_approval": [7]},
        {**SMALL, "require_approval": None},
        {**SMALL, "tools": ["curent_time"]},
        {**SMALL, "permissions": {"send": ["not a permission"]}},
        {**SMALL, "permissions": {"": ["mail:write"]}},
        {**SMALL, "store": "mine"},
        {**SMALL, "limits": {"steps": 0}},
        {**SMALL, "limits": {"run_s": 0}},
        {**SMALL, "limits": {"token": 5}},
        {**SMALL, "session_limits": {"max_messages": 0}},
        {**SMALL, "auto_resume": 1},
        {**SMALL, "enabled": "false"},
        {**SMALL, "chat": {"history_exchanges": -1}},
        {**SMALL, "chat": {"starters": "Hello"}},
        {**SMALL, "tuning": {"mcp_servers": [{}]}},
        {**SMALL, "tuning": {"mcp_servers": [{"id": "web", "command": "sh"}]}},
        {**SMALL, "tuning": {"feilds": 7}},
    ],
    ids=lambda entry: str(entry)[-60:],
)
def test_an_entry_that_is_refused_is_invalid(entry: object) -> None:
    assert not accepted(entry)
    assert errors(entry)


@pytest.mark.parametrize("content", [{}, {"agents": None}, {"agents": {"id": "x"}}, {"agents": [], "agnets": 1}, []])
def test_a_file_without_a_list_of_agents_alone_is_invalid(content: object) -> None:
    assert list(VALIDATOR.iter_errors(content))


# What a schema can't tell is left out: a whole number with a fraction of zero, and which signs make an icon.
RUBBISH = st.sampled_from([None, True, -1, 0, 7, 0.5, "", "x", "all", "a b", [], ["x"], [None], [""], {}, {"x": 1}])
ALL_KEYS = sorted({"unknown", *(key for model in SCHEMA["$defs"].values() for key in model["properties"])})


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry of which some values are missing, others, or added."""
    entry: dict[str, Any] = deepcopy(draw(st.sampled_from([FULL, SMALL, *SHIPPED])))
    for _ in range(draw(st.integers(0, 3))):
        container, key = draw(st.sampled_from(places(entry) or [(entry, "id")]))
        if draw(st.booleans()):
            key = draw(st.sampled_from(ALL_KEYS)) if isinstance(container, dict) and draw(st.booleans()) else key
            value = deepcopy(draw(RUBBISH))
            container[key] = None if (key, value) == ("icon", "a b") else value
        elif container:
            del container[key]
    return entry


@given(entries())
def test_the_server_accepts_an_entry_if_and_only_if_the_schema_does(entry: dict[str, Any]) -> None:
    assert accepted(entry) == (not errors(entry)), entry
