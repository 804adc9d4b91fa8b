"""The content blocks of a result: one that MCP's client can't read keeps no other away."""

from typing import Any

import pytest
from services.mcp_raw import raw_server
from support.mcp_agents import built, call, tool_user

BEFORE, AFTER = {"type": "text", "text": "before"}, {"type": "text", "text": "after"}
LINK = {"type": "resource_link", "name": "Page", "uri": "https://example.org/a"}
UNREADABLE: dict[str, tuple[Any, str]] = {
    "of a later version": (
        {"type": "video", "data": "AAAA", "mimeType": "video/mp4"},
        "[a block of the unknown type 'video', which can't be shown]",
    ),
    "of a very long type": (
        {"type": "v" * 1_000},
        f"[a block of the unknown type '{'v' * 100}', which can't be shown]",
    ),
    "without what its type needs": (
        {"type": "image", "data": "AAAA"},
        "[a block of the type 'image' that is none, which can't be shown]",
    ),
    "a resource that is none": (
        {"type": "resource", "resource": "file:///a"},
        "[a block of the type 'resource' that is none, which can't be shown]",
    ),
    "without a type": ({"text": "typeless"}, "[a block without a type, which can't be shown]"),
    "a text": ("bare", "[a block without a type, which can't be shown]"),
    "null": (None, "[a block without a type, which can't be shown]"),
}


@pytest.mark.parametrize(("block", "note"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("is_error", [False, True])
async def test_a_block_that_cant_be_read_is_named_and_leaves_the_others_readable(
    block: Any, note: str, is_error: bool
) -> None:
    result = {"content": [BEFORE, block, LINK, AFTER], "isError": is_error}
    async with built(tool_user({"raw": raw_server([{"name": "look"}], result=result)})) as agent:
        message = await call(agent, "look")
    assert message.text == f"before\n{note}\nPage: https://example.org/a\nafter"
    assert message.status == ("error" if is_error else "success")
