"""The documents in docs/ are those of this version."""

import pytest
from support.contract import DOCS, declared

from agentic_backend.transports.contract.contract_api import documents

DOCUMENTS = documents(declared())


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_current(path: str) -> None:
    assert (DOCS / path).read_bytes() == DOCUMENTS[path], "stale: write it anew with `make contract`"


def test_no_schema_is_left_of_a_model_that_is_gone() -> None:
    assert {str(file.relative_to(DOCS)) for file in (DOCS / "schemas").rglob("*.json")} <= DOCUMENTS.keys()
