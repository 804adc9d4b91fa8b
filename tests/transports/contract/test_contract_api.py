"""The documents for machines, as a server gives them to everybody."""

from pathlib import Path

import pytest
from support.contract import DOCS
from support.rest_client import plain_http
from support.running_server import running_server
from support.signing_realm import SigningRealm


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
async def test_the_documents_need_no_token_and_are_those_of_docs(
    realm: SigningRealm, tmp_path: Path, name: str
) -> None:
    auth = {"auth": {"mode": "keycloak", "keycloak": {"realm_url": realm.url}}}
    async with running_server(tmp_path, settings=auth) as server, plain_http() as http:
        answer = await http.get(f"{server.address}/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == (DOCS / name).read_bytes()
