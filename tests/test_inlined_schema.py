import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema_specifications import REGISTRY

from agentic_backend.inlined_schema import SchemaInliner, UnusableSchema, document_resolver, usable_schema


def test_properties_may_have_the_names_of_keywords() -> None:
    named = {name: {"type": "string"} for name in ("example", "xml", "nullable", "discriminator", "$id")}
    schema = {"type": "object", "properties": named, "required": ["example"], "example": {"example": "a"}}

    inlined = SchemaInliner(document_resolver({})).inlined(schema)

    assert inlined == {"type": "object", "properties": named, "required": ["example"]}


def test_no_schema_makes_the_server_read_a_file(tmp_path: Path) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text('{"type": "string"}')
    schema = {"properties": {"a": {"$dynamicRef": elsewhere.as_uri()}}}

    validator = Draft202012Validator(SchemaInliner(document_resolver({})).inlined(schema))

    assert validator.is_valid({"a": 1}), "what the file says is known only to those who read it"


def test_a_base_leads_no_reference_elsewhere() -> None:
    inlined = SchemaInliner(document_resolver({})).inlined(
        {"$id": "https://elsewhere.example/", "$schema": "https://x.example/"}
    )

    assert inlined == {}


def test_a_reference_out_of_the_document_is_refused() -> None:
    with pytest.raises(UnusableSchema):
        SchemaInliner(document_resolver({})).inlined({"properties": {"a": {"$ref": "file:///etc/hostname"}}})


TEXT = {"type": "string"}


def of(argument: Any, **more: Any) -> dict[str, Any]:
    """The schema of an object with the property `a`."""
    return {"type": "object", "properties": {"a": argument}, **more}


