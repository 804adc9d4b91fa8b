"""The agents of docs/examples pass their tests, are valid, and answer what their READMEs say to write."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from support.documents import DOCS
from support.pytest_process import PATIENCE_S, run_pytest

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.protocol.events import HumanRequest
from agentic_backend.testing import Approve, run_agent

EXAMPLES = DOCS / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("__"))
AGENTS = [folder for folder in FOLDERS if folder.name != "application"]
"""Those that are an agent; the application has a test of its own."""
HEADER = "# yaml-language-server: $schema=../../agents_catalog.schema.json\n"


@pytest.mark.timeout(PATIENCE_S + 60)
def test_they_pass_their_tests_where_an_author_has_them(tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    tests = sum(file.read_text().count("\ndef test_") for file in tmp_path.rglob("test_*.py"))
    shown = run_pytest(tmp_path)
    assert f"{tests} passed in" in shown, shown


@pytest.mark.parametrize("folder", AGENTS, ids=lambda folder: folder.name)
def test_each_has_an_entry_that_editors_and_readers_understand(folder: Path) -> None:
    text = (folder / "agents_catalog.yaml").read_text()
    assert text.startswith(HEADER)
    assert list(Draft202012Validator(catalog_schema()).iter_errors(yaml.safe_load(text))) == []
    assert (folder / f"test_{folder.name.replace('-', '_')}.py").exists()
    assert f"]({folder.name}/README.md) |" in (EXAMPLES / "README.md").read_text()


@pytest.mark.parametrize("folder", AGENTS, ids=lambda folder: folder.name)
async def test_each_answers_what_its_readme_says_to_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    # Where an author's environment is active, `python` is its own.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    readme = " ".join((folder / "README.md").read_text().split())
    ways = re.findall(r"Try it: `agentic-backend chat (\S+)`, then (.*?\.)(?: |$)", readme)
    told = [(agent, re.findall(r"`([^`]+)`", asks)) for agent, asks in ways]
    assert told or "tried in its test" in readme
    for agent, asks in told:
        settings = Path("config/settings.yaml")
        questions = [ask for ask in asks if ask != "/new"] or ["Hello"]
        run = await run_agent(agent, questions, settings=settings if settings.exists() else None, answer=agreed)
        assert run.status == "ok", str(run)
        assert all(use.ok for use in run.tool_uses), str(run)


def agreed(request: HumanRequest) -> object:
    """A person's answer: the first choice of a question, or that a tool may run."""
    return request.choices[0].id if request.choices else Approve()
