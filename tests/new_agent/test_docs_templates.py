"""docs/agents.md names every template, and its commands do what it says."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.cli import main
from agentic_backend.new_agent.templates import TEMPLATES

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


def chapter(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def snippets(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_every_template_has_its_row() -> None:
    assert re.findall(r"^\| `(\w+)`", chapter("Begin with a template"), flags=re.MULTILINE) == list(TEMPLATES)


def test_the_commands_write_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [commands] = snippets(chapter("Begin with a template"), "sh")
    written, tested, served = (shlex.split(line) for line in commands.splitlines())
    assert main(written[1:]) == 0
    assert tested[-1] in {path.name for path in tmp_path.iterdir()}
    assert served == ["agentic-backend", "serve", "--reload"]


def test_the_catalog_that_names_its_schema_fits_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = chapter("While you write")
    [command] = snippets(text, "sh")
    [catalog] = [each for each in snippets(text, "yaml") if "yaml-language-server" in each]
    program, name, _, file = shlex.split(command)
    assert program == "agentic-backend" and main([name]) == 0 and capsys.readouterr().out
    assert catalog.startswith(f"# yaml-language-server: $schema={file}\n")
    assert list(Draft202012Validator(catalog_schema()).iter_errors(yaml.safe_load(catalog))) == []
