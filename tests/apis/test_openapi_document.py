"""Documents and operations that are odd, or meant to hurt: each is refused, and none ends or stops the server."""

from typing import Any

import pytest

from agentic_backend.apis.api_tool import _mistakes
from agentic_backend.apis.openapi_document import DocumentError, OpenApi, parsed
from agentic_backend.apis.operation import NotUsable, operation_of

HEAD = "openapi: 3.0.0\npaths: {}\n"


def merging(levels: int) -> str:
    """A mapping of 9 ** levels pairs, for who does not count."""
    lines = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join([HEAD, "a0: &a0 {x: 1}", *lines])


@pytest.mark.parametrize(
    "text",
    [
        "openapi: 3.0.0\npaths: " + "[" * 100_000,
        "openapi: 3.0.0\npaths:\n  " + "- " * 100_000,
        '{"openapi": "3.0.0", "paths": ' + "[" * 100_000,
        merging(60),
        HEAD + "x: !!int ''",
        HEAD + "x: !!bool foo",
        HEAD + "x: !!timestamp foo",
        HEAD + "x: !!python/name:os.system",
        HEAD + "x: *nowhere",
    ],
    ids=["brackets", "dashes", "JSON", "merged", "int", "bool", "timestamp", "tag", "alias"],
)
def test_a_document_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="is neither JSON nor YAML"):
        parsed(text.encode())


def test_aliases_merges_and_levels_of_an_honest_document_are_read() -> None:
    assert parsed(merging(4).encode()).values["a3"] == {"x": 1}
    assert parsed((HEAD + "x: " + "[" * 400 + "]" * 400).encode()).operations == []


def operation(path: str = "/notes", **values: Any) -> Any:
    document = OpenApi({"openapi": "3.0.0", "paths": {path: {"post": values}}})
    return operation_of(document.operations[0], document)


def test_what_cannot_be_sent_is_not_usable() -> None:
    header = {"name": "X-\u00dc", "in": "header", "schema": {"type": "string"}}
    with pytest.raises(NotUsable, match="no header can be called"):
        operation(parameters=[header])
    with pytest.raises(NotUsable, match="its body is not JSON"):
        operation(requestBody={"required": True, "content": {"application/json; x=\u00e9": {}}})
    with pytest.raises(NotUsable, match="its path has a query"):
        operation("/search?kind=fixed")
    assert operation(parameters=[{**header, "name": "X-Tenant"}]).schema["properties"].keys() == {"X-Tenant"}


def test_a_number_too_large_to_be_checked_is_a_mistake() -> None:
    schema = {"properties": {"n": {"multipleOf": 0.1}}}
    assert _mistakes(schema, {"n": 10**400}) == ["a number is too large to be checked"]
