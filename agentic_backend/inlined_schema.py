"""JSON Schemas from outside as models are given them: without references, in bounds, and of known form. Pure.

Invariants: references lead only within the document that has them, and nothing is fetched; what is made is bounded,
however often a reference is used; a schema within itself, as of a tree, is any value at its second level.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, SchemaRegistry

Resolver: TypeAlias = Any
"""That of `referencing`, which does not export its name."""

MOST_VALUES, MOST_DEPTH, MOST_CHARACTERS = 20_000, 40, 500_000
"""Values and characters of all that is made, and its depth; what is deeper may be anything."""
_MOST_REFERENCES = 32
_LONGEST_SHOWN = 100

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Their values are schemas, lists of schemas, and schemas by names of anybody's, which are no keywords.
_SCHEMA = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_BY_NAME = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
_VALUES = frozenset({"const", "default", "dependentRequired", "enum", "examples", "required", "type"})
# Without references they say nothing, and a validator would fetch what some lead to.
_OF_REFERENCES = frozenset(
    {
        *(
            "$anchor",
            "$comment",
            "$defs",
            "$dynamicAnchor",
            "$id",
            "$recursiveAnchor",
            "$schema",
            "$vocabulary",
            "definitions",
        ),
        *_REFERENCES,
    }
)
_TEXTS = frozenset({"contentEncoding", "contentMediaType", "description", "format", "pattern", "title"})
_NUMBERS = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"})
_COUNTS = frozenset(
    f"{bound}{what}" for bound in ("max", "min") for what in ("Contains", "Items", "Length", "Properties")
)
_BOOLEANS = frozenset({"deprecated", "readOnly", "uniqueItems", "writeOnly"})
# They constrain nothing.
_ANNOTATIONS = frozenset({"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"})


@dataclass(slots=True)
class Budget:
    """What may still be made."""

    values: int = MOST_VALUES
    characters: int = MOST_CHARACTERS


class UnusableSchema(Exception):
    """A schema that no model can be given; the text says why. `path` leads to the place in the schema."""

    def __init__(self, reason: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(reason)
        self.path = path


def usable_schema(schema: Any, budget: Budget | None = None) -> dict[str, Any]:
    """As `inlined_schema`, of an object, and as LangChain can give it to models. Raises UnusableSchema."""
    made = inlined_schema(schema, budget)
    if (kind := made.get("type", "object")) != "object":
        raise UnusableSchema(f"its type is {repr(kind)[:_LONGEST_SHOWN]}, not 'object'")
    require_no_lookalike(made)
    # Providers want both said.
    return {"type": "object", "properties": {}, **made}


def require_no_lookalike(made: Any) -> None:
    """Raises UnusableSchema if something in an inlined schema is called `$ref`: LangChain would follow it."""
    waiting = [made]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if "$ref" in value:
                raise UnusableSchema("a property, or a part of a value, is called '$ref'")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def inlined_schema(schema: Any, budget: Budget | None = None) -> dict[str, Any]:
    """`schema`, a JSON Schema of any draft from 4 on, as one of draft 2020-12 without references.

    It is made within `budget`, which gets less.

    Raises UnusableSchema.
    """
    if not isinstance(schema, Mapping):
        raise UnusableSchema("it is no mapping")
    try:
        resource: Resource[Any] = Resource.from_contents(schema, default_specification=DRAFT202012)
        empty: SchemaRegistry = Registry()
        uri = resource.id() or ""
        # Crawled once, or each look-up would do it anew.
        resolver = empty.with_resource(uri, resource).crawl().resolver(uri)
    # The library trusts that ids are texts, and schemas mappings.
    except Exception as error:
        raise UnusableSchema("a part of it is no JSON Schema") from error
    inliner = SchemaInliner(resolver, references=_REFERENCES, root=schema, budget=budget)
    try:
        made = inliner.inlined(schema)
    except _UnusableAt as error:
        raise UnusableSchema(str(error), _path_of(error.place, schema)) from error
    assert isinstance(made, dict), "what is made of a mapping is one"
    return made


def document_resolver(document: Mapping[str, Any]) -> Resolver:
    """For the references in a document that is no JSON Schema as a whole; they are JSON Pointers."""
    registry: Registry[Any] = Registry()
    return registry.resolver_with_root(Specification.OPAQUE.create_resource(document))


def resolved(value: Any, resolver: Resolver) -> Any:
    """What `value` refers to, if it is a reference. Raises UnusableSchema."""
    for _ in range(_MOST_REFERENCES):
        reference = value.get("$ref") if isinstance(value, Mapping) else None
        if not isinstance(reference, str):
            return value
        value, _ = _target(reference, resolver)
    raise UnusableSchema("a reference leads in a circle")


class _UnusableAt(UnusableSchema):
    def __init__(self, reason: str, place: object) -> None:
        super().__init__(reason)
        self.place = place
        """The mapping in the schema, or one of its values."""


class SchemaInliner:
    """For the schemas of one operation, whose sum is bounded."""

    def __init__(
        self,
        resolver: Resolver,
        finish: Callable[[dict[str, Any], Mapping[Any, Any]], dict[str, Any]] = lambda made, schema: made,
        *,
        references: Sequence[str] = ("$ref",),
        root: Mapping[Any, Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`finish` gets what is made of the keywords of a schema, and the schema; `references` are the keywords that
        are followed. `root` is the schema itself, if it is a document of its own; then its ids count too."""
        self._resolver = resolver
        self._finish = finish
        self._references = references
        self._root = root
        self._left = budget or Budget()
        self._targets: dict[tuple[int, str], tuple[Any, Resolver]] = {}
        """What a reference leads to, by the identity of its mapping and its keyword."""

    def inlined(self, schema: Any) -> Any:
        """Raises UnusableSchema."""
        _require_schema(schema, schema)
        return self._of(schema, self._resolver, 0, frozenset({id(schema)}), frozenset())

    def _of(
        self,
        schema: Mapping[Any, Any] | bool,
        resolver: Resolver,
        depth: int,
        within: frozenset[int],
        chain: frozenset[int],
    ) -> dict[str, Any] | bool:
        """`within`: the identities of the mappings that references have led to; `chain`: those from reference to
        reference, with no value in between."""
        self._spend(1, 0, schema)
        if isinstance(schema, bool):
            return schema
        if depth > MOST_DEPTH:
            return {}
        if self._root is not None and "$id" in schema and schema is not self._root:
            resolver = resolver.in_subresource(DRAFT202012.create_resource(schema))
        made = self._finish(_in_2020_12(dict(self._keywords(schema, resolver, depth, within))), schema)
        for keyword in self._references:
            if keyword in schema:
                target = self._referred(schema, keyword, resolver, depth, within, chain | {id(schema)})
                made = _both(target, made)
        return made

    def _referred(
        self,
        schema: Mapping[Any, Any],
        keyword: str,
        resolver: Resolver,
        depth: int,
        within: frozenset[int],
        chain: frozenset[int],
    ) -> dict[str, Any] | bool:
        if not isinstance(schema[keyword], str):
            raise _UnusableAt(f"{keyword!r} is no text", schema)
        at = (id(schema), keyword)
        if at not in self._targets:
            try:
                self._targets[at] = _target(schema[keyword], resolver)
            except UnusableSchema as error:
                raise _UnusableAt(str(error), schema) from error
        target, its_resolver = self._targets[at]
        _require_schema(target, schema)
        if id(target) in chain and isinstance(target, Mapping):
            raise _UnusableAt("a reference leads in a circle", schema)
        if id(target) in within:
            return {}
        known = within | {id(target)} if isinstance(target, Mapping) else within
        return self._of(target, its_resolver, depth + 1, known, chain)

    def _keywords(
        self, schema: Mapping[Any, Any], resolver: Resolver, depth: int, within: frozenset[int]
    ) -> Iterator[tuple[str, Any]]:
        def of(value: Any) -> Any:
            _require_schema(value, schema)
            return self._of(value, resolver, depth + 1, within, frozenset())

        for key, value in schema.items():
            self._spend(1, len(str(key)), schema)
            if key in _OF_REFERENCES:
                continue
            if (wrong := _wrong(key, value)) is not None:
                raise _UnusableAt(f"{key!r} {wrong}", schema)
            if key in _SCHEMAS or (key == "items" and isinstance(value, list)):
                yield key, [of(item) for item in value]
            elif key in _BY_NAME:
                # In older drafts, lists of names are among the schemas.
                yield (
                    key,
                    {
                        self._name(name, schema): self._value(item, depth) if isinstance(item, list) else of(item)
                        for name, item in value.items()
                    },
                )
            elif key in _SCHEMA:
                yield key, of(value)
            elif key in _VALUES or not isinstance(value, Mapping | list):
                # Not what JSON Schema doesn't know, unless it is plain.
                yield str(key), self._value(value, depth)

    def _name(self, name: Any, place: object) -> str:
        self._spend(0, len(str(name)), place)
        return str(name)

    def _value(self, value: Any, depth: int) -> Any:
        self._spend(1, len(value) if isinstance(value, str) else 0, value)
        if depth > 2 * MOST_DEPTH:
            raise _UnusableAt("a value is nested too deeply", value)
        if isinstance(value, Mapping):
            return {self._name(key, value): self._value(item, depth + 1) for key, item in value.items()}
        return [self._value(item, depth + 1) for item in value] if isinstance(value, list) else value

    def _spend(self, values: int, characters: int, place: object) -> None:
        self._left.values -= values
        self._left.characters -= characters
        if self._left.values < 0 or self._left.characters < 0:
            raise _UnusableAt("its schema is too large, with what its references stand for", place)