_VOCABULARIES = ("applicator", "content", "format-annotation", "meta-data", "unevaluated", "validation")
META_SCHEMAS: list[Any] = [
    REGISTRY.contents(f"https://json-schema.org/draft/2020-12/meta/{name}") for name in _VOCABULARIES
]
NAMES = {"a/b": TEXT, "c~d": TEXT, "e%f": TEXT, "g h": TEXT}
USABLE: dict[str, tuple[dict[str, Any], Any]] = {
    "a definition": (of({"$ref": "#/$defs/t"}, **{"$defs": {"t": TEXT}}), TEXT),
    "an older definition": (of({"$ref": "#/definitions/t"}, definitions={"t": TEXT}), TEXT),
    "a slash": (of({"$ref": "#/$defs/a~1b"}, **{"$defs": NAMES}), TEXT),
    "a tilde": (of({"$ref": "#/$defs/c~0d"}, **{"$defs": NAMES}), TEXT),
    "a percent sign": (of({"$ref": "#/$defs/e%25f"}, **{"$defs": NAMES}), TEXT),
    "a space": (of({"$ref": "#/$defs/g%20h"}, **{"$defs": NAMES}), TEXT),
    "an anchor": (of({"$ref": "#t"}, **{"$defs": {"x": {"$anchor": "t", **TEXT}}}), TEXT),
    "a dynamic anchor": (of({"$dynamicRef": "#t"}, **{"$defs": {"x": {"$dynamicAnchor": "t", **TEXT}}}), TEXT),
    "an id": (of({"$ref": "part"}, **{"$id": "https://x.example/", "$defs": {"x": {"$id": "part", **TEXT}}}), TEXT),
    "a description beside it": (
        of({"$ref": "#/$defs/t", "description": "own"}, **{"$defs": {"t": {**TEXT, "description": "its"}}}),
        {**TEXT, "description": "own"},
    ),
    "a bound beside it": (
        of({"$ref": "#/$defs/t", "maxLength": 3}, **{"$defs": {"t": TEXT}}),
        {"maxLength": 3, "allOf": [TEXT]},
    ),
    "a tree": (
        of({"$ref": "#/$defs/t"}, **{"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}),
        {"type": "array", "items": {}},
    ),
    "the root": (of({"$ref": "#"}), {}),
    "true": (of({"$ref": "#/$defs/t"}, **{"$defs": {"t": True}}), {}),
    "an unused reference to nowhere": (of(TEXT, **{"$defs": {"t": {"$ref": "#/nowhere"}}}), TEXT),
}


@pytest.mark.parametrize("kind", USABLE)
def test_references_become_what_they_stand_for(kind: str) -> None:
    schema, argument = USABLE[kind]
    assert usable_schema(schema) == of(argument)


def test_a_schema_that_is_a_reference_as_a_whole_is_what_it_stands_for() -> None:
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/A"}
    assert usable_schema({**draft_7, "definitions": {"A": of(TEXT)}}) == of(TEXT)


def doubling(levels: int) -> dict[str, Any]:
    pairs = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return of({"$ref": "#/$defs/d0"}, **{"$defs": {**pairs, f"d{levels}": TEXT}})


UNUSABLE: dict[str, tuple[Any, str]] = {
    "nowhere": (of({"$ref": "#/$defs/Nope"}), "the reference '#/$defs/Nope' leads nowhere"),
    "no such anchor": (of({"$dynamicRef": "#nope"}), "the reference '#nope' leads nowhere"),
    "outside": (of({"$ref": "https://schemas.example/a.json"}), "leads out of the document"),
    "a file": (of({"$ref": "file:///etc/hostname"}), "leads out of the document"),
    "no address": (of({"$ref": "http://["}), "leads out of the document"),
    "a text": (of({"$ref": "#/type"}), "neither a mapping nor true or false"),
    "beyond a list": (of({"$ref": "#/required/x"}, required=["a"]), "leads nowhere"),
    "no reference": (of({"$ref": 5}), "'$ref' is no text"),
    "itself": (of({"$ref": "#/properties/a"}), "leads in a circle"),
    "each other": (
        of({"$ref": "#/$defs/x"}, **{"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
        "leads in a circle",
    ),
    "doubled again and again": (doubling(30), "too large, with what its references stand for"),
    "a long text again and again": (
        of({"anyOf": [{"$ref": "#/$defs/t"}] * 1_000}, **{"$defs": {"t": {"description": "w" * 30_000}}}),
        "too large, with what its references stand for",
    ),
    "what LangChain takes for one": ({"type": "object", "properties": {"$ref": TEXT}}, "is called '$ref'"),
    "what is a part of a value": (of({"enum": [{"$ref": "#"}]}), "is called '$ref'"),
    "an id that is no text": (of({"$id": 5}), "a part of it is no JSON Schema"),
    "no mapping": (["object"], "it is no mapping"),
    "an unknown type": (of({"type": "any"}), "'type' is no type of JSON Schema"),
    "required in place": (of({**TEXT, "required": True}), "'required' is no list of names"),
    "properties in a list": ({"type": "object", "properties": []}, "a part of it is no JSON Schema"),
    "a property that is a text": (of("string"), "a part of it is no JSON Schema"),
    "another type as a whole": ({"type": "array"}, "its type is 'array', not 'object'"),
    "several types as a whole": ({"type": ["object", "null"]}, "not 'object'"),
    "a bound that is a text": (of({"type": "integer", "minimum": "0"}), "'minimum' is no number"),
    "a length below zero": (of({**TEXT, "maxLength": -1}), "'maxLength' is no count"),
    "a description in parts": (of({**TEXT, "description": ["a"]}), "'description' is no text"),
    "no alternative": (of({"anyOf": []}), "'anyOf' is no list of schemas"),
    "no type": (of({"type": []}), "'type' is no type of JSON Schema"),
}
KEYWORDS = sorted({key for part in META_SCHEMAS for key in part["properties"] if not key.startswith("$")})
VALUES = [None, True, 0, 3, -1, 1.5, "x", "[", "object", [], ["x"], ["x", "x"], ["object"], [3], [{}], [[]], {}]
VALUES += [{"x": 3}, {"x": {}}, {"[": {}}, {"x": []}, {"x": ["y"]}, {"x": ["y", "y"]}, {"x": None}]


@pytest.mark.parametrize("kind", UNUSABLE)
def test_what_no_model_can_be_given_is_told(kind: str) -> None:
    schema, reason = UNUSABLE[kind]
    with pytest.raises(UnusableSchema, match=reason.replace("$", r"\$")):
        usable_schema(schema)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_whatever_a_keyword_is_given_models_get_a_json_schema(keyword: str) -> None:
    usable = []
    for value in VALUES:
        for schema in (of({keyword: value}), {"type": "object", keyword: value}):
            with contextlib.suppress(UnusableSchema):
                usable.append(usable_schema(schema))
    assert usable
    for made in usable:
        Draft202012Validator.check_schema(made)


def test_older_drafts_become_the_latest_one() -> None:
    older = {"type": "array", "items": [TEXT], "additionalItems": {"minimum": 1, "exclusiveMinimum": True}}
    draft_4 = {"$schema": "http://json-schema.org/draft-04/schema#", **of(older)}
    assert usable_schema(draft_4) == of({"type": "array", "prefixItems": [TEXT], "items": {"exclusiveMinimum": 1}})


def test_a_pattern_of_another_dialect_is_dropped() -> None:
    words = {**TEXT, "pattern": r"^\p{L}+$"}
    assert usable_schema(of(words)) == of(TEXT)
    assert usable_schema(of({**TEXT, "pattern": "^a+$"})) == of({**TEXT, "pattern": "^a+$"})


def test_what_an_object_has_by_itself_is_said() -> None:
    assert usable_schema({}) == {"type": "object", "properties": {}}


def test_the_place_is_that_of_the_reference() -> None:
    with pytest.raises(UnusableSchema) as caught:
        usable_schema(of({"anyOf": [TEXT, {"items": {"$ref": "#/no"}}]}))
    assert caught.value.path == ("properties", "a", "anyOf", 1, "items")


def test_many_ids_and_references_take_no_longer_each() -> None:
    def taken_s(count: int) -> float:
        ids = {f"d{n}": {"$id": f"https://x.example/{n}", "$anchor": "t", **TEXT} for n in range(count)}
        used = [{"$ref": f"https://x.example/{n}#t"} for n in range(count)]
        began = time.thread_time()
        usable_schema(of({"anyOf": used}, **{"$id": "https://x.example/", "$defs": ids}))
        return time.thread_time() - began

    few_s = min(taken_s(40) for _ in range(3))
    assert taken_s(400) < 40 * few_s
