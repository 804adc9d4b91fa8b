"""A user's token does not come back from an MCP server that tells all that it is sent."""

import json
from pathlib import Path

import yaml
from hostile.sizes import sized
from services.mcp_echo import echo_server
from support.chat_client import chat, check_exchange
from support.fault_agents import MCP_ENTRY, write_catalog
from support.figures import figure
from support.rest_client import rest
from support.server_process import serving

FORMS = ["plain", "url", "base64", "hex", "split", "structured", "resource", "link", "error", "progress"]


def stored_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


async def test_an_echoed_token_reaches_no_transcript(directory: Path) -> None:
    write_catalog(directory, MCP_ENTRY)
    config, tokens = directory / "settings.yaml", 0
    transports = sized(["streamable_http"], ["streamable_http", "sse"])
    said: list[str] = []
    for transport in transports:
        with echo_server(transport) as echo:
            settings = echo.settings(auth={"mode": "user_token"})
            config.write_text(yaml.safe_dump({"mcp_servers": {"echo": settings}, "log": {"level": "debug"}}))
            async with serving("--config", config, cwd=directory) as server:
                token = "dev:ann-of-the-quokkaberry:4102444800"
                async with chat(server.address, token=token) as client:
                    for form in FORMS:
                        events = await client.ask(f"repeat_token {form} | headers | words 2 0", agent_id="remote")
                        check_exchange(events)
                        assert "redacted" in json.dumps(events)
                        tokens += 2
                    said.append(json.dumps(client.events))
                    async with rest(server, token) as http:
                        session = client.events[-1]["session_id"]
                        said.append((await http.get(f"/sessions/{session}/messages")).text)
                assert await server.stop() == 0
                said += [server.stdout, server.stderr]
    said.append(stored_bytes(directory / "data").decode(errors="replace"))
    figure(f"{tokens} answers with the token in {len(FORMS)} forms: in no event, store or log line")
    for text in said:
        # The user's name is the token's beginning; the rest of it is what nobody may know.
        assert "quokkaberry:4102444800" not in text
        assert "dev:ann-of-the-quokkaberry" not in text
