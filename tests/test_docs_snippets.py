"""Every fenced block of the documentation is run, or checked by what it is made for; none is only text.

`RUN_BY` of support/documents.py names the tests that run the blocks of a page. Of the others, Python is run by
test_docs_python.py, commands are checked by test_docs_commands.py, and YAML and JSON are read here, by the code that
reads them in earnest. `NOT_RUN` has what is neither, with the reason.
"""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from support.documents import CHECKOUT, PAGES, RUN_BY, Block, blocks, of

from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.config.loading import load_settings
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.chat_profiles import read_chat_profiles
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.evals.eval_file import read_evals
from agentic_backend.policy.hooks.modules_file import ModuleEntry
from agentic_backend.policy.scopes.policies_file import KnownNames, read_policies
from agentic_backend.sessions.reading.usage_reports import UsageView

ALL = [block for page in PAGES for block in blocks(page)]
CHART = CHECKOUT / "config" / "helm" / "agentic-backend"
NOT_RUN = {
    "docs/production.md": "draws the parts of an installation, and the spans of a trace",
    "docs/security.md": "draws who trusts whom",
    "docs/policy.md": "is a sum in words, and a shortened export",
}
"""What the blocks of text of a page are; what a server prints is compared instead."""


def test_each_block_has_a_language() -> None:
    known = {"python", "yaml", "json", "sh", "bash", "diff", "text", "js", "html", "nginx", "promql", "toml"}
    assert len(ALL) > 100
    assert [f"{block}: {block.language!r}" for block in ALL if block.language not in known] == []
    # Every fence belongs to a block.
    fences = sum(len(re.findall(r"^ *```", page.read_text(), re.MULTILINE)) for page in PAGES)
    assert fences == 2 * len(ALL)


@pytest.mark.parametrize(("page", "language"), RUN_BY)
def test_what_runs_a_page_is_there_and_names_it(page: str, language: str) -> None:
    assert [block for block in ALL if block.place.startswith(page) and language in ("*", block.language)]
    source = (CHECKOUT / "tests" / RUN_BY[page, language]).read_text()
    named = {Path(page).name, Path(page).stem} if "clients/" not in page else {"README.md"}
    assert any(name in source for name in named)


@pytest.mark.parametrize("block", of("text", "diff", "nginx", "promql"), ids=str)
def test_text_that_nobody_compares_says_what_it_is(block: Block, tmp_path: Path) -> None:
    if block.place != "docs/settings.md":
        assert block.language == "text" and block.place in NOT_RUN
        return
    file, variable = block.text.splitlines()
    (tmp_path / "config").mkdir()
    written = tmp_path / "config" / "settings.yaml"
    written.write_text("server:\n  port: abc\n")
    with pytest.raises(ConfigError) as raised, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIC_SERVER__PROT", "8000")
        load_settings(written, {})
    told = str(raised.value).replace(f"{tmp_path}/", "").splitlines()
    assert {file, variable} <= set(told)


def as_catalog(entries: Any) -> None:
    assert list(Draft202012Validator(catalog_schema()).iter_errors({"agents": entries})) == []
    for entry in entries:
        AgentSettings.model_validate(entry)


def as_part_of_an_entry(part: dict[str, Any]) -> None:
    as_catalog([{"id": "part", **part}])


def as_settings(values: Any) -> None:
    Settings.model_validate(values)


def as_modules(values: Any) -> None:
    for entry in values["modules"]:
        ModuleEntry.model_validate(entry)


