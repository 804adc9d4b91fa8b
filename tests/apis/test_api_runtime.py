"""Operations of a real HTTP API as tools: what is sent, to whom, and how much of an answer is read."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from support.http_api import DOCUMENT, HttpApi, http_api
from support.recorded_agents import agent_services, context_of

from agentic_backend.agents.agent_flow import AgentFlow
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.permissions import declared
from agentic_backend.apis.api_runtime import ApiRuntime
from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import UserTokens
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.permissions import PERMISSIONS
from agentic_backend.errors import AgentUnavailable
from agentic_backend.mcp import TITLE

ALL = ["*", "* /*"]
KEY = {"auth": {"mode": "header", "header": "X-Key", "environment": "CRM_KEY"}}


@pytest.fixture
async def api() -> AsyncIterator[HttpApi]:
    async with http_api() as found:
        yield found


@asynccontextmanager
async def tools_of(
    settings: dict[str, Any], operations: list[str], tokens: UserTokens | None = None, taken: list[str] | None = None
) -> AsyncIterator[dict[str, BaseTool]]:
    entry = AgentSettings.model_validate({"id": "one", "apis": [{"id": "crm", "operations": operations}]})
    services = agent_services()
    object.__setattr__(services, "apis", {"crm": ApiSettings.model_validate(settings)})
    context = context_of("s1")
    context.tokens = tokens or UserTokens()
    runtime = ApiRuntime(AgentFlow(entry, services, context), entry.apis)
    try:
        yield {tool.name: tool for tool in await runtime.init(taken or [])}
    finally:
        await runtime.aclose()


async def called(tool: BaseTool, **arguments: Any) -> ToolMessage:
    result = await tool.ainvoke({"type": "tool_call", "id": "call-1", "name": tool.name, "args": arguments})
    assert isinstance(result, ToolMessage)
    return result


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "crm.json"
    path.write_text(json.dumps(DOCUMENT))
    return path


@pytest.mark.parametrize(
    ("operations", "names"),
    [
        (["*"], ["getCustomer", "listNotes", "getAnswer", "get_whoami"]),
        (["get*", "addNote"], ["getCustomer", "addNote", "getAnswer", "get_whoami"]),
        (["DELETE /customers/{id}"], ["deleteCustomer"]),
        (["POST *"], ["addNote"]),
        (["* /customers/*"], ["getCustomer", "deleteCustomer"]),
    ],
)
async def test_operations_are_named_and_patterns_only_read(
    api: HttpApi, document: Path, operations: list[str], names: list[str]
) -> None:
    async with tools_of(api.settings(document), operations) as tools:
        assert list(tools) == names


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("getCustomr", "there is no operation 'getCustomr'; did you mean 'getCustomer'"),
        ("GET /customer/{id}", "did you mean 'GET /customers/{id}'"),
        ("del*", "no operation matches 'del*'; operations that change something need their names or a method"),
    ],
)
async def test_an_operation_that_is_not_there_is_told(api: HttpApi, document: Path, wanted: str, reason: str) -> None:
    with pytest.raises(AgentUnavailable) as caught:
        async with tools_of(api.settings(document), [wanted]):
            pass
    assert reason in caught.value.content


@pytest.mark.parametrize("reference", ["#/components/schemas/Nope", "https://elsewhere.example/a.json"])
async def test_an_operation_whose_schema_cant_be_resolved_is_left_out_with_a_line(
    api: HttpApi, tmp_path: Path, caplog: pytest.LogCaptureFixture, reference: str
) -> None:
    bad = {"parameters": [{"name": "a", "in": "query", "schema": {"$ref": reference}}]}
    paths = {"/bad": {"get": {"operationId": "bad", **bad}}, "/good": {"get": {"operationId": "good"}}}
    document = tmp_path / "refs.json"
    document.write_text(json.dumps({"openapi": "3.1.0", "paths": paths}))
    async with tools_of(api.settings(document), ["bad", "good"]) as tools:
        assert list(tools) == ["good"]
    [line] = [vars(record) for record in caplog.records if record.message == "API operation left out"]
    assert (line["api"], line["operation"]) == ("crm", "bad")
    assert "leads" in line["reason"]


async def test_a_document_is_fetched_from_a_url_and_a_name_that_is_taken_gets_a_prefix(api: HttpApi) -> None:
    async with tools_of(api.settings(f"{api.url}/openapi.json"), ["listNotes", "addNote"], taken=["addNote"]) as tools:
        assert list(tools) == ["listNotes", "crm_addNote"]


@pytest.mark.parametrize("guard", ["crm/addNote", "addNote", "add*", "crm_addNote"])
@pytest.mark.parametrize("taken", [[], ["addNote"]])
async def test_a_name_that_is_taken_lowers_no_guard(api: HttpApi, document: Path, guard: str, taken: list[str]) -> None:
    settings = api.settings(document, permissions={guard: ["notes:write:self"]})
    entry = AgentSettings(id="one", require_approval=(guard,))
    async with tools_of(settings, ["addNote", "listNotes"], taken=taken) as tools:
        asked = {name for name, tool in tools.items() if entry.requires_approval_of(name, tool.metadata)}
        needing = {name for name, tool in tools.items() if declared(tool.metadata) == ["notes:write:self"]}
    assert asked == needing == {"crm_addNote" if taken else "addNote"}


async def test_arguments_go_where_the_document_says(api: HttpApi, document: Path) -> None:
    async with tools_of(api.settings(document, permissions={"get*": ["crm:read:all"]}), ALL) as tools:
        tool = tools["getCustomer"]
        assert tool.metadata is not None
        assert (tool.metadata[PERMISSIONS], tool.metadata[TITLE]) == (["crm:read:all"], "Find a customer")
        assert set(tool.args) == {"id", "fields", "X-Tenant", "X-Key"}
        found = await called(tool, id="a b/ü", fields=["name", "a&b"], **{"X-Tenant": "t1"})
        assert json.loads(str(found.content))["path"] == "/v1/customers/a%20b%2F%C3%BC"
        assert api.seen[-1]["query"] == "fields=name&fields=a%26b"
        assert api.seen[-1]["headers"]["x-tenant"] == "t1"
        assert "idempotency-key" not in api.seen[-1]["headers"]
        note = {"text": "Hi", "about": None, "replies": [{"anything": 1}]}
        assert json.loads(str((await called(tools["addNote"], body=note)).content))["body"] == note
        assert len(api.seen[-1]["headers"]["idempotency-key"]) == 32


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("getCustomer", {"id": ".."}, "is part of a path"),
        ("getCustomer", {"id": "a/../../admin"}, "is part of a path"),
        ("getCustomer", {"id": "..\\admin"}, "is part of a path"),
        ("getCustomer", {"id": ""}, "is part of a path"),
        ("getCustomer", {}, "'id' is a required property"),
        ("getCustomer", {"id": "1", "X-Tenant": "a\r\nX-Role: admin"}, "may have only printable ASCII"),
        ("getCustomer", {"id": "1", "Authorization": "Bearer mine"}, "'Authorization' was unexpected"),
        ("addNote", {"body": {"text": "x" * 21}}, "is too long"),
        ("addNote", {"body": {"text": 5}}, "5 is not of type 'string'"),
    ],
)
async def test_arguments_that_do_not_fit_are_not_sent(
    api: HttpApi, document: Path, name: str, arguments: dict[str, Any], reason: str
) -> None:
    async with tools_of(api.settings(document), ALL) as tools:
        result = await called(tools[name], **arguments)
        assert (result.status, api.seen) == ("error", [])
        assert reason in str(result.content)


@pytest.mark.parametrize(
    ("kind", "status", "told"),
    [
        ("huge", "success", "[cut: 995000 more bytes left out]"),
        ("endless", "success", "[cut: all further bytes left out]"),
        ("slow", "error", "The API 'crm' did not answer within 0.5 seconds."),
        ("elsewhere", "error", "answered 307; redirects are not followed."),
        ("missing", "error", 'answered 404: {"detail":"There is no such thing."}'),
        ("image", "success", "[the answer is of type image/png, and was not read]"),
        ("bomb", "success", "[the answer is compressed, which was not asked for, and was not read]"),
        ("nothing", "success", "[status 204, without content]"),
        ("broken", "success", " broken"),
        ("undefined", "success", "an answer"),
        ("punycode", "success", "aaa slow"),
        ("japanese", "success", "東京"),
    ],
)
async def test_an_answer_is_bounded(api: HttpApi, document: Path, kind: str, status: str, told: str) -> None:
    bounds = {"max_response_bytes": 5000, "timeout_s": 0.5 if kind == "slow" else 30}
    async with tools_of(api.settings(document, **bounds), ["getAnswer"]) as tools:
        result = await called(tools["getAnswer"], kind=kind)
    assert result.status == status
    assert str(result.content).endswith(told)
    assert len(str(result.content)) < 5100


async def test_an_api_that_is_not_there_is_told(document: Path, api: HttpApi) -> None:
    settings = {**api.settings(document), "base_url": "http://127.0.0.1:1"}
    async with tools_of(settings, ["listNotes"]) as tools:
        result = await called(tools["listNotes"])
    why = "ConnectError: [Errno 111] Connection refused"
    assert (result.status, result.content) == ("error", f"The API 'crm' can't be reached ({why}).")


async def test_a_header_of_the_environment_is_sent_and_not_shown(
    api: HttpApi, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_KEY", "Secret hunter2hunter2")
    async with tools_of(api.settings(document, **KEY), ALL) as tools:
        assert "X-Key" not in tools["getCustomer"].args
        assert (await called(tools["get_whoami"])).content == "You sent '' and '[redacted]'."
    assert api.seen[-1]["headers"]["x-key"] == "Secret hunter2hunter2"
    monkeypatch.delenv("CRM_KEY")
    with pytest.raises(AgentUnavailable, match="CRM_KEY is not set"):
        async with tools_of(api.settings(document, **KEY), ALL):
            pass


async def test_a_user_token_that_is_refused_is_renewed(api: HttpApi, document: Path) -> None:
    async def refresh(refresh_token: str) -> Tokens:
        return Tokens("dev:ann:new", refresh_token="more")

    tokens = UserTokens(refresh)
    tokens.offer(Tokens("dev:ann:old", refresh_token="again"))
    # It refuses without end, too.
    api.refused = {"Bearer dev:ann:old"}
    async with tools_of(api.settings(document, auth={"mode": "user_token"}), ["get_whoami"], tokens) as tools:
        assert "Bearer [redacted]" in str((await called(tools["get_whoami"])).content)
        assert [call["headers"]["authorization"] for call in api.seen] == ["Bearer dev:ann:old", "Bearer dev:ann:new"]
        api.refused = {"Bearer dev:ann:new"}
        result = await called(tools["get_whoami"])
    assert result.status == "error"
    assert str(result.content).startswith("The API 'crm' refused the user (401).")


async def test_patterns_of_a_document_are_told_to_the_model_and_left_to_the_api(api: HttpApi, tmp_path: Path) -> None:
    slow = "^(a+)+$"
    note = {"type": "object", "properties": {"text": {"type": "string", "pattern": slow}}}
    tags = {"type": "object", "patternProperties": {slow: {"type": "integer"}}, "additionalProperties": False}
    others = {"type": "object", "unevaluatedProperties": False, "patternProperties": {slow: {}}}
    schema = {"type": "object", "properties": {"note": note, "tags": tags, "others": others}}
    changed = {**DOCUMENT, "components": {"schemas": {"Note": schema}}}
    (tmp_path / "crm.json").write_text(json.dumps(changed))
    text = "a" * 40 + "!"
    async with tools_of(api.settings(tmp_path / "crm.json"), ALL) as tools:
        tool = tools["addNote"]
        assert isinstance(tool.args_schema, dict) and slow in json.dumps(tool.args_schema)
        body = {"note": {"text": text}, "tags": {text: "one"}, "others": {text: 1}}
        result = await called(tool, body=body)
        assert json.loads(str(result.content))["body"] == body
        # The rest is checked as before.
        wrong = await called(tool, body={"note": {"text": 5}})
        assert "$.body.note.text: 5 is not of type 'string'" in str(wrong.content)