def _require_schema(value: Any, place: object) -> None:
    if not isinstance(value, Mapping | bool):
        raise _UnusableAt("a schema is neither a mapping nor true or false", place)


def _target(reference: str, resolver: Resolver) -> tuple[Any, Resolver]:
    """What a reference leads to, and the resolver for what is in there."""
    shown = repr(reference[:_LONGEST_SHOWN])
    try:
        found = resolver.lookup(reference)
    # The library trusts that a pointer's segments fit what they lead through.
    except (Unresolvable, LookupError, TypeError, ValueError, AttributeError) as error:
        where = "nowhere" if reference.startswith("#") else "out of the document"
        raise UnusableSchema(f"the reference {shown} leads {where}") from error
    return found.contents, found.resolver


def _both(target: dict[str, Any] | bool, beside: dict[str, Any]) -> dict[str, Any]:
    """The schema of a reference with what is beside it, which holds too."""
    if target is True:
        return beside
    inner = {"not": {}} if target is False else target
    if not beside or beside.keys() <= _ANNOTATIONS:
        return {**inner, **beside}
    return {**beside, "allOf": [*beside.get("allOf", []), inner]}


def _in_2020_12(made: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a schema, as the latest draft writes what older ones wrote otherwise; changes `made`."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and bound in made:
            made[exclusive] = made.pop(bound)
    if "pattern" in made and not _is_pattern(made["pattern"]):
        # One of another dialect, such as JavaScript's: the tool checks its arguments all the same.
        del made["pattern"]
    others = made.pop("additionalItems", None)
    if isinstance(made.get("items"), list):
        if first := made.pop("items"):
            made["prefixItems"] = first
        if others is not None:
            made["items"] = others
    return made


def _wrong(key: Any, value: Any) -> str | None:
    """Why `value` can't be that of a keyword: models' providers would refuse each request. None if it can."""
    if key in _SCHEMAS:
        return None if isinstance(value, list) and value else "is no list of schemas"
    if key in ("enum", "examples"):
        return None if isinstance(value, list) else "is no list"
    if key in _BY_NAME:
        return _wrong_names(key, value)
    if key == "required":
        return None if _are_names(value) else "is no list of names"
    if key == "dependentRequired":
        is_one = isinstance(value, Mapping) and all(map(_are_names, value.values()))
        return None if is_one else "is no mapping to lists of names"
    if key == "type":
        kinds = value if isinstance(value, list) else [value]
        is_known = _are_names(kinds) and kinds and set(kinds) <= _TYPES
        return None if is_known else "is no type of JSON Schema"
    return _wrong_plain(key, value)


def _wrong_names(key: Any, value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return "is no mapping"
    if key == "patternProperties" and not all(_is_pattern(str(name)) for name in value):
        return "has a name that is no regular expression"
    lists = [item for item in value.values() if isinstance(item, list)]
    return None if key == "dependencies" or not lists else "has a list in place of a schema"


def _wrong_plain(key: Any, value: Any) -> str | None:
    """As `_wrong`, for the keywords whose values have no parts."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in _TEXTS:
        return None if isinstance(value, str) else "is no text"
    if key in _NUMBERS:
        # In draft 4, two are true or false.
        is_older = isinstance(value, bool) and key.startswith("exclusive")
        is_possible = is_older or (is_number and (key != "multipleOf" or value > 0))
        return None if is_possible else "is no number that it can be"
    if key in _COUNTS:
        return None if is_number and value >= 0 and value % 1 == 0 else "is no count"
    return "is neither true nor false" if key in _BOOLEANS and not isinstance(value, bool) else None


def _are_names(value: Any) -> bool:
    """Whether it is a list of texts, each once."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value) and len(set(value)) == len(value)


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _path_of(place: object, schema: Any) -> tuple[str | int, ...]:
    """Where the mapping or list `place` itself is in the schema."""
    if not isinstance(place, Mapping | list):
        return ()
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), schema)]
    while waiting:
        path, value = waiting.pop()
        if value is place:
            return path
        items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, key), item) for key, item in items]
    return ()
