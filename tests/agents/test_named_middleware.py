"""LangChain's middleware as an entry names it, where the server gives it something better than its default."""

from typing import Any

import pytest
from langchain.agents.middleware import PIIMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from support.cpu_time import takes_at_most

from agentic_backend.agents.catalog.named_middleware import made, wrong_arguments


def redacted(text: str, **args: Any) -> str:
    assert wrong_arguments(PIIMiddleware, args) == []
    middleware = made(PIIMiddleware, args, pytest.fail)
    state: Any = {"messages": [HumanMessage(text), AIMessage("I see.")]}
    changed = middleware.before_model(state, None)  # type: ignore[arg-type]
    return str(((changed or state)["messages"])[0].content)


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("email", "ada@example.org", "I am [REDACTED_EMAIL]."),
        ("credit_card", "4111 1111 1111 1111", "I am [REDACTED_CREDIT_CARD]."),
        ("ip", "192.0.2.17", "I am [REDACTED_IP]."),
        ("mac_address", "00:00:5E:00:53:01", "I am [REDACTED_MAC_ADDRESS]."),
        ("url", "https://example.org/me", "I am [REDACTED_URL]."),
        ("phone", "+1 (202) 555-0123", "I am [REDACTED_PHONE]."),
        ("iban", "DE89 3704 0044 0532 0130 00", "I am [REDACTED_IBAN]."),
    ],
)
def test_personal_data_is_found_by_the_server_s_detectors(type_: str, value: str, text: str) -> None:
    assert redacted(f"I am {value}.", pii_type=type_) == text


def test_a_pattern_of_the_author_s_counts() -> None:
    assert redacted("Order A-17, for ada@example.org", pii_type="order", detector=r"A-\d+") == (
        "Order [REDACTED_ORDER], for ada@example.org"
    )
    assert redacted("I am ada@example.org.", pii_type="email", detector=r"ada") == "I am [REDACTED_EMAIL]@example.org."


@pytest.mark.parametrize("type_", ["email", "url"])
def test_a_long_text_is_searched_once(type_: str) -> None:
    # LangChain's own detector of e-mail addresses takes minutes for it.
    assert takes_at_most(5, lambda: redacted("a." * 250_000, pii_type=type_))
