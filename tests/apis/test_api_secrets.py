"""What an API was sent as a credential does not come back from it, wherever it puts it and however it writes it."""

import asyncio
import base64
import html
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from apis.test_api_runtime import called, tools_of
from support.http_api import DOCUMENT

from agentic_backend.auth.user import Tokens
from agentic_backend.auth.user_tokens import UserTokens

TOKEN = "dev:ann-of-the/quokkaberry:4102444800"


@asynccontextmanager
async def raw_api(answer: bytes) -> AsyncIterator[str]:
    """The URL of an API that answers every request with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def response(body: str, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n{body}".encode()


async def told(directory: Path, answer: bytes, **settings: Any) -> str:
    document = directory / "crm.json"
    document.write_text(json.dumps(DOCUMENT))
    tokens = UserTokens()
    tokens.offer(Tokens(TOKEN))
    async with raw_api(answer) as url:
        api = {"document": str(document), "base_url": url, "auth": {"mode": "user_token"}, **settings}
        async with tools_of(api, ["listNotes"], tokens=tokens) as tools:
            return str((await called(tools["listNotes"])).content)


def read(text: str) -> str:
    """The text as who reads all escapes reads it."""
    for _ in range(4):
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), unquote(html.unescape(text)))
        text = re.sub(r"\\(.)", r"\1", text)
    return text


ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in TOKEN)
ENTITIES = "".join(f"&#x{ord(sign):X};" for sign in TOKEN)
PERCENT = "".join(f"%{ord(sign):02x}" for sign in TOKEN)
ENCODED = base64.b64encode(f"ann:{TOKEN}??>".encode()).decode()


@pytest.mark.parametrize(
    "answer",
    [
        response("", f"200 {TOKEN}"),
        response("no", f"404 {TOKEN}"),
        response("", f"401 {TOKEN}"),
        response("", f"302 {TOKEN}", Location=f"/{TOKEN}", Set_Cookie=f"a={TOKEN}"),
        response("", kind=TOKEN),
        response("", kind=f"image/{TOKEN}"),
        response("", kind=f"image/png; name={TOKEN}"),
        response("", kind=f"text/plain; charset={TOKEN}"),
        response(f'{{"a": "{ESCAPED}", "{ESCAPED}": 1}}'),
        response(f'{{"a": "x{ESCAPED}y"}}', "500 Failed"),
        response(json.dumps({"a": TOKEN.replace("/", "\\/")}).replace("\\\\/", "\\/")),
        response(
            json.dumps({"a": json.dumps({"b": f"{TOKEN[:9]}é"})}).replace(TOKEN[:9], ESCAPED.replace("\\", "\\\\"))
        ),
        response(f"<p>{ENTITIES}</p>", kind="text/html"),
        response(f"<p>{ENTITIES.replace('&', '&amp;')}</p>", kind="text/html"),
        response(f"next={PERCENT}", kind="application/x-www-form-urlencoded"),
        response(f'"{ESCAPED[:60]}{TOKEN[10:]}', kind="text/plain"),
        response(f'odd " quotes {{"a": "{ESCAPED}"', kind="text/plain"),
        response(f'{{"basic": "{ENCODED}"}}'),
    ],
)
async def test_a_token_does_not_come_back(tmp_path: Path, answer: bytes) -> None:
    said = read(await told(tmp_path, answer))
    assert TOKEN not in said and TOKEN.lower() not in said.lower()
    assert ENCODED[4:-8] not in said


@pytest.mark.parametrize("written", [str, json.dumps], ids=["text", "JSON"])
@pytest.mark.parametrize("end", ["\n", "\r\n  "], ids=["LF", "CRLF"])
async def test_a_token_in_base64_of_several_lines_does_not_come_back(tmp_path: Path, written: Any, end: str) -> None:
    lines = base64.encodebytes(b"x" * 50 + TOKEN.encode() + b"y" * 90).decode().splitlines()
    assert not any(TOKEN.encode() in base64.b64decode(line) for line in lines), "it goes over the end of a line"
    said = await told(tmp_path, response(written(end.join(lines) + end + "and more"), kind="text/plain"))
    whole = re.sub(r"\\[rn]|\s", "", said.partition("and more")[0]).strip('"')
    assert TOKEN.encode() not in base64.b64decode(whole + "==", validate=False)
    assert "and more" in said and lines[0][:60] in said


async def test_a_token_that_the_cut_divides_does_not_come_back(tmp_path: Path) -> None:
    for before in range(940, 1_001, 7):
        said = await told(
            tmp_path, response("x" * before + ESCAPED + "y" * 5_000, kind="text/plain"), max_response_bytes=1_000
        )
        assert "\\u" not in said and "[cut:" in said


@pytest.mark.parametrize(
    "body",
    [
        '{"a": 1, "a": 2.50, "n": NaN, "i": 123456789012345678901234567890, "e": 1E400, "t": "\\u00e9\\n\\/"}',
        '{"deep": ' + "[" * 2_000 + "]" * 2_000 + "}",
        "100 % of a\\b & c &amp; %41 \\ud800",
    ],
)
async def test_what_holds_no_credential_stays_as_it_is(tmp_path: Path, body: str) -> None:
    assert await told(tmp_path, response(body)) == body


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (response("x", kind="image/PNG"), "[the answer is of type image/png, and was not read]"),
        (response("x", kind="image/x.own"), "[the answer is of an unknown type, and was not read]"),
        (response("", "200 Fine"), "[status 200, without content]"),
        (response('{"a": "no"}', "404 Gone"), 'The API \'crm\' answered 404: {"a": "no"}'),
    ],
)
async def test_an_answer_is_told_in_words_of_ours(tmp_path: Path, answer: bytes, said: str) -> None:
    assert await told(tmp_path, answer) == said
