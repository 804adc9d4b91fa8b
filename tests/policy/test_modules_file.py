"""The modules file: every error has its place."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ConfigDict, model_validator
from support.hostile_modules import entry, specs
from support.log_lines import logging_as_before

from agentic_backend.cli import main
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.policy.chat_module import ChatModule, ModuleSettings
from agentic_backend.policy.hook_context import Point
from agentic_backend.policy.hooks.modules_file import read_modules

NOT_A_MODULE = object()


class NotInASchema:
    pass


class Empty(ChatModule):
    pass


class Schemaless(ChatModule):
    class Settings(ModuleSettings):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        password: str
        found: NotInASchema | None = None

    async def before_ai(self, context: Any) -> Any:
        raise NotImplementedError


class Picky(ChatModule):
    class Settings(ModuleSettings):
        password: str

    async def before_ai(self, context: Any) -> Any:
        raise NotImplementedError


class Raising(Picky):
    class Settings(ModuleSettings):
        @model_validator(mode="before")
        @classmethod
        def _fails(cls, values: Any) -> Any:
            raise RuntimeError("secret")


HERE = __name__


def problems(tmp_path: Path, *entries: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        specs(tmp_path, *entries)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("fields", "where", "message"),
    [
        ({"priority": 100}, "modules[0].priority", "expected an integer from 1 to 99"),
        ({"priorty": 1}, "modules[0].priorty", "did you mean 'priority'"),
        ({"points": ["chat:before"]}, "modules[0].points[0]", "expected"),
        ({"agents": ["ecko"]}, "modules[0].agents[0]", "did you mean 'echo'"),
        ({"settings": {"befor": "x"}}, "modules[0].settings.befor", "did you mean 'before'"),
        ({"settings": {"before": 3}}, "modules[0].settings.before", "expected text"),
        ({"class_path": "support.hostile_modules:Actin"}, "modules[0].class_path", "did you mean 'Acting'"),
        ({"class_path": "no_such_package:X"}, "modules[0].class_path", "no module named"),
        ({"class_path": f"{HERE}:NOT_A_MODULE"}, "modules[0].class_path", "is no subclass of ChatModule"),
        ({"class_path": f"{HERE}:Empty"}, "modules[0].class_path", "no method of its own"),
        ({"class_path": f"{HERE}:Picky"}, "modules[0].settings", "the key 'password' is required"),
        ({"class_path": f"{HERE}:Picky", "points": ["chat:after_ai"]}, "modules[0].points[0]", "'after_ai'"),
        ({"points": ["chat:before_ai"], "hold_output": True}, "modules[0].hold_output", "holds nothing"),
        ({"class_path": f"{HERE}:Raising"}, "modules[0].settings", "can't read its settings: RuntimeError"),
        ({"on_failure": "stop"}, "modules[0].on_failure", "'continue' or 'block'"),
        ({"name": "a b"}, "modules[0].name", "expected"),
    ],
)
def test_an_error_has_its_place(tmp_path: Path, fields: dict[str, Any], where: str, message: str) -> None:
    told = problems(tmp_path, {**entry(), **fields})
    assert any(where in problem and message in problem for problem in told), told
    assert all(problem.split(":")[1].isdigit() for problem in told)


def test_a_secret_of_the_settings_is_not_shown(tmp_path: Path) -> None:
    told = problems(tmp_path, {**entry(), "class_path": f"{HERE}:Picky", "settings": {"password": 12345}})
    assert "12345" not in str(told)


def test_settings_that_no_schema_tells_of_are_checked_too(tmp_path: Path) -> None:
    [told] = problems(tmp_path, {**entry(), "class_path": f"{HERE}:Schemaless", "settings": {"password": 12345}})
    assert "settings.password" in told and "12345" not in told


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    [told] = problems(tmp_path, entry(), entry())
    assert "is taken by the module on line" in told


def test_other_files_than_a_list_of_modules_are_refused(tmp_path: Path) -> None:
    for text in ("modules: {}", "modul: []", "- a", "modules: [1]"):
        file = tmp_path / "wrong.yaml"
        file.write_text(text)
        with pytest.raises(ConfigError):
            read_modules(file, [])
    assert read_modules(None, []) == []


def test_points_are_those_of_the_class_unless_they_are_named(tmp_path: Path) -> None:
    whole, part = specs(tmp_path, entry(), entry("part", points=["chat:after_ai"]))
    assert whole.points == frozenset(Point)
    assert part.points == {Point.AFTER_AI}


def test_validate_tells_of_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    modules, config = tmp_path / "modules.yaml", tmp_path / "settings.yaml"
    modules.write_text(yaml.safe_dump({"modules": [{**entry(), "priority": 0}]}))
    config.write_text(yaml.safe_dump({"modules": {"file": str(modules)}}))
    with logging_as_before():
        assert main(["validate", "--config", str(config)]) == 2
    assert f"{modules}:" in capfd.readouterr().err
