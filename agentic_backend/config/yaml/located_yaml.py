"""Reads a YAML file into plain values and keeps the place of each, so that an error can name its line.

Invariants: the result has only plain values (standard scalars, lists, mappings; no tag makes an object); the number of
values is bounded while they are parsed, also what aliases and merge keys expand to; messages quote only the file's
keys, since its values may be secret.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from agentic_backend.config.yaml.yaml_bounds import Loader, OutOfBounds, require_bounded

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead from the top of a file to a value."""

MAX_NODES = 100_000
MAX_DEPTH = 64
MAX_CHARACTERS_A_NODE = 10
"""What aliases stand for may make a document longer by so many characters for each value that it may have."""
MAX_FLAWS = 1_000

# An alias or a tag in PyYAML's messages: in `password: *hunter2` it is the secret. Token names ('<scalar>') are not.
_QUOTED_NAME = re.compile(r" '(?!<)[^']{3,}'")

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {_TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value")}
# Python refuses to write longer ones, and PyYAML takes quadratic time to read them.
_LONGEST_NUMBER = 400
# As YAML has it for keys without `?`.
_LONGEST_KEY = 1_024
_LONGEST_SHOWN = 100
_MANY_FLAWS = f"more than {MAX_FLAWS} mistakes"


@dataclass(frozen=True)
class ConfigProblem:
    """A problem in the configuration and its place: `line` and `column` count from 1, `where` is a dotted path.

    `file` is a path, "environment" or "command line"; for the latter two `where` is the variable or the flag.
    """

    file: str
    line: int | None
    column: int | None
    where: str
    message: str

    def __str__(self) -> str:
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return ": ".join(part for part in (position, self.where, self.message) if part)


class ConfigError(Exception):
    """The configuration is invalid; `problems` says why, one line each."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


class Position(NamedTuple):
    line: int
    column: int


class Place(NamedTuple):
    """The position of a value and of its key (None for the items of a list and for the top of the file)."""

    key: Position | None
    value: Position


@dataclass(frozen=True)
class LocatedYaml:
    """The mapping in `file` as plain values, and the place of each.

    `flaws` are problems inside single values (a duplicate key, an unreadable scalar), each with its path; the caller
    decides which of them matter.
    """

    file: str
    values: dict[Any, Any]
    places: dict[KeyPath, Place]
    flaws: list[tuple[KeyPath, ConfigProblem]] = field(default_factory=list)

    def problem(self, path: KeyPath, message: str, *, at_key: bool = False) -> ConfigProblem:
        """A problem with the value at `path`, or with its key; if it is missing, with its nearest parent."""
        known = path
        while known not in self.places:
            known = known[:-1]
        place = self.places[known]
        position = (place.key or place.value) if at_key or known != path else place.value
        return ConfigProblem(self.file, position.line, position.column, dotted(path), message)


def dotted(path: KeyPath) -> str:
    """`("agents", 2, "tuning")` as `agents[2].tuning`, with long keys cut."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{str(part)[:_LONGEST_SHOWN]}" for part in path)
    return text.removeprefix(".")


