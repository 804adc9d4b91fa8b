"""Loads settings from the command line, the environment, a YAML file and the defaults, in this order of priority.

Invariant: an unknown or invalid setting in any of them stops the start; the error names it and its place.
"""

import functools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from agentic_backend.config.setting_types import Section
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.chat_profiles import ChatProfiles, read_chat_profiles
from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem, KeyPath, LocatedYaml, dotted, read_yaml
from agentic_backend.config.yaml.validation_problems import Schema, accepts, near_miss, schema_at, validation_problems

ENVIRONMENT_PREFIX = "AGENTIC_"
FLAGS: Mapping[str, str] = {
    "server.host": "--host",
    "server.port": "--port",
    "server.internal_port": "--internal-port",
    "auth.developer.allow_remote": "--allow-remote-developer",
    "data.directory": "--data",
    "store.url": "--store",
    "broadcast.url": "--broadcast",
    "server.workers": "--workers",
    "catalog": "--catalog",
    "log.level": "--log-level",
}
"""The command line's flags by setting, so that an error can name the flag."""


def load_settings(path: Path | None, overrides: Mapping[str, object]) -> Settings:
    """The settings alone; see `load_layers`."""
    return load_layers(path, overrides)[0]


def load_layers(path: Path | None, overrides: Mapping[str, object]) -> tuple[Settings, "SettingsLayers"]:
    """The settings of `overrides`, the environment, the YAML file at `path` (None: no file) and the defaults.

    With the layers that tell where each comes from. `overrides` has dotted keys (`server.port`), only of flags that
    were given. Its texts, like those of the environment, are JSON unless the setting is a text. Raises ConfigError with
    all problems.
    """
    document = read_yaml(path) if path else None
    layers = SettingsLayers(_settings_schema(), document)
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
    return settings, layers


@functools.cache
def _settings_schema() -> Schema:
    # Half of what reading settings costs.
    return Settings.model_json_schema()


class Origin(NamedTuple):
    """The origin of a value outside the file: "environment" and a variable, or "command line" and a flag."""

    source: str
    name: str


class SettingsLayers:
    """Values of several sources in layers, each with its origin.

    A later layer wins; mappings are merged, other values are replaced. `document` is the lowest layer.
    """

    def __init__(self, schema: Schema, document: LocatedYaml | None) -> None:
        self.values: dict[str, Any] = document.values if document else {}
        """The merged values of all layers, not validated."""
        self._schema = schema
        """The JSON Schema of the settings, which decides how a layer's texts are parsed."""
        self._document = document
        # By path: the last origin of its value, and the path that this origin set, which is the same or a parent.
        self._origins: dict[KeyPath, tuple[Origin, KeyPath]] = {}

    def lay(self, path: KeyPath, value: object, origin: Origin) -> bool:
        """Set the value at `path`; parse a text as the schema expects. False if the schema has no such path."""
        expectation = schema_at(self._schema, path)
        if expectation is None:
            return False
        layer = _nested(path, _read(value, expectation) if isinstance(value, str) else value)
        self.values = _merged(self.values, layer)
        for leaf in _leaves(layer):
            for length in range(1, len(leaf) + 1):
                if length >= len(path) or not self._is_placed(leaf[:length]):
                    self._origins[leaf[:length]] = (origin, path)
        return True

    def problem_at(self, path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
        """A problem with the value at `path` or, if it is missing, with its nearest parent."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._origins:
                origin, set_path = self._origins[path[:length]]
                where = origin.name if path == set_path else f"{origin.name} ({dotted(path)})"
                return ConfigProblem(origin.source, None, None, where, message)
            if self._document and path[:length] in self._document.places:
                return self._document.problem(path, message, at_key=at_key)
        return ConfigProblem("defaults", None, None, dotted(path), message)

    def _is_placed(self, path: KeyPath) -> bool:
        return path in self._origins or (self._document is not None and path in self._document.places)


def _nested(path: KeyPath, value: object) -> dict[Any, Any]:
    """A nested mapping with only `value` at `path`."""
    for part in reversed(path):
        value = {part: value}
    assert isinstance(value, dict), "a path has a key"
    return value


def _read(text: str, expectation: Schema) -> object:
    """`text` as JSON unless a text is expected. Invalid JSON stays a text, which the validation refuses."""
    if expectation and accepts(expectation, "string"):
        return None if text == "null" and accepts(expectation, "null") else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _leaves(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    else:
        yield path


def documented_settings(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """The dotted key and the field of every setting; `<name>` is a placeholder for a name that the user chooses."""
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
    """./config/settings.yaml, else that of the package or its source checkout, else None."""
    return _first_of("config/settings.yaml")


def default_catalog() -> Path:
    """./agents_catalog.yaml, else that of the package or its source checkout. Raises ConfigError."""
    name = "agents_catalog.yaml"
    found = _first_of(name)
    if found is None:
        raise ConfigError([ConfigProblem(name, None, None, "", "there is no agents catalog; --catalog names one")])
    return found


def load_chat_profiles(settings: Settings) -> ChatProfiles:
    """The profiles of the settings' file, else of ./config/chat_profiles.yaml, else the built-in ones, which are those
    of the shipped file. Raises ConfigError.
    """
    return read_chat_profiles(settings.chat_profiles.path, settings.models)


_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = _PACKAGE.parent


def _first_of(name: str) -> Path | None:
    """The file of that name in the working directory, else the shipped one: of the package or its source checkout."""
    path = Path(name)
    return _first_file(path, _PACKAGE / "defaults" / path.name, _CHECKOUT / path)


def _first_file(*candidates: Path) -> Path | None:
    return next((path for path in candidates if path.is_file()), None)


def modules_file(settings: Settings) -> Path | None:
    """The file of the modules: that of the settings, else ./config/modules.yaml, else that of the package or its source
    checkout, else None.
    """
    return settings.modules.file or _first_of("config/modules.yaml")
