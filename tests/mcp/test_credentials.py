"""What a server was sent as a credential does not come back from it, in whatever it says."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from services.mcp_echo import EchoServer, echo_over_stdio
from support.mcp_agents import ToolUser, built, call, told, tool_user

from agentic_backend.auth.user import Tokens
from agentic_backend.disclosure.redaction import REDACTED
from agentic_backend.mcp.credentials import Credentials, of_environment, of_header, of_url
from agentic_backend.mcp.framing import Capped
from agentic_backend.mcp.inbound import Inbound

TOKEN = "dev:ann-of-the-quokkaberry:4102444800"
FORMS = ["plain", "url", "base64", "hex", "split", "structured", "resource", "link", "error"]


def is_told(secret: str, *texts: str) -> bool:
    """Whether the secret can be read in the texts."""
    raw = secret.encode()
    forms = [secret, quote(secret, safe=""), raw.hex()]
    # What stands beside it decides on the first and the last characters of it.
    forms += [base64.b64encode(b"x" * shift + raw).decode()[4:-4] for shift in range(3)]
    joined = "".join(texts)
    return any(form in text for form in forms for text in (joined, joined.replace("\n", "")))


async def everything_of(agent: ToolUser, form: str) -> str:
    result = await call(agent, "repeat_token", value=form)
    return json.dumps([result.text, result.content, result.artifact])


@pytest.mark.parametrize("form", FORMS)
async def test_a_token_is_replaced_in_what_a_server_says(echo: EchoServer, form: str) -> None:
    settings = echo.settings(auth={"mode": "user_token"})
    async with built(tool_user({"echo": settings}, token=TOKEN)) as agent:
        said = await everything_of(agent, form)
    assert not is_told(TOKEN, said)
    assert "redacted" in said


async def test_an_exchanged_token_and_those_before_it_are_replaced(echo: EchoServer) -> None:
    settings = echo.settings(auth={"mode": "user_token"})
    async with built(tool_user({"echo": settings}, token=TOKEN)) as agent:
        await told(agent, "whoami")
        agent.runtime_context.tokens.offer(Tokens(f"{TOKEN}:2"))
        assert await told(agent, "echo", text=f"{TOKEN} and {TOKEN}:2") == f"{REDACTED} and {REDACTED}"


async def test_a_header_from_the_environment_is_replaced(
    open_echo: EchoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "Bearer quokkaberry-1")
    auth = {"mode": "header", "header": "Authorization", "environment": "SEARCH_API_KEY"}
    async with built(tool_user({"echo": open_echo.settings(auth=auth)})) as agent:
        for form in FORMS:
            assert not is_told("quokkaberry-1", await everything_of(agent, form)), form
        assert "quokkaberry" not in await told(agent, "headers")


async def test_a_secret_in_the_environment_of_a_program_is_replaced_and_its_other_variables_are_not() -> None:
    settings = echo_over_stdio(env={"SECRET": "quokka/berry+1 é", "ROOT": "/data/files"})
    async with built(tool_user({"echo": settings})) as agent:
        for form in FORMS:
            assert not is_told("quokka/berry+1 é", await everything_of(agent, form)), form
        assert "/data/files" in await told(agent, "headers")


async def test_an_environment_may_hold_what_only_looks_like_a_url() -> None:
    settings = echo_over_stdio(env={"PATTERN": "http://[::1", "SECRET": "quokkaberry"})
    async with built(tool_user({"echo": settings})) as agent:
        assert await told(agent, "echo", text="http://[::1 quokkaberry") == f"http://[::1 {REDACTED}"


def test_a_value_is_found_however_it_is_escaped() -> None:
    credentials = Credentials(['quo"kka\\berry/é'])
    value = json.loads(r'{"a": "quo\u0022kka\\berry\/\u00e9"}')
    assert json.loads(credentials.redacted(value)) == {"a": REDACTED}


def test_a_value_is_found_where_its_middle_is_cut() -> None:
    said = json.loads(Credentials(["quokkaberry-1-plinthgaze"]).redacted({"a": "input_value='quokkab...thgaze'"}))
    assert said == {"a": f"input_value='{REDACTED}'"}


async def test_an_error_is_redacted_before_it_is_cut() -> None:
    inbound = Inbound("raw", Credentials(["quokkaberry"]))
    for at in range(1985, 2001):
        answer = Capped()
        error = {"code": 1, "message": "x" * at + "quokkaberry" * 9}
        answer.add(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode())
        with inbound.awaiting(1):
            said = json.loads(await inbound.read(answer) or b"")["error"]["message"]
        assert said == f"{'x' * at}{REDACTED}{REDACTED}"[:2000]


def test_a_short_value_stands_for_nothing() -> None:
    assert Credentials(["on"]).redacted({"on": "on"}) == b'{"on":"on"}'


def test_numbers_of_any_size_stay() -> None:
    assert json.loads(Credentials(["quokkaberry"]).redacted({"a": 2**80, "b": 0.5})) == {"a": 2**80, "b": 0.5}


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (["quokka", "berry"], [REDACTED, ""]),
        (["a quo", "kka", "berry b"], [f"a {REDACTED}", "", " b"]),
        (["quokkaberry quokka", "berry"], [f"{REDACTED} {REDACTED}", ""]),
        (["one", "two"], ["one", "two"]),
    ],
)
def test_a_value_is_found_in_several_blocks(text: list[str], redacted: list[str]) -> None:
    result: Any = {"result": {"content": [{"type": "text", "text": one} for one in text]}}
    said = json.loads(Credentials(["quokkaberry"]).redacted(result))
    assert [block["text"] for block in said["result"]["content"]] == redacted


def test_only_the_latest_tokens_are_sought() -> None:
    credentials = Credentials()
    for number in range(100):
        credentials.add(f"quokkaberry-{number:03}")
    assert credentials.redacted_text("quokkaberry-000 quokkaberry-099") == f"quokkaberry-000 {REDACTED}"


def test_further_credentials_know_what_is_sent_later() -> None:
    sent = Credentials()
    further = sent.and_also(["abcdefgh"])
    sent.add(TOKEN)
    assert further.redacted_text(f"{TOKEN} abcdefgh") == f"{REDACTED} {REDACTED}"
    assert sent.redacted_text("abcdefgh") == "abcdefgh"


def test_what_is_a_credential_in_settings() -> None:
    assert of_header("Bearer abcdef") == ["Bearer abcdef", "abcdef"]
    found = of_url("https://ann:pass%20word@host/mcp?api_key=abcdef&page=twelve")
    assert set(found) == {"ann:pass word", "ann:pass%20word", "pass word", "pass%20word", "abcdef"}
    environment = {"API_KEY": "abcdef", "LEVEL": "verbose", "DB": "postgres://u:hunter22@db/x"}
    assert {"abcdef", "hunter22"} <= set(of_environment(environment))
    assert "verbose" not in of_environment(environment)


@pytest.mark.parametrize("within", ["content", "structuredContent", "error"])
async def test_a_token_in_escapes_within_a_text_is_replaced(within: str) -> None:
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in TOKEN)
    texts = [json.dumps({"a": escaped}), "".join(f"&#{ord(sign)};" for sign in TOKEN), escaped.replace("\\", "%5c")]
    for text in [*texts, texts[0].replace("\\\\", "\\")]:
        said: dict[str, Any] = {
            "content": {"result": {"content": [{"type": "text", "text": f"before {text} after 1.50"}]}},
            "structuredContent": {"result": {"content": [], "structuredContent": {"before": {text: [text, 1]}}}},
            "error": {"error": {"code": 1, "message": f"before {text}"}},
        }[within]
        inbound, answer = Inbound("echo", Credentials([TOKEN])), Capped()
        answer.add(json.dumps({"jsonrpc": "2.0", "id": 1, **said}).encode())
        with inbound.awaiting(1):
            read = await inbound.read(answer)
        assert read is not None and REDACTED.encode() in read and b"before" in read
        assert b"0064" not in read and b"#100;" not in read
