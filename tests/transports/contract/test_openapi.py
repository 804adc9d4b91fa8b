"""The OpenAPI document: valid, complete, with examples that fit, and true about nulls, pages and errors."""

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from support.contract import declared
from support.rest_client import rest
from support.running_server import RunningServer

from agentic_backend.transports.contract.contract_api import documents

OPERATIONS = declared()
FILLER = re.compile(r'(?<!"type":)"text"(?!:)')
DOCUMENT = orjson.loads(documents(OPERATIONS)["openapi.json"])
DESCRIBED = {each["operationId"]: each for path in DOCUMENT["paths"].values() for each in path.values()}


SCHEMAS = DOCUMENT["components"]["schemas"]


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """What a reference within the document refers to."""
    while "$ref" in value:
        place = DOCUMENT
        for part in value["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        value = place
    return value


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """The description, the schema and the examples of each body, answer and error."""
    bodies = [operation["requestBody"]] if "requestBody" in operation else []
    for each in [*bodies, *map(resolved, operation["responses"].values())]:
        for content in each.get("content", {}).values():
            examples = [content["example"]] if "example" in content else resolved(content["schema"]).get("examples", [])
            yield each["description"], content["schema"], examples


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def test_the_document_is_valid() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []


def test_every_operation_is_described_once() -> None:
    assert sorted(DESCRIBED) == sorted(operation.id for operation in OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("name", DESCRIBED)
def test_an_operation_and_all_of_its_parts_have_a_description_and_an_example_that_fits(name: str) -> None:
    operation = DESCRIBED[name]
    assert operation["description"].endswith(".")
    for parameter in operation.get("parameters", ()):
        assert parameter["description"].endswith("."), parameter["name"]
        validator(parameter["schema"]).validate(parameter["example"])
    for response in map(resolved, operation["responses"].values()):
        assert response["description"]
    for description, schema, examples in contents(operation):
        assert description and examples
        for example in examples:
            validator(schema).validate(example)


def test_no_example_has_a_filler() -> None:
    components = DOCUMENT["components"]["schemas"].values()
    examples = [component["examples"] for component in components if "examples" in component]
    examples += [parameter["example"] for each in DESCRIBED.values() for parameter in each.get("parameters", ())]
    assert not [example for example in examples if FILLER.search(orjson.dumps(example).decode())]


def test_the_examples_of_events_fit_the_schema_of_events() -> None:
    content = DESCRIBED["send_message"]["responses"]["200"]["content"]["text/event-stream"]
    data = content["schema"]["properties"]["data"]["contentSchema"]
    validator(data).validate(orjson.loads(content["example"]["data"]))


def test_no_parameter_is_null() -> None:
    for operation in DESCRIBED.values():
        for parameter in operation.get("parameters", ()):
            assert "null" not in orjson.dumps(parameter["schema"]).decode(), parameter["name"]


def test_a_key_that_may_be_absent_from_a_body_may_be_null() -> None:
    bodies = [each["requestBody"] for each in DESCRIBED.values() if "requestBody" in each]
    for body in [each for each in bodies if "application/json" in each["content"]]:
        schema = resolved(body["content"]["application/json"]["schema"])
        for name in schema.get("properties", {}).keys() - set(schema.get("required", ())):
            validator(schema["properties"][name]).validate(None)
        assert body["required"] != validator(schema).is_valid({}), "an absent body counts as an empty object"


def test_what_is_absent_from_an_answer_is_not_null() -> None:
    session = DOCUMENT["components"]["schemas"]["Session"]
    assert session["properties"]["ended_at"]["type"] == "string"
    assert "ended_at" not in session["required"] and "state" in session["required"]


def test_an_answer_may_get_more_fields_and_a_body_may_not() -> None:
    assert "additionalProperties" not in DOCUMENT["components"]["schemas"]["Session"]
    assert DOCUMENT["components"]["schemas"]["SendMessage"]["additionalProperties"] is False


def test_only_bodies_refuse_unknown_fields() -> None:
    closed = {name for name, each in SCHEMAS.items() if each.get("additionalProperties") is False}
    bodies = {operation.body.__name__ for operation in OPERATIONS if operation.body is not None}
    # What bodies hold.
    assert closed - bodies == {"Decision", "GivenMessage", "HumanDecisions", "PastMessage"}


def test_a_key_that_an_answer_always_has_is_required_also_where_it_may_be_null() -> None:
    record = SCHEMAS["ToolCallRecord"]
    assert set(record["required"]) == record["properties"].keys()
    assert not [name for name, field in record["properties"].items() if "default" in field]


def test_errors_are_told_by_status_with_their_codes() -> None:
    responses = DESCRIBED["send_message"]["responses"]
    assert {"200", "400", "401", "403", "404", "409", "413", "429", "500", "503"} == responses.keys()
    conflict = resolved(responses["409"])
    assert "`session_busy`" in conflict["description"] and "`session_completed`" in conflict["description"]
    assert conflict["content"]["application/json"]["example"]["error"]["code"] in conflict["description"]


def test_only_public_operations_need_no_token() -> None:
    public = {name for name, operation in DESCRIBED.items() if operation.get("security") == []}
    assert public == {operation.id for operation in OPERATIONS if operation.public}
    assert "401" not in DESCRIBED["get_sign_in"]["responses"]


async def test_the_sizes_of_pages_are_those_that_info_tells(server: RunningServer) -> None:
    limits = {
        name: parameter["description"]
        for name, operation in DESCRIBED.items()
        for parameter in operation.get("parameters", ())
        if parameter["name"] == "limit" and "counts as" in parameter["description"]
    }
    async with rest(server, "dev:alice") as http:
        sizes = (await http.get("/info")).json()["page_sizes"]
    assert {
        name: f"At most so many; a number above {size['at_most']} counts as {size['at_most']}."
        for name, size in sizes.items()
    } == limits
