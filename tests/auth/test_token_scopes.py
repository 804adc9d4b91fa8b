"""Which claims of a token name the user's groups and scope."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.auth.access_token import at_path, email_in, scopes_in, texts_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("org", "acme"),
        ("school.class", "7b"),
        ("https://example.org/org", "omega"),
        ("school.class.name", None),
        ("missing", None),
    ],
)
def test_a_path_leads_into_the_claims(path: str, found: Any) -> None:
    claims = {"org": "acme", "school": {"class": "7b"}, "https://example.org/org": "omega"}
    assert at_path(claims, path) == found


def test_one_id_is_the_scope_and_several_are_a_choice() -> None:
    claims = {"org": ["acme"], "classes": ["7b", "7c"], "task": [True, 1.5], "assignment": 7}
    paths = {"organisation": "org", "class": "classes", "task": "task", "assignment": "assignment"}
    assert scopes_in(claims, paths) == (
        {"organisation": "acme", "assignment": "7"},
        {"class": frozenset({"7b", "7c"})},
    )


def test_what_is_too_long_does_not_count() -> None:
    assert texts_in(["a", "b" * 129]) == {"a"}
    assert email_in({"email": "a" * 321}) is None


@given(claim=JSON)
def test_any_claim_gives_texts(claim: Any) -> None:
    assert all(isinstance(text, str) and text for text in texts_in(at_path({"a": {"b": claim}}, "a.b")))
    email = email_in({"email": claim})
    assert email is None or email == claim
