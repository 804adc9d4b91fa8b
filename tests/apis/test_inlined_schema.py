from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from agentic_backend.apis.inlined_schema import BadReference, SchemaInliner


def test_properties_may_have_the_names_of_keywords() -> None:
    named = {name: {"type": "string"} for name in ("example", "xml", "nullable", "discriminator", "$id")}
    schema = {"type": "object", "properties": named, "required": ["example"], "example": {"example": "a"}}

    inlined = SchemaInliner({}).inlined(schema)

    assert inlined == {"type": "object", "properties": named, "required": ["example"]}


def test_no_schema_makes_the_server_read_a_file(tmp_path: Path) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text('{"type": "string"}')
    schema = {"properties": {"a": {"$dynamicRef": elsewhere.as_uri()}}}

    validator = Draft202012Validator(SchemaInliner({}).inlined(schema))

    assert validator.is_valid({"a": 1}), "what the file says is known only to those who read it"


def test_a_base_leads_no_reference_elsewhere() -> None:
    inlined = SchemaInliner({}).inlined({"$id": "https://elsewhere.example/", "$schema": "https://x.example/"})

    assert inlined == {}


def test_a_reference_out_of_the_document_is_refused() -> None:
    with pytest.raises(BadReference):
        SchemaInliner({}).inlined({"properties": {"a": {"$ref": "file:///etc/hostname"}}})
