"""The hosts of UI resources: which there are, which of them are allowed, and what becomes of them in a policy."""

import pytest
from pydantic import ValidationError

from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.mcp.apps.app_hosts import allowed_hosts, declared_hosts, frame_policy, host_of

HOSTS = {
    "https://cdn.example.org": "https://cdn.example.org",
    "HTTPS://CDN.Example.org/": "https://cdn.example.org",
    "https://cdn.example.org:443": "https://cdn.example.org",
    "wss://cdn.example.org:8443": "wss://cdn.example.org:8443",
    "https://*.example.org": "https://*.example.org",
    "https://xn--bcher-kva.example": "https://xn--bcher-kva.example",
    "http://localhost:3000": "http://localhost:3000",
    "ws://127.0.0.1:80": "ws://127.0.0.1",
}

ODD = [
    *(
        "",
        "*",
        "https:",
        "https://",
        "https://*",
        "https://*.org",
        "https://a.*.org",
        "https://*cdn.example.org",
        "data:",
    ),
    *(
        "blob:",
        "'unsafe-eval'",
        "'self'",
        "cdn.example.org",
        "http://cdn.example.org",
        "file:///etc",
        "javascript:alert(1)",
    ),
    *(
        "https://cdn.example.org/lib/",
        "https://cdn.example.org?",
        "https://cdn.example.org#a",
        "https://a@cdn.example.org",
    ),
    *(
        "https://cdn.example.org; script-src *",
        "https://cdn.example.org *",
        "https://cdn.example.org,https://b.example",
    ),
    *(
        "https://cdn.example.org\n",
        "https://cdn.example.org\r\nset-cookie: a=b",
        " https://cdn.example.org",
        "https://\u212a.org",
    ),
    *(
        "https://b\u00fccher.example",
        "https://10.0.0.1",
        "https://[::1]",
        "https://0x7f.1",
        "https://localhost.",
        "https://a..org",
    ),
    *(
        "https://cdn.example.org:",
        "https://cdn.example.org:*",
        "https://cdn.example.org:123456",
        "https://-a.example.org",
    ),
    *(
        "https://" + "a" * 64 + ".example.org",
        "https://" + "a.b" * 40 + ".org",
        None,
        7,
        ["https://cdn.example.org"],
        {},
    ),
]


def test_a_host_has_one_form() -> None:
    assert {text: host_of(text) for text in HOSTS} == HOSTS


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:40])
def test_what_is_no_host_is_neither_taken_nor_set(odd: object) -> None:
    assert host_of(odd) is None
    assert declared_hosts({"resourceDomains": [odd], "frameDomains": {"a": odd}})[0] == {}
    if odd:
        with pytest.raises(ValidationError, match="app_hosts"):
            McpServerSettings.model_validate({"url": "https://example.org/mcp", "app_hosts": [odd]})


def test_of_many_hosts_some_are_taken() -> None:
    many = [f"https://h{number}.example.org" for number in range(1_000)]
    found, others = declared_hosts({"connectDomains": many, "baseUriDomains": many[:2] * 2})
    assert found == {"connectDomains": many[:20], "baseUriDomains": many[:2]}
    assert others == 980


ALLOWED = ["https://cdn.example.org", "https://*.wide.example", "wss://cdn.example.org:8443"]
COMMON = {
    "https://cdn.example.org": ["https://cdn.example.org"],
    "https://*.example.org": ["https://cdn.example.org"],
    "https://a.b.wide.example": ["https://a.b.wide.example"],
    "https://*.b.wide.example": ["https://*.b.wide.example"],
    "https://wide.example": [],
    "https://notwide.example": [],
    "https://cdn.example.org:8443": [],
    "wss://cdn.example.org": [],
    "wss://*.example.org:8443": ["wss://cdn.example.org:8443"],
    "https://cdn.example.org.evil.example": [],
    "https://a.wide.example:8443": [],
}


@pytest.mark.parametrize("declared", COMMON)
def test_a_resource_gets_what_is_declared_and_allowed(declared: str) -> None:
    assert allowed_hosts({"connectDomains": [declared]}, ALLOWED).get("connectDomains", []) == COMMON[declared]


def test_each_kind_of_hosts_is_for_its_directives() -> None:
    hosts = {
        "connectDomains": ["https://a.org"],
        "resourceDomains": ["https://b.org"],
        "frameDomains": ["https://c.org"],
        "baseUriDomains": ["https://d.org", "https://e.org"],
    }
    assert frame_policy(hosts) == (
        "default-src 'none'; script-src 'unsafe-inline' https://b.org; style-src 'unsafe-inline' https://b.org; "
        "img-src data: blob: https://b.org; font-src data: https://b.org; media-src data: blob: https://b.org; "
        "base-uri https://d.org https://e.org; form-action 'none'; frame-ancestors 'self'; "
        "sandbox allow-scripts allow-forms; connect-src https://a.org; frame-src https://c.org"
    )
    assert frame_policy() == (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; media-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "
        "sandbox allow-scripts allow-forms"
    )
