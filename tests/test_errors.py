"""The table of error codes, as the contract writes it."""

import pytest

from agentic_backend import errors
from agentic_backend.errors import AgenticError

# code: HTTP status, whose it is, whether a retry may help (where a new token is needed first, too)
CONTRACT = {
    "bad_frame": (400, "client", False),
    "message_too_large": (413, "client", False),
    "unauthenticated": (401, "client", True),
    "token_expired": (401, "client", True),
    "forbidden": (403, "client", False),
    "session_not_found": (404, "client", False),
    "exchange_not_found": (404, "client", False),
    "agent_not_found": (404, "client", False),
    "agent_conflict": (409, "client", False),
    "agent_invalid": (422, "client", False),
    "session_completed": (409, "client", False),
    "assignment_not_open": (403, "client", False),
    "assignment_closed": (403, "client", False),
    "session_busy": (409, "client", True),
    "attachment_not_found": (404, "client", False),
    "attachment_sent": (409, "client", False),
    "document_unreadable": (422, "client", False),
    "not_found": (404, "client", False),
    "method_not_allowed": (405, "client", False),
    "limit_reached": (409, "client", False),
    "budget_exceeded": (429, "client", False),
    "approval_not_found": (409, "client", False),
    "approval_required": (409, "client", False),
    "approval_mismatch": (409, "client", False),
    "ambiguous_interrupt": (500, "internal", False),
    "blocked": (422, "client", False),
    "checkpoint_missing": (409, "client", False),
    "state_refused": (500, "internal", False),
    "rate_limited": (429, "client", True),
    "too_many_runs": (429, "client", True),
    "overloaded": (503, "internal", True),
    "application_unavailable": (503, "external", True),
    "record_conflict": (409, "client", False),
    "agent_unavailable": (503, "external", True),
    "model_error": (502, "external", True),
    "model_timeout": (504, "external", True),
    "model_refused_key": (502, "external", False),
    "model_not_found": (502, "external", False),
    "model_quota": (502, "external", False),
    "context_too_long": (422, "client", False),
    "content_filtered": (422, "client", False),
    "answer_invalid": (422, "external", False),
    "auth_unavailable": (503, "external", True),
    "store_unavailable": (503, "external", True),
    "shutting_down": (503, "internal", True),
    "interrupted": (503, "internal", True),
    "internal": (500, "internal", True),
}
CLASSES = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, AgenticError)]


def test_every_code_of_the_contract_has_its_class_and_none_other_is_there() -> None:
    found = {error.code: (error.http_status, error.whose, error.retryable) for error in CLASSES}
    assert found == CONTRACT
    assert len(CLASSES) == len(CONTRACT) + 1, "each code has one class, beside the base"


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_words_for_the_client(error: type[AgenticError]) -> None:
    assert error().content == error.default and error.default.endswith(".")
    assert error("other words").content == "other words"