def merged(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """As Helm merges values."""
    values = {
        key: merged(lower[key], value) if isinstance(value, dict) and isinstance(lower.get(key), dict) else value
        for key, value in upper.items()
    }
    return {**lower, **values}


def as_values_of_the_chart(values: dict[str, Any]) -> None:
    """The values of a release: the chart's, with those that its page begins with, and with these."""
    schema = orjson.loads((CHART / "values.schema.json").read_bytes())
    first = next(block for block in blocks(CHART / "README.md") if block.language == "yaml")
    release = merged(yaml.safe_load((CHART / "values.yaml").read_text()), yaml.safe_load(first.text))
    release["image"]["digest"] = release["image"]["digest"].replace("…", "0" * 64)
    release = merged(release, {key: value for key, value in values.items() if key != "image"})
    assert list(Draft202012Validator(schema).iter_errors(release)) == []
    as_settings(values.get("settings", {}))


def as_kept_elsewhere(values: Any) -> None:
    """Configuration of another program, which tests compare with the chart's or with what Prometheus is given."""
    assert set(values) <= {"enableServiceLinks", "terminationGracePeriodSeconds", "containers", "volumes"} | {
        *("scrape_configs", "rule_files", "global", "rules")
    }


def in_file(read: Callable[[Path], object]) -> Callable[[Any], None]:
    """Checks values by a function that reads them from a file; it raises if they are wrong."""

    def check(values: Any) -> None:
        with TemporaryDirectory() as directory:
            file = Path(directory) / "file.yaml"
            file.write_text(yaml.safe_dump(values))
            read(file)

    return check


MODELS = ["small"]
KNOWN = KnownNames(MODELS, ["compact"], ["words"])
as_profiles = in_file(lambda file: read_chat_profiles(file, MODELS))
as_policies = in_file(lambda file: read_policies(file, KNOWN))
as_evals = in_file(read_evals)


def reader(block: Block, values: Any) -> Callable[[Any], None]:
    """What reads such a block in earnest."""
    if isinstance(values, list):
        return as_catalog
    keys = set(values)
    if block.text.startswith(("# Kubernetes", "# Prometheus")) or keys == {"rules"}:
        return as_kept_elsewhere
    if block.page.parent == CHART:
        return as_values_of_the_chart
    if keys == {"modules"}:
        return as_modules
    for name, read in [("profiles", as_profiles), ("organisations", as_policies), ("cases", as_evals)]:
        if name in keys:
            return read
    if keys == {"agents"} and isinstance(values["agents"], list):
        return lambda catalog: as_catalog(catalog["agents"])
    # `apis` of the settings is a mapping, of an entry a list.
    is_of_settings = keys <= set(Settings.model_fields) and not isinstance(values.get("apis"), list)
    return as_settings if is_of_settings else as_part_of_an_entry


@pytest.mark.parametrize("block", of("yaml"), ids=str)
def test_yaml_is_what_its_reader_takes(block: Block) -> None:
    values = yaml.safe_load(block.text)
    reader(block, values)(values)


@pytest.mark.parametrize(
    "text",
    [
        "- {id: a, class_path: 'a:b', modle: small}",
        "limits: {step: 3}",
        "server: {prot: 1}",
        "cases: [{ask: hi, chek: 1}]",
    ],
)
def test_wrong_yaml_is_found(text: str) -> None:
    values = yaml.safe_load(text)
    with pytest.raises((ValidationError, ConfigError, AssertionError)):
        reader(Block(PAGES[0], 1, "yaml", text), values)(values)


@pytest.mark.parametrize("block", of("json"), ids=str)
def test_json_has_the_fields_that_the_server_writes(block: Block) -> None:
    values = orjson.loads(block.text)
    if block.place == "docs/policy.md":
        UsageView.model_validate(values)
    else:
        assert block.place == "docs/logs.md"
        [levels] = re.findall(rf"^\| `{values['message']}` \| ([^|]+) \|", block.page.read_text(), re.MULTILINE)
        assert values["level"] in levels.split(", ")
        source = CHECKOUT / f"{values['logger'].replace('.', '/')}.py"
        assert f'"{values["message"]}"' in source.read_text()


@pytest.mark.parametrize("block", of("js"), ids=str)
def test_javascript_imports_what_the_client_exports(block: Block) -> None:
    [names] = re.findall(r'import \{ (.*?) \} from "@agentic-backend/client"', block.text)
    client = CHECKOUT / "agentic_backend" / "web" / "client"
    index = (client / "index.js").read_text()
    exported = re.findall(r"\w+", " ".join(re.findall(r"export \{(.*?)\}", index)))
    for module in re.findall(r'export \* from "\./(.+)";', index):
        source = (client / module).read_text()
        exported += re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", source, re.MULTILINE)
    assert set(names.split(", ")) <= set(exported)
