"""What the exceptions of providers mean, in the shapes of their packages: of few of them a package is installed."""

import asyncio
import errno
import socket
from http import HTTPStatus
from typing import Any

import httpx
import httpx2
import openai
import pytest
from google.genai.errors import ClientError, ServerError
from langchain_core.exceptions import ContextOverflowError

from agentic_backend.agents.models.provider_failures import is_lasting, is_outage, typed_failure
from agentic_backend.errors import ContentFiltered, ModelTimeout, StoreUnavailable

REQUEST, REQUEST2 = httpx.Request("POST", "https://host/v1"), httpx2.Request("POST", "https://host/v1")


class ResponseError(Exception):
    """As of Ollama's package."""

    def __init__(self, error: str, status_code: int) -> None:
        super().__init__(f"{error} (status code: {status_code})")
        self.status_code = status_code


class ResourceExhausted(Exception):
    """As of Google's older packages."""

    code = HTTPStatus.TOO_MANY_REQUESTS


class SDKError(Exception):
    """As of Mistral's package."""

    def __init__(self, status_code: int, body: str) -> None:
        super().__init__(f"API error occurred: Status {status_code}. Body: {body}")
        self.status_code = status_code
        self.body = body


class ContentFilterFinishReasonError(Exception):
    """As of OpenAI's package, where a structured answer is cut by the filter."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def google(code: int, status: str, message: str, **detail: Any) -> ClientError | ServerError:
    body = {"error": {"code": code, "status": status, "message": message, "details": [detail]}}
    return (ServerError if code >= 500 else ClientError)(code, body)


def mistral(status: int, body: str) -> httpx.HTTPStatusError:
    response = httpx.Response(status, text=body, request=REQUEST)
    return httpx.HTTPStatusError(
        f"Error response {status} while fetching {REQUEST.url}: {body}", request=REQUEST, response=response
    )


def wrapped(error: Exception) -> Exception:
    try:
        raise RuntimeError("the package's own error") from error
    except RuntimeError as wrapper:
        return wrapper


def in_stream(body: dict[str, Any]) -> Exception:
    """An error that OpenAI tells within a response that has begun."""
    return openai.APIError(body["message"], REQUEST2, body=body)


AZURE = {"code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}


def limited(message: str) -> Exception:
    """A rate limit of OpenAI's: by the minute or by the day, with one code."""
    response = httpx2.Response(429, request=REQUEST2)
    return openai.RateLimitError(message, response=response, body={"message": message, "code": "rate_limit_exceeded"})


CURRENT_QUOTA = "You exceeded your current quota, please check your plan and billing details."
ALLOWED = "The input token count (2) exceeds the maximum number of tokens allowed (1)."
PER_MINUTE = google(429, "RESOURCE_EXHAUSTED", CURRENT_QUOTA, quotaId="GenerateRequestsPerMinutePerProject")
PER_DAY = google(429, "RESOURCE_EXHAUSTED", CURRENT_QUOTA, quotaId="GenerateRequestsPerDayPerProject")
BAD_KEY = google(400, "INVALID_ARGUMENT", "API key not valid.", reason="API_KEY_INVALID")
INVALID_MODEL = mistral(400, '{"message":"Invalid model: m","type":"invalid_model","code":"1500"}')
TOO_LARGE = mistral(400, '{"message":"Prompt contains 9 tokens, too large for model with 8 maximum context length"}')
OVERLOAD = {"message": "Overloaded", "type": "overloaded_error", "code": None}
NO_QUOTA = {"message": "You exceeded", "code": "insufficient_quota", "type": "x"}

SHAPES: list[tuple[str, Exception, str]] = [
    ("google key", BAD_KEY, "model_refused_key"),
    ("google access", google(403, "PERMISSION_DENIED", "Your project has been denied."), "model_refused_key"),
    ("google model", google(404, "NOT_FOUND", "models/gemini-9 is not found for API version v1"), "model_not_found"),
    ("google rate", PER_MINUTE, "model_error"),
    ("google quota", PER_DAY, "model_quota"),
    ("google length", google(400, "INVALID_ARGUMENT", ALLOWED), "context_too_long"),
    ("google server", google(503, "UNAVAILABLE", "The model is overloaded."), "model_error"),
    ("google wrapped", wrapped(google(404, "NOT_FOUND", "no")), "model_not_found"),
    ("google older", ResourceExhausted("429 Resource has been exhausted"), "model_error"),
    ("mistral key", mistral(401, '{"message":"Unauthorized"}'), "model_refused_key"),
    ("mistral model", INVALID_MODEL, "model_not_found"),
    ("mistral length", TOO_LARGE, "context_too_long"),
    ("mistral rate", mistral(429, '{"message":"Requests rate limit exceeded"}'), "model_error"),
    ("mistral package", SDKError(401, '{"detail":"Invalid API Key"}'), "model_refused_key"),
    ("mistral quota", SDKError(402, "{}"), "model_quota"),
    ("ollama model", ResponseError('model "llama9" not found, try pulling it first', 404), "model_not_found"),
    ("ollama server", ResponseError("llama runner process has terminated", 500), "model_error"),
    ("ollama absent", httpx.ConnectError("All connection attempts failed"), "model_error"),
    ("azure filter", in_stream({"message": "filtered", **AZURE}), "content_filtered"),
    ("filter of a structured answer", ContentFilterFinishReasonError("Could not parse"), "content_filtered"),
    ("quota in a stream", in_stream(NO_QUOTA), "model_quota"),
    ("overload in a stream", in_stream(OVERLOAD), "model_error"),
    ("length as LangChain says it", ContextOverflowError("too long"), "context_too_long"),
    ("length by its status", ResponseError("Request too large", 413), "context_too_long"),
    ("a timeout", openai.APITimeoutError(REQUEST2), "model_timeout"),
    ("asyncio's timeout", TimeoutError(), "model_timeout"),
    ("a gateway's timeout", ResponseError("upstream", 504), "model_timeout"),
    ("an error without text", Unprintable(), "model_error"),
    (
        "requests per day",
        limited("Rate limit reached for m on requests per day (RPD). Try again in 7m."),
        "model_error",
    ),
    ("tokens per day", limited("Rate limit reached on tokens per day, see plan and billing. In 5m."), "model_error"),
    (
        "a rate of Google's words",
        ResponseError("Current quota: 5 requests per min, see plan and billing", 429),
        "model_error",
    ),
    ("a model by its name", ResponseError("The requested model 'gpt-9' is not supported.", 400), "model_not_found"),
    ("a model without quotes", ResponseError("model gpt-9 does not exist", 400), "model_not_found"),
    ("a filter's verdict", ResponseError("The prompt triggered the content filter", 400), "content_filtered"),
    ("a filter in a stream", in_stream({"message": "Output blocked by content filtering policy"}), "content_filtered"),
    (
        "length of a context window",
        ResponseError("Your input exceeds the context window of m", 400),
        "context_too_long",
    ),
    ("tokens per minute", ResponseError("too many tokens per minute in this context window", 429), "model_error"),
]


