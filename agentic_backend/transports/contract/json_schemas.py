"""JSON Schemas (draft 2020-12) of the models on the wire, as the published documents have them."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from agentic_backend.protocol.frames import TYPE_BY_DEFAULT, Frame
from agentic_backend.transports.rest.query_string import Query

COMPONENTS = "#/components/schemas/{model}"
"""Where OpenAPI and AsyncAPI documents keep schemas."""


class WireSchema(GenerateJsonSchema):
    """What pydantic doesn't say by itself.

    A key of a frame that may be absent may also be null, and only an ask may leave out its type. A field that is left
    out of an answer where it has no value is never null there, and every other field is there. An answer may get more
    fields: clients ignore those that they don't know. A parameter of a query string is never null. The text below a
    field describes it; it is read here, because pydantic would parse the source of every model at each start.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        if self.mode == "serialization" and field["type"] in ("model-field", "dataclass-field"):
            return "serialization_exclude_if" not in field
        return super().field_is_required(field, total)

    def model_field_schema(self, schema: core_schema.ModelField) -> JsonSchemaValue:
        field = super().model_field_schema(schema)
        if self.mode == "validation":
            return field
        field.pop("default", None)
        return without_null(field) if "serialization_exclude_if" in schema else field

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        model = _described(super().model_schema(schema), schema["cls"])
        if self.mode == "serialization":
            return _open(model)
        if issubclass(schema["cls"], Frame):
            return _changed(_with_type(model), _or_null)
        return _changed(model, without_null) if issubclass(schema["cls"], Query) else model

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        field = super().dataclass_field_schema(schema)
        if self.mode == "serialization":
            field.pop("default", None)
        return field

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        record = _described(super().dataclass_schema(schema), schema["cls"])
        return _open(record) if self.mode == "serialization" else record

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        typed_dict = super().typed_dict_schema(schema)
        return _described(typed_dict, schema["cls"]) if "cls" in schema else typed_dict

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        mapping = super().dict_schema(schema)
        return {**mapping, "additionalProperties": False} if "patternProperties" in mapping else mapping


def schemas_of(
    types: Iterable[tuple[str, JsonSchemaMode, Any]], ref_template: str = COMPONENTS
) -> tuple[dict[str, JsonSchemaValue], dict[str, JsonSchemaValue]]:
    """The schema of each type by its key, and the definitions that they refer to by name.

    `types` has the key, `validation` for what clients send and `serialization` for what the server sends, and the type.
    """
    adapters = [(key, mode, TypeAdapter(each)) for key, mode, each in types]
    schemas, rest = TypeAdapter.json_schemas(adapters, ref_template=ref_template, schema_generator=WireSchema)
    return {key: schema for (key, _), schema in schemas.items()}, rest.get("$defs", {})


def _described(schema: JsonSchemaValue, cls: type[Any]) -> JsonSchemaValue:
    """The schema of a class with the texts below its fields."""
    properties, fields = schema.get("properties", {}), getattr(cls, "model_fields", {})
    for each in cls.__mro__:
        for name, text in _texts(each.__module__).get(each.__qualname__, {}).items():
            alias = fields[name].alias if name in fields else None
            if (shown := properties.get(name, properties.get(alias))) is not None:
                shown.setdefault("description", text)
    return schema


@cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """The texts below the fields of the classes of a module of the product, by class and field."""
    if not module.startswith("agentic_backend."):
        return {}
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        # Installed without sources.
        return {}
    return {each.name: dict(_texts_below(each)) for each in ast.parse(source).body if isinstance(each, ast.ClassDef)}


def _texts_below(declared: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(declared.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def _open(model: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of an answer that may get more fields."""
    return {name: value for name, value in model.items() if (name, value) != ("additionalProperties", False)}


def _with_type(frame: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a frame that needs its fixed type, unless it is the one that a frame without type is."""
    of_type = frame["properties"].get("type", {})
    if "const" not in of_type or of_type.get("default", TYPE_BY_DEFAULT) == TYPE_BY_DEFAULT:
        return frame
    properties = {**frame["properties"], "type": {"const": of_type["const"], "type": "string"}}
    return {**frame, "properties": properties, "required": ["type", *frame.get("required", ())]}


def _changed(model: JsonSchemaValue, change: Callable[[JsonSchemaValue], JsonSchemaValue]) -> JsonSchemaValue:
    """The schema of a model with its optional properties changed."""
    required = model.get("required", ())
    properties = {
        name: field if name in required else change(field) for name, field in model.get("properties", {}).items()
    }
    return {**model, "properties": properties}


def without_null(field: JsonSchemaValue) -> JsonSchemaValue:
    """The schema without the null that stands for an absent value."""
    rest = {name: value for name, value in field.items() if name != "anyOf" and (name, value) != ("default", None)}
    branches = [branch for branch in field.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        return {**branches[0], **rest}
    return {**rest, "anyOf": branches} if branches else rest


def _or_null(field: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a value or null, which stands for an absent one."""
    own = without_null(field)
    outer: JsonSchemaValue = {
        name: own.pop(name) for name in ("description", "deprecated", "default", "examples") if name in own
    }
    if not own:
        return outer
    branches = own["anyOf"] if own.keys() == {"anyOf"} else [own]
    return {**outer, "anyOf": [*branches, {"type": "null"}]}
