"""Writes a new agent, or a new application, into a folder. All is checked first; no file of a person's is replaced."""

import contextlib
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.config.yaml.located_yaml import ConfigError, read_yaml
from agentic_backend.new_agent.agent_name import AgentName, named
from agentic_backend.new_agent.errors import CannotWrite
from agentic_backend.new_agent.templates import TemplateName, rendered, rendered_application
from agentic_backend.new_agent.yaml_text import with_entries

CATALOG = "agents_catalog.yaml"
SCHEMA = "agents_catalog.schema.json"
SETTINGS = "config/settings.yaml"
# As the server has it.
_APPLICATION_ID = re.compile(r"[a-z][a-z0-9-]{0,31}")
_HEADER = f"# yaml-language-server: $schema={SCHEMA}\n"


def new_agent(text: str, template: TemplateName, folder: Path) -> int:
    """Write the agent that is named `text`; say what was written. Returns the exit status: 2 if nothing was."""
    try:
        name = named(text)
        content = rendered(template, name)
        _require_new(folder, content.modules)
        changed = {CATALOG: _catalog(folder / CATALOG, content.entries)}
        if content.mcp_servers:
            changed[SETTINGS] = _settings(folder / SETTINGS, content.mcp_servers)
        _write(folder, content.modules, changed)
    except (CannotWrite, ConfigError, OSError) as error:
        print(f"No agent was written: {error}", file=sys.stderr)
        return 2
    _say(name, content.modules, changed, "agentic-backend serve --reload")
    return 0


def new_application(text: str, folder: Path) -> int:
    """Write the application that is named `text`, as `new_agent` does an agent."""
    try:
        name = named(text, "an application")
        if not _APPLICATION_ID.fullmatch(name.id):
            raise CannotWrite(f"{text!r} is no name for an application: expected at most 32 characters without '_'")
        content = rendered_application(name)
        _require_new(folder, content.modules)
        changed = {SETTINGS: _extended(folder / SETTINGS, "applications", content.entries)}
        _write(folder, content.modules, changed)
    except (CannotWrite, ConfigError, OSError) as error:
        print(f"No application was written: {error}", file=sys.stderr)
        return 2
    _say(name, content.modules, changed, "agentic-backend serve")
    return 0


def _say(name: AgentName, modules: Mapping[str, str], changed: Mapping[str, str], serve: str) -> None:
    """What was written, and what comes next."""
    print(f"Wrote {', '.join(modules)}; added {name.id} to {' and '.join(changed)}.")
    tests = " ".join(file for file in modules if file.startswith("test_"))
    steps = [f"python -m pytest {tests}", serve]
    if importlib.util.find_spec("pytest") is None:
        # The server does without it.
        steps.insert(0, "pip install pytest")
    print("Next:", "\n      ".join(steps))


def _require_new(folder: Path, modules: Mapping[str, str]) -> None:
    for file in modules:
        if (folder / file).exists():
            raise CannotWrite(f"{file} is there already")


def _write(folder: Path, modules: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Write all of it, or nothing. Raises OSError."""
    texts = {**modules, **changed}
    if _HEADER in changed.get(CATALOG, ""):
        # Of this version, also where an earlier one has written it.
        texts[SCHEMA] = f"{json.dumps(catalog_schema(), indent=2, ensure_ascii=False)}\n"
    before: dict[Path, bytes | None] = {}
    try:
        for file, text in texts.items():
            path = folder / file
            path.parent.mkdir(exist_ok=True)
            content = path.read_bytes() if path.exists() else None
            with path.open("x" if file in modules else "w", encoding="utf-8") as opened:
                before[path] = content
                opened.write(text)
    except OSError:
        _restore(before)
        raise


def _restore(before: Mapping[Path, bytes | None]) -> None:
    for path, content in before.items():
        with contextlib.suppress(OSError):
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)


def _catalog(path: Path, entries: str) -> str:
    """The text of the catalog with these entries."""
    if not path.exists():
        return with_entries(f"{_HEADER}agents:\n", "agents", entries)
    present = _items(path, "agents")
    ids = [entry.get("id") for entry in present if isinstance(entry, dict)] if isinstance(present, list) else []
    for entry in yaml.safe_load(entries):
        if entry["id"] in ids:
            raise CannotWrite(f"{path.name} has an agent {entry['id']!r} already")
    return _extended(path, "agents", entries)


def _settings(path: Path, servers: str) -> str:
    """The text of the settings with these MCP servers."""
    present = _items(path, "mcp_servers") if path.exists() else None
    for server in yaml.safe_load(servers):
        if isinstance(present, dict) and server in present:
            raise CannotWrite(f"{SETTINGS} has an MCP server {server!r} already")
    return _extended(path, "mcp_servers", servers)


def _items(path: Path, key: str) -> Any:
    """What the file has under `key`. Raises ConfigError, with the place, if it is no YAML."""
    return read_yaml(path).values.get(key)


def _extended(path: Path, key: str, entries: str) -> str:
    """The text of the file, which need not be there, with these entries under `key`."""
    try:
        return with_entries(path.read_text(encoding="utf-8") if path.exists() else "", key, entries)
    except CannotWrite as error:
        raise CannotWrite(f"{path.name}: {error}") from None