@pytest.mark.parametrize(("error", "code"), [shape[1:] for shape in SHAPES], ids=[shape[0] for shape in SHAPES])
def test_each_shape_is_typed(error: Exception, code: str) -> None:
    typed = typed_failure(error, "a-model")
    assert typed.code == code
    assert "a-model" in typed.content
    assert is_lasting(error) is (code not in ("model_error", "model_timeout"))
    assert typed_failure(error).content.endswith(".")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "model 'x' with tools: parameter 'parallel_tool_calls' is not supported"),
        (400, "For model 'x', 'temperature' is not supported with this model."),
        (400, "With this model temperature is not supported"),
        (400, "Invalid schema for function 'note': 'context length' is not of type string"),
        (400, "invalid content filter parameter 'blocked_terms'"),
        (422, "invalid content filter parameter, it was blocked"),
        (422, "maximum context is no field"),
        (407, "proxy authentication required"),
    ],
)
def test_a_refused_request_is_no_other_cause_and_is_not_to_be_tried_again(status: int, text: str) -> None:
    error = ResponseError(text, status)
    assert (typed_failure(error).code, typed_failure(error).retryable) == ("model_error", False)
    assert is_lasting(error)


@pytest.mark.parametrize("status", [409, 425, 429, 500, 503])
def test_what_may_pass_is_to_be_tried_again(status: int) -> None:
    assert typed_failure(ResponseError("no", status)).retryable


def test_the_content_has_nothing_of_the_exceptions_text() -> None:
    for _, error, _ in SHAPES:
        content = typed_failure(error, "m").content
        assert not [word for word in ("sk-", "llama9", "gemini-9", "project") if word in content]


async def test_a_cycle_of_causes_comes_to_an_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert (await asyncio.to_thread(typed_failure, first)).code == "model_error"


class Quoting(Exception):
    """As of a client that puts what it is answered, and so what it has sent, where others have codes."""

    def __init__(self) -> None:
        self.code, self.status, self.body = "unauthenticated", "rate_limited", {"error": {"code": "insufficient_quota"}}


class InvalidTimeoutValue(ValueError):
    """Its name has words of outages."""


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


OUTAGES = [
    TimeoutError(),
    ConnectionResetError("reset"),
    socket.gaierror(-2, "unknown host"),
    httpx.ConnectError("refused", request=REQUEST),
    httpx.ReadTimeout("late", request=REQUEST),
    mistral(503, "overloaded"),
    mistral(429, "slow down"),
    mistral(401, "who are you"),
    openai.APIConnectionError(request=REQUEST2),
    google(503, "UNAVAILABLE", "busy"),
    caused(ValueError("no verdict"), ConnectionRefusedError()),
    ExceptionGroup("of a TaskGroup", [ConnectionResetError()]),
    OSError(errno.EHOSTUNREACH, "no route"),
    ModelTimeout(),
    StoreUnavailable(),
]
"""What says nothing of the text that was asked about."""
OF_TEXTS = [
    LookupError("503: rate limit, invalid api key, connection timed out, quota exceeded, monthly"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "timeout"),
    OSError(36, "File name too long"),
    mistral(400, "invalid api key; the model `x` was not found; credit balance"),
    mistral(403, "blocked by the firewall"),
    mistral(404, "no such page"),
    mistral(413, "too long"),
    ContextOverflowError("too long"),
    ContentFiltered(),
    mistral(500, "broken"),
    Quoting(),
    InvalidTimeoutValue(),
    Unprintable(),
]


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_a_neighbour_that_is_away_is_told_by_what_it_raises(error: Exception) -> None:
    assert is_outage(error)


@pytest.mark.parametrize("error", OF_TEXTS, ids=lambda error: type(error).__name__)
def test_what_a_text_causes_is_no_outage_whatever_the_error_quotes(error: Exception) -> None:
    assert not is_outage(error)
