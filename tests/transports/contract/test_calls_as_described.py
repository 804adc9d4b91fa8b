"""Every REST call does what the OpenAPI document says of it, and never shows what is another user's.

schemathesis calls them all, with what fits the document and what does not; with `TESTS=long` with much more of it.
What it makes, every lane makes as it collects the tests.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import orjson
import pytest
import schemathesis
from hostile.sizes import LONG, sized
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import ignored_auth
from support.contract import declared, example_body, example_path, openapi_document
from support.described_server import DescribedServer, Owned, described_server
from support.in_thread import in_thread

from agentic_backend.transports.calls.admin.admin_gate import is_for_admins
from agentic_backend.transports.calls.users import playground_api
from agentic_backend.transports.rest.operation import Operation

# Collects what `parametrize` makes.
pytest_plugins = ["schemathesis.pytest.plugin"]

OPERATIONS = {operation.id: operation for operation in declared()}
DOCUMENT = openapi_document()
ENDLESS = ("follow_session", "follow_sessions")
FOR_AUTHORS = {
    operation.id for operation in OPERATIONS.values() if operation.handler.__module__ == playground_api.__name__
}


def described(examples: int, mode: str, *, all_bounds: bool) -> Any:
    """The document for schemathesis, which makes so many examples of each call; with `TESTS=long` also those that the
    document shows.

    With `all_bounds` each value of a call is also at each bound of its schema, and beyond it, in turn.
    """
    coverage = {"enabled": all_bounds, **sized({"unexpected-methods": ["TRACE"]}, {})}
    config = {
        "seed": 1,
        "max-stream-events": 5,
        "request-timeout": 30,
        "generation": {
            "mode": mode,
            "max-examples": max(examples, 1),
            "deterministic": True,
            "database": "none",
            # Unknown ones are ignored.
            "allow-extra-parameters": False,
        },
        "phases": {
            "coverage": coverage,
            # To fill up what the document shows takes long, and `test_the_example_of_a_call_is_accepted` sends it.
            "examples": {"enabled": LONG},
            "fuzzing": {"enabled": examples > 0},
        },
        # What is refused by rules beyond a schema is looked at by the test.
        "checks": {"positive_data_acceptance": {"enabled": False}},
        # Their streams have no end; the first begins with `idle` where nothing runs.
        "operations": [{"include-operation-id": name, "max-stream-events": 1} for name in ENDLESS],
    }
    return schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config.from_dict(config))


anything = described(examples=sized(0, 15), mode="all", all_bounds=True)
what_fits = described(examples=sized(2, 4), mode="positive", all_bounds=LONG)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DescribedServer]:
    with in_thread(partial(described_server, tmp_path_factory.mktemp("server"))) as served:
        yield served


def id_in(path: str, owned: Owned) -> str:
    if "/attachments/" in path:
        return owned.attachment_id
    if "/admin/agents/" in path:
        return "assistant"
    if "/agents/" in path:
        return "echo"
    if "/models/" in path:
        return "assistant"
    if "/responses/" in path:
        return f"resp_{owned.exchange_id}"
    return owned.exchange_id if "/exchanges/" in path else owned.session_id


BEYOND_A_SCHEMA = (
    # What the server gives, or its settings say.
    "cursor: ",
    "Last-Event-ID: ",
    "chat_profile: there is no such profile",
    "chatProfile: there is no such profile",
    "attachments: more than the limit",
    "expires_in_days: at most",
    "rank: neither the first rank",
    "rank: only answers take feedback",
    "q: expected at most 200 characters, and no control characters",
    # What a message of MCP answers.
    "id: not that of a request",
    # What is in a file.
    "file: ",
    # Rules between two values.
    "end: expected a time after start",
    "offset: expected beside limit",
    "messages: expected a message of the user as the last one",
    "conversation: a response goes on",
    # What clients of OpenAI's forms may send, and this server can't do.
    "tool_choice: ",
    # In these forms much may be absent, as what is there depends on a type.
    *("messages: the ", "messages.", "input: the ", "input."),
)
"""How the refusals begin of what fits the document."""


def refusal_in(response: Any) -> str:
    answer = orjson.loads(response.content)
    error = answer.get("error", answer)
    return str(error.get("content", error.get("message")) if isinstance(error, dict) else error)


def operation_of(case: Any) -> Operation:
    return OPERATIONS[case.operation.definition.raw["operationId"]]


def fault_of(case: Any) -> tuple[object, ...]:
    """What is wrong with a call: its operation, and the kind of the fault and its place."""
    made = case.meta.phase.data
    return (operation_of(case).id, made.scenario, made.parameter_location, made.parameter, made.description)


refused: set[tuple[object, ...]] = set()
"""The faults of the calls that were refused so far."""

succeeded: set[str] = set()
"""The calls which schemathesis has also made without a token, and with a wrong one, as they had succeeded."""


# Without a parameter of pytest's own all calls would be one test to the lanes.
@pytest.mark.parametrize("user", ["eve"])
@anything.parametrize()
def test_a_call_is_answered_as_described(case: Any, user: str, served: DescribedServer) -> None:
    operation = operation_of(case)
    if operation.method != "GET":
        # Each with a user of its own: some delete all that there is.
        user = f"{user} of {operation.id}"
    roles, fits = ["admin"] if is_for_admins(operation.path) else [], case.meta.generation.mode.is_positive
    fault = None if fits or LONG else fault_of(case)
    if fault in refused:
        # A value has as many wrong types as there are others: one shows that its type is looked at.
        return
    if case.path_parameters and fits:
        case.path_parameters["id"] = id_in(operation.path, served.owned_by(user))
    # Who may call does not depend on the values: a second success would show no more.
    response = case.call_and_validate(
        base_url=served.address,
        headers=served.headers(user, *roles),
        excluded_checks=[ignored_auth] if operation.id in succeeded and not LONG else [],
    )
    if fault is not None:
        refused.add(fault)
    if fits and response.status_code < 300:
        succeeded.add(operation.id)
    if fits and response.status_code == 400:
        assert refusal_in(response).startswith(BEYOND_A_SCHEMA), response.text


def example_of(operation: Operation, owned: Owned) -> dict[str, Any]:
    """The request that the document shows, with ids that are there."""
    shown = DOCUMENT["paths"][operation.path][operation.method.lower()]
    parameters = {
        each["name"]: each["example"] if each.get("explode", True) else ",".join(each["example"])
        for each in shown.get("parameters", ())
        if each["in"] == "query"
    }
    body = example_body(operation)
    if body is not None and "runId" in body:
        body = {**body, "runId": owned.exchange_id}
    if operation.upload is not None:
        content = shown["requestBody"]["content"]["multipart/form-data"]["example"]
        return {"files": {name: ("notes.txt", text) for name, text in content.items()}}
    return {"params": parameters, "json": body}


OF_DATABASE_AGENTS = {operation.id for operation in OPERATIONS.values() if "/admin/agents/{id}" in operation.path} - {
    "get_catalog_agent"
}
# They need an exchange that waits, is interrupted or was asked for by an author, a message that shows an app, a link to
# a session, an agent in the database, or have a stream without end.
NEED_MORE = {
    "call_tool_for_app",
    "tell_for_app",
    "get_steps",
    "rerun_exchange",
    "resume_exchange",
    "resume_mcp_stream",
    "decide_tool_call",
    "read_share",
    "revoke_share",
    *OF_DATABASE_AGENTS,
    "create_agent",
    *ENDLESS,
}


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - NEED_MORE))
def test_the_example_of_a_call_is_accepted(name: str, served: DescribedServer) -> None:
    operation = OPERATIONS[name]
    user = "dora" if operation.method == "GET" else f"{name} as shown"
    owned = served.owned_by(user)
    roles = ["admin"] if is_for_admins(operation.path) or name in FOR_AUTHORS else []
    path = example_path(operation, id_in(operation.path, owned))
    with httpx.Client(base_url=served.address, headers=served.headers(user, *roles), verify=False) as http:
        response = http.request(operation.method, path, **example_of(operation, owned))
    assert response.status_code == operation.success, response.text


def put_ids(case: Any, theirs: Owned) -> None:
    """Name what is another user's wherever the call takes an id."""
    ids = {
        "id": id_in(case.operation.path, theirs),
        "session_id": theirs.session_id,
        "conversationId": theirs.session_id,
        "exchange_id": theirs.exchange_id,
        "runId": theirs.exchange_id,
        "attachments": [theirs.attachment_id],
    }
    if operation_of(case).id in ("start_run", "run_ag_ui_agent"):
        # It is the caller's own name for the new run.
        del ids["runId"]
    for values in (case.path_parameters, case.query, case.body):
        if isinstance(values, dict):
            values.update({name: ids[name] for name in values.keys() & ids.keys()})


