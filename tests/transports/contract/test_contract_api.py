"""The calls for the documents: anybody may ask, so they are made once, and only those that are served are kept."""

import asyncio

import pytest
from support.contract import DOCS, declared
from support.rest_client import rest
from support.running_server import RunningServer

from agentic_backend.transports.contract import contract_api
from agentic_backend.transports.contract.contract_api import ContractApi, served_documents


async def test_documents_are_made_once_however_many_ask_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(operations: list[object]) -> dict[str, bytes]:
        made.append(len(operations))
        return {"openapi.json": b"{}", "asyncapi.json": b"{}"}

    monkeypatch.setattr(contract_api, "served_documents", counted)
    api = ContractApi([])
    await asyncio.gather(*(api.get_openapi() for _ in range(20)), *(api.get_asyncapi() for _ in range(20)))
    assert len(made) == 1


def test_only_the_documents_that_have_calls_are_served() -> None:
    paths = {operation.path for operation in ContractApi([]).operations()}
    assert {f"/{name}" for name in served_documents(declared())} == paths


async def test_what_is_served_is_what_is_in_docs(server: RunningServer) -> None:
    async with rest(server) as http:
        for name in ("openapi.json", "asyncapi.json"):
            answer = await http.get(http.base_url.copy_with(path=f"/{name}"))
            assert answer.content == (DOCS / name).read_bytes()
