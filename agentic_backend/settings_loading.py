"""Where settings come from: the command line, the environment, a YAML file and the defaults, in this order.

Invariant: a setting that is unknown or wrong anywhere stops the start and is named with its place.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agentic_backend.located_yaml import ConfigError, ConfigProblem, KeyPath, read_yaml
from agentic_backend.setting_types import Section
from agentic_backend.settings import Settings
from agentic_backend.settings_layers import Origin, SettingsLayers
from agentic_backend.validation_problems import near_miss, validation_problems

ENVIRONMENT_PREFIX = "AGENTIC_"
FLAGS: Mapping[str, str] = {
    "server.host": "--host",
    "server.port": "--port",
    "server.internal_port": "--internal-port",
    "auth.developer.allow_remote": "--allow-remote-developer",
    "data.directory": "--data",
    "store.url": "--store",
    "relay.url": "--relay",
    "server.workers": "--workers",
    "catalog": "--catalog",
    "log.level": "--log-level",
}
"""The command line's flags for settings, so that an error can name the flag."""


def load_settings(path: Path | None, overrides: Mapping[str, object]) -> Settings:
    """The settings of `overrides`, the environment, the YAML file at `path` (None: no file) and the defaults.

    `overrides` has dotted keys (`server.port`) and only those that were given. Its texts, like those of the
    environment, are JSON where the setting is no text. Raises ConfigError with every problem there is.
    """
    document = read_yaml(path) if path else None
    layers = SettingsLayers(Settings.model_json_schema(), document)
    problems = [problem for _, problem in document.flaws] if document else []
    for keys, value, origin in [*_environment(), *_command_line(overrides)]:
        if not layers.lay(keys, value, origin):
            problems.append(_unknown(origin))
    try:
        settings = Settings.model_validate(layers.values)
    except ValidationError as error:
        raise ConfigError([*problems, *validation_problems(error, Settings, layers.problem_at)]) from error
    if problems:
        raise ConfigError(problems)
    return settings


def documented_settings(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The dotted key and the field of every setting; `<name>` stands for a name that the user chooses."""
    for name, field in model.model_fields.items():
        key = prefix + name
        mapped = get_args(field.annotation)[-1:]
        if _is_section(field.annotation):
            yield from documented_settings(field.annotation, f"{key}.")
        elif mapped and _is_section(mapped[0]):
            yield from documented_settings(mapped[0], f"{key}.<name>.")
        else:
            yield key, field


def _is_section(annotation: object) -> TypeGuard[type[Section]]:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def environment_variable(key: str) -> str:
    """The variable that sets `key`: `server.port` is AGENTIC_SERVER__PORT."""
    return ENVIRONMENT_PREFIX + key.replace(".", "__").upper()


def _environment() -> Iterator[tuple[KeyPath, object, Origin]]:
    for name, text in sorted(os.environ.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            key = name.removeprefix(ENVIRONMENT_PREFIX)
            path = key.lower().split("__") if key.isupper() else [key]
            yield tuple(path), text, Origin("environment", name)


def _command_line(overrides: Mapping[str, object]) -> Iterator[tuple[KeyPath, object, Origin]]:
    for key, value in overrides.items():
        yield tuple(key.split(".")), value, Origin("command line", FLAGS.get(key, key))


def _unknown(origin: Origin) -> ConfigProblem:
    keys = [key.replace("<name>", "default") for key, _ in documented_settings()]
    if origin.source == "environment":
        hint = near_miss(origin.name.upper(), map(environment_variable, keys))
    else:
        hint = near_miss(origin.name, keys)
    return ConfigProblem(origin.source, None, None, origin.name, f"there is no such setting{hint}")


def default_settings_file() -> Path | None:
    """./config/settings.yaml, else the one that the package or its source checkout has, else None."""
    return _first_file(
        Path("config", "settings.yaml"), _PACKAGE / "defaults" / "settings.yaml", _CHECKOUT / "config" / "settings.yaml"
    )


def default_catalog() -> Path:
    """./agents_catalog.yaml, else the one that the package or its source checkout has. Raises ConfigError."""
    name = "agents_catalog.yaml"
    found = _first_file(Path(name), _PACKAGE / "defaults" / name, _CHECKOUT / name)
    if found is None:
        raise ConfigError([ConfigProblem(name, None, None, "", "there is no agents catalog; --catalog names one")])
    return found


_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent


def _first_file(*candidates: Path) -> Path | None:
    return next((path for path in candidates if path.is_file()), None)
