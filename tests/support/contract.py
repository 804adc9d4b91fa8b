"""The published documents of the contract.

A program: `python -m support.contract`, in tests/, writes them to docs/.
"""

from functools import cache
from pathlib import Path
from typing import Any, cast

import orjson

from agentic_backend.agents.catalog.catalog_schema import catalog_schema
from agentic_backend.transports.all_operations import all_operations
from agentic_backend.transports.contract.contract_api import documents
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import Operation

DOCS = Path(__file__).parents[2] / "docs"
CATALOG_SCHEMA = DOCS / "agents_catalog.schema.json"


class _NoServices:
    """Stands for the services of a server: operations are described, and never called."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __contains__(self, name: str) -> bool:
        """Of the doors that are open."""
        return True


def declared() -> list[Operation]:
    """The operations of all doors."""
    return all_operations(cast(DoorServices, _NoServices()))


def catalog_schema_document() -> bytes:
    return orjson.dumps(catalog_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


@cache
def openapi_document() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(documents(declared())["openapi.json"])
    return document


def example_path(operation: Operation, id: str) -> str:
    """The path that the OpenAPI document shows for an operation, with this id."""
    described = openapi_document()["paths"][operation.path][operation.method.lower()]
    shown = {each["name"]: each["example"] for each in described.get("parameters", ()) if each["in"] == "path"}
    return operation.path.format(**shown | {"id": id})


def example_body(operation: Operation) -> dict[str, Any] | None:
    """The JSON body that the OpenAPI document shows for an operation; None if it has none."""
    document = openapi_document()
    described = document["paths"][operation.path][operation.method.lower()]
    if "requestBody" not in described or operation.upload is not None:
        return None
    reference: str = described["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    example: dict[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]["examples"][0]
    return example


if __name__ == "__main__":
    for path, document in documents(declared()).items():
        file = DOCS / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(document)
    CATALOG_SCHEMA.write_bytes(catalog_schema_document())
