"""The table of error codes, as the contract writes it."""

import pytest

from agentic_backend import errors
from agentic_backend.errors import AgenticError

# code: HTTP status, whether a retry may help
CONTRACT = {
    "bad_frame": (400, False),
    "message_too_large": (413, False),
    "unauthenticated": (401, True),
    "token_expired": (401, True),
    "forbidden": (403, False),
    "session_not_found": (404, False),
    "exchange_not_found": (404, False),
    "agent_not_found": (404, False),
    "session_completed": (409, False),
    "session_busy": (409, True),
    "approval_not_found": (409, False),
    "approval_mismatch": (409, False),
    "checkpoint_missing": (409, False),
    "limit_reached": (409, False),
    "rate_limited": (429, True),
    "too_many_runs": (429, True),
    "agent_unavailable": (503, True),
    "model_error": (502, True),
    "model_timeout": (504, True),
    "store_unavailable": (503, True),
    "shutting_down": (503, True),
    "interrupted": (503, True),
    "internal": (500, True),
}
CLASSES = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, AgenticError)]


def test_every_code_of_the_contract_has_its_class_and_none_other_is_there() -> None:
    found = {error.code: (error.http_status, error.retryable) for error in CLASSES}
    assert found == CONTRACT
    assert len(CLASSES) == len(CONTRACT) + 1, "each code has one class, beside the base"


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_words_for_the_client(error: type[AgenticError]) -> None:
    assert error().content == error.default and error.default.endswith(".")
    assert error("other words").content == "other words"


def test_only_a_token_that_is_not_good_and_a_server_that_goes_close_the_socket() -> None:
    closing = {error.code: error.close_code for error in CLASSES if error.close_code is not None}
    assert closing == {"unauthenticated": 4401, "token_expired": 4401, "shutting_down": 1012}