def _shown(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def read_yaml(path: Path) -> LocatedYaml:
    """Read the mapping in `path`; an empty file is an empty mapping.

    Raises ConfigError if the file can't be read, is not UTF-8, not YAML, not a mapping, or beyond bounds.
    """
    return yaml_in(str(path), _read_text(path))


def yaml_in(file: str, text: str, max_nodes: int = MAX_NODES) -> LocatedYaml:
    """The same for a `text`, which problems call `file`, of at most `max_nodes` values."""
    node = _compose(file, text, max_nodes)
    if node is None or node.tag == _TAG + "null":
        return LocatedYaml(file, {}, {(): Place(None, Position(1, 1))})
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError([_problem(file, _position(node.start_mark), "expected a mapping of keys to values")])
    reader = _NodeReader(file, max_nodes, len(text))
    values = reader.read(node, ())
    return LocatedYaml(file, values if isinstance(values, dict) else {}, reader.places, reader.flaws)


def _problem(file: str, position: Position | None, message: str, path: KeyPath = ()) -> ConfigProblem:
    line, column = position or (None, None)
    return ConfigProblem(file, line, column, dotted(path), message)


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _position_of(index: int, text: str) -> Position:
    return Position(text.count("\n", 0, index) + 1, index - (text.rfind("\n", 0, index) + 1) + 1)


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError([_problem(str(path), None, "there is no such file")]) from None
    except OSError as error:
        raise ConfigError([_problem(str(path), None, f"cannot be read: {error.strerror}")]) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        raise ConfigError([_problem(str(path), _position_of(len(before), before), "is not UTF-8 text")]) from error


def _compose(file: str, text: str, max_nodes: int) -> yaml.Node | None:
    if (unreadable := yaml.reader.Reader.NON_PRINTABLE.search(text)) is not None:
        message = f"the character U+{ord(unreadable[0]):04X} is not allowed in YAML"
        raise ConfigError([_problem(file, _position_of(unreadable.start(), text), message)])
    try:
        require_bounded(text, max_nodes, MAX_DEPTH)
        loader = Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
            return node
        finally:
            loader.dispose()
    except OutOfBounds as error:
        raise ConfigError([_problem(file, Position(error.line, error.column), str(error))]) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The end of a text without a line break has a line of its own there.
        position = min(_position(mark), _position_of(len(text), text)) if mark else None
        message = _QUOTED_NAME.sub("", ", ".join(part for part in (error.context, error.problem) if part))
        raise ConfigError([_problem(file, position, f"is not YAML: {message}")]) from error


class _NodeReader:
    """Turns composed nodes into plain values; reads an alias again at each of its places."""

    def __init__(self, file: str, max_nodes: int, length: int) -> None:
        self.places: dict[KeyPath, Place] = {}
        """The place of each value in the file."""
        self.flaws: list[tuple[KeyPath, ConfigProblem]] = []
        """Problems that leave the rest of the file readable, each with its path."""
        self._file = file
        self._max_nodes = max_nodes
        self._scalars = yaml.constructor.SafeConstructor()
        """Turns scalars into numbers, booleans, dates and texts."""
        # The number of nodes read, the characters that may still be read, and the present depth: all are bounded.
        self._nodes = 0
        self._characters_left = length + max_nodes * MAX_CHARACTERS_A_NODE
        self._depth = 0

    def read(self, node: yaml.Node, path: KeyPath, key: Position | None = None) -> Any:
        position = _position(node.start_mark)
        self._nodes += 1
        if self._nodes > self._max_nodes or self._depth > MAX_DEPTH:
            message = f"more than {self._max_nodes} values or {MAX_DEPTH} levels, with what the aliases stand for"
            raise ConfigError([_problem(self._file, position, message)])
        if isinstance(node, yaml.ScalarNode):
            self._characters_left -= len(node.value)
            if self._characters_left < 0:
                raise ConfigError([_problem(self._file, position, "the aliases stand for too much text")])
        self.places[path] = Place(key, position)
        self._depth += 1
        value = self._value(node, path, position)
        self._depth -= 1
        return value

    def _value(self, node: yaml.Node, path: KeyPath, position: Position) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALAR_TAGS:
            return self._scalar(node, path)
        self._flaw(path, position, "this tag is not allowed here")
        return None

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        if node.tag == _TAG + "value":  # the YAML 1.1 type of a plain "="
            return node.value
        if node.tag in (_TAG + "int", _TAG + "float") and len(node.value) > _LONGEST_NUMBER:
            self._flaw(path, _position(node.start_mark), f"a number may have no more than {_LONGEST_NUMBER} characters")
            return None
        try:
            return self._scalars.construct_object(node)
        # PyYAML doesn't catch the errors of its conversions.
        except (ArithmeticError, AttributeError, LookupError, ValueError, yaml.YAMLError):
            self._flaw(path, _position(node.start_mark), f"cannot be read as {node.tag.removeprefix(_TAG)}")
            return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                values = self._merged(value_node, path) | values
        own: dict[Any, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                continue
            position = _position(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _SCALAR_TAGS:
                self._flaw(path, position, "a key must be plain text")
                continue
            # A long number has a problem of its own.
            if key_node.tag == _TAG + "str" and len(key_node.value) > _LONGEST_KEY:
                self._flaw(path, position, f"a key may have no more than {_LONGEST_KEY} characters")
                continue
            key = self._scalar(key_node, path)
            if key in own:
                self._flaw((*path, key), position, f"duplicate key {_shown(key)}, first on line {own[key]}")
                continue
            own[key] = position.line
            values[key] = self.read(value_node, (*path, key), position)
        return values

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[Any, Any]:
        """The values of `<<: *one` or `<<: [*one, *two]`; the first mapping with a key wins."""
        place = self.places[path]
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values: dict[Any, Any] = {}
        for source in reversed(sources):
            if isinstance(source, yaml.MappingNode) and source.tag == _TAG + "map":
                values |= self.read(source, path)
            else:
                self._flaw(path, _position(source.start_mark), "only a mapping can be merged")
        self.places[path] = place
        return values

    def _flaw(self, path: KeyPath, position: Position, message: str) -> None:
        if len(self.flaws) == MAX_FLAWS:
            # Each has words of its own.
            raise ConfigError([*(flaw for _, flaw in self.flaws), _problem(self._file, position, _MANY_FLAWS)])
        self.flaws.append((path, _problem(self._file, position, message, path)))
