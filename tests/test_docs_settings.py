"""docs/settings.md has a line for every setting, and none for what is no setting."""

import json
import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from agentic_backend.config.loading import FLAGS, documented_settings, environment_variable
from agentic_backend.config.settings import Settings

PAGE = (Path(__file__).parents[1] / "docs" / "settings.md").read_text()
SETTINGS = dict(documented_settings())


def default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, Path):
        return str(value)
    return value if isinstance(value, str) else json.dumps(value)


def row(key: str, field: FieldInfo) -> str:
    shown = "required" if field.is_required() else f"`{default(field)}`"
    return f"| `{key}` | {shown} | `{environment_variable(key)}` | {field.description} |"


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_has_its_line(key: str) -> None:
    assert row(key, SETTINGS[key]) in PAGE.splitlines()


def test_no_line_is_about_what_is_no_setting() -> None:
    assert re.findall(r"^\| `([^`]+)` \|.*`AGENTIC_", PAGE, flags=re.MULTILINE) == list(SETTINGS)


@pytest.mark.parametrize("flag", FLAGS.values())
def test_every_flag_is_told(flag: str) -> None:
    assert f"`{flag}`" in PAGE


def test_every_section_and_setting_is_described() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
    assert [key for key, field in SETTINGS.items() if not field.description] == []
