"""docs/policy.md and config/modules.yaml have every module that ships with the server, and each of its settings."""

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest
import yaml

from agentic_backend import modules
from agentic_backend.policy.chat_module import ChatModule
from agentic_backend.policy.hooks.modules_file import read_modules

ROOT = Path(__file__).parents[1]
FILE = ROOT / "config" / "modules.yaml"
PAGE = (ROOT / "docs" / "policy.md").read_text()
CHAPTER = PAGE.partition("\n## Modules that ship with the product\n")[2].partition("\n## ")[0]
LONGEST_DEFAULT = 120


def shipped() -> dict[str, type[ChatModule]]:
    """The classes of modules in `agentic_backend.modules`, by class path."""
    found = {}
    for info in pkgutil.iter_modules(modules.__path__, f"{modules.__name__}."):
        for name, value in vars(importlib.import_module(info.name)).items():
            if isinstance(value, type) and issubclass(value, ChatModule) and value.__module__ == info.name:
                found[f"{info.name}:{name}"] = value
    return found


SHIPPED = shipped()
ENTRIES = yaml.safe_load(FILE.read_text())["modules"]


def section(target: type[ChatModule]) -> str:
    return next(part for part in CHAPTER.split("\n### ") if f"`{target.__name__}`" in part.partition("\n")[0])


def rows(target: type[ChatModule]) -> list[str]:
    found = []
    for name, setting in target.Settings.model_fields.items():
        default = setting.get_default(call_default_factory=True)
        text = default if isinstance(default, str) else json.dumps(default)
        shown = f"`{text}`" if len(text) <= LONGEST_DEFAULT else "see below"
        found.append(f"| `{name}` | {shown} | {setting.description} |")
    return found


@pytest.mark.parametrize("target", SHIPPED.values())
def test_every_setting_has_its_row(target: type[ChatModule]) -> None:
    table = re.findall(r"^\| `[^`]+` \| .*\|$", section(target), flags=re.MULTILINE)
    assert table == rows(target)


@pytest.mark.parametrize("class_path", SHIPPED)
def test_the_shipped_file_has_every_module_switched_off(class_path: str) -> None:
    [entry] = [entry for entry in ENTRIES if entry["class_path"] == class_path]
    assert entry["enabled"] is False
    settings = SHIPPED[class_path].Settings
    assert settings.model_validate(entry["settings"]) == settings()


def test_the_shipped_file_is_read_with_every_module_switched_on(tmp_path: Path) -> None:
    assert read_modules(FILE, []) == []
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [{**entry, "enabled": True} for entry in ENTRIES]}))
    assert {spec.target for spec in read_modules(file, [])} == set(SHIPPED.values())


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [("pii", {"types": ["shoe_size"]}, "types"), ("words", {"patterns": ["fine", "(a"]}, "is no regular expression")],
)
def test_wrong_settings_are_told_with_their_place(
    name: str, settings: dict[str, object], told: str, tmp_path: Path
) -> None:
    [entry] = [entry for entry in ENTRIES if entry["name"] == name]
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [{**entry, "enabled": True, "settings": settings}]}))
    with pytest.raises(Exception, match=rf"modules\.yaml:\d+:\d+.*{told}"):
        read_modules(file, [])
