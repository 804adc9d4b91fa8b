"""The documents in docs/ are those of this version."""

import pytest
from support.contract import DOCS, declared

from agentic_backend.transports.contract.documents import documents

DOCUMENTS = documents(declared())


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_current(path: str) -> None:
    assert (DOCS / path).read_bytes() == DOCUMENTS[path], "stale: write it anew with `make contract`"
