"""`new-agent` in a folder: what it writes, and that it replaces nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.cli import main
from agentic_backend.new_agent.templates import TEMPLATES

HEADER = "# yaml-language-server: $schema=agents_catalog.schema.json\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_all_templates_share_a_folder_and_their_catalog_fits_its_schema(folder: Path) -> None:
    for template in TEMPLATES:
        assert main(["new-agent", f"a-{template.replace('_', '-')}", "--template", template]) == 0
    text = (folder / "agents_catalog.yaml").read_text()
    assert text.startswith(f"{HEADER}agents:\n")
    catalog = yaml.safe_load(text)
    ids = [entry["id"] for entry in catalog["agents"]]
    leader = ["a-leader", "a-leader-notes", "a-leader-clock"]
    assert ids == ["a-yaml", "a-graph", "a-create-agent", *leader, "a-mcp", "a-approval"]
    schema = json.loads((folder / "agents_catalog.schema.json").read_text())
    assert schema == catalog_schema()
    assert list(Draft202012Validator(schema).iter_errors(catalog)) == []
    assert list(yaml.safe_load((folder / "config/settings.yaml").read_text())["mcp_servers"]) == ["a-mcp"]
    left = [name for name, text in contents(folder).items() if "new_agent" in text or "new-agent" in text]
    assert left == []


@pytest.mark.parametrize("installed", [True, False])
def test_the_next_steps_begin_with_pytest_where_it_is_not_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "pytest", None)
    assert main(["new-agent", "help-desk"]) == 0
    steps = ["python -m pytest test_help_desk.py", "agentic-backend serve --reload"]
    told = capsys.readouterr().out.partition("Next: ")[2]
    assert [step.strip() for step in told.splitlines()] == [*([] if installed else ["pip install pytest"]), *steps]


def test_what_is_written_passes_ruff_as_it_comes(folder: Path) -> None:
    for template in TEMPLATES:
        main(["new-agent", f"a-{template.replace('_', '-')}", "--template", template])
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    for arguments in (["check", "--isolated", "--select", "E,F,I,B,UP", "--ignore", "E501"], ["format", "--check"]):
        done = subprocess.run([*ruff, *arguments, "."], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_entry_is_added_behind_those_that_are_there(folder: Path) -> None:
    before = "# Ours.\nagents:\n- id: old   # the first\n  class_path: old:graph\n"
    (folder / "agents_catalog.yaml").write_text(before)
    (folder / "config").mkdir()
    (folder / "config/settings.yaml").write_text("log: {level: debug}  # for now\nmcp_servers: {}\n")
    assert main(["new-agent", "parcels", "--template", "mcp"]) == 0
    text = (folder / "agents_catalog.yaml").read_text()
    assert text.startswith(f"{before}\n- id: parcels\n")
    settings = (folder / "config/settings.yaml").read_text()
    assert settings.startswith("log: {level: debug}  # for now\nmcp_servers:\n  # ")
    assert not (folder / "agents_catalog.schema.json").exists(), "this catalog names no schema"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"help_desk.py": "mine"}, "help_desk.py is there already"),
        ({"test_help_desk.py": "mine"}, "test_help_desk.py is there already"),
        ({"help_desk_server.py": "mine"}, "help_desk_server.py is there already"),
        ({"agents_catalog.yaml": "agents:\n- id: help-desk\n"}, "agents_catalog.yaml has an agent 'help-desk' already"),
        ({"agents_catalog.yaml": "agents: [{id: a}]\n"}, "add this yourself:\n\n- id: help-desk"),
        ({"agents_catalog.yaml": "agents: [\n"}, "agents_catalog.yaml:2:1: is not YAML"),
        ({"config/settings.yaml": "mcp_servers:\n  help-desk: {command: x}\n"}, "an MCP server 'help-desk' already"),
        ({"config/settings.yaml": "mcp_servers: [\n"}, "config/settings.yaml:2:1: is not YAML"),
        ({"config": "a file"}, "config"),
    ],
)
def test_nothing_is_replaced_and_then_nothing_is_written(
    files: dict[str, str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    assert main(["new-agent", "help-desk", "--template", "mcp"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and told in output.err
    assert contents(folder) == files


def test_what_can_t_be_written_whole_is_not_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "agents_catalog.yaml").write_text("agents:\n- id: old\n")
    (folder / "config").mkdir()
    (folder / "config/settings.yaml").symlink_to("away/settings.yaml")
    before = contents(folder)
    assert main(["new-agent", "help-desk", "--template", "mcp"]) == 2
    assert "No agent was written" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize(
    "name",
    [
        *("", "Desk", "help desk", "1st", "-x", "a--b", "a-", "../up", "über", "x" * 41, "class", "off", "json"),
        *("pytest", "conftest", "test-desk", "desk_test"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-agent", "--", name]) == 2
    assert f"{name!r} is no name for an agent" in capsys.readouterr().err
    assert contents(folder) == {}


@pytest.mark.parametrize("arguments", [[], ["desk", "--template", "swarm"]])
def test_wrong_arguments_are_told(arguments: list[str], folder: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["new-agent", *arguments])
    assert contents(folder) == {}