# Nobody of the document: it shows how to delete Ada.
@pytest.mark.parametrize(("user", "other"), [("carol", "bob"), *sized([], [("bob", "carol")])])
@what_fits.exclude(operation_id="delete_own_data").parametrize()
def test_no_call_shows_or_changes_what_is_anothers(case: Any, user: str, other: str, served: DescribedServer) -> None:
    operation, theirs = operation_of(case), served.owned_by(other)
    served.owned_by(user)
    put_ids(case, theirs)
    response = case.call(base_url=served.address, headers=served.headers(user))
    assert not [name for name in theirs.names if name in response.text]
    if is_for_admins(operation.path) or operation.id in FOR_AUTHORS:
        assert response.status_code in (403, 400)
    elif operation.path_parameters and operation.id not in ("get_model", "run_ag_ui_agent"):
        # Agents are nobody's own.
        assert response.status_code in (404, 400)
    if operation.method != "GET":
        assert served.seen_by(other) == theirs.seen


def test_the_canaries_are_where_their_owner_looks(served: DescribedServer) -> None:
    owned = served.owned_by("carol")
    session, messages, exchange = served.seen_by("carol")[:3]
    assert session["title"] == owned.canary
    assert owned.canary in str(messages) and owned.canary in str(exchange)


def test_a_wrong_status_is_found(served: DescribedServer) -> None:
    wrong = orjson.loads(orjson.dumps(DOCUMENT))
    responses = wrong["paths"]["/agentic/v1/agents"]["get"]["responses"]
    responses["201"] = responses.pop("200")
    case = schemathesis.openapi.from_dict(wrong)["/agentic/v1/agents"]["GET"].Case()
    with pytest.raises(FailureGroup, match="status"):
        case.call_and_validate(base_url=served.address, headers=served.headers("carol"))
