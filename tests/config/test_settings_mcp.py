"""The settings of MCP servers: what each transport and each way to sign in needs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentic_backend.config.loading import documented_settings, load_settings
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.apis import ApiSettings
from agentic_backend.config.topics.embeddings import EmbeddingSettings
from agentic_backend.config.topics.mcp_servers import McpServerSettings
from agentic_backend.config.yaml.located_yaml import ConfigError

SHIPPED = Path(__file__).parents[2] / "config" / "settings.yaml"


def loaded(tmp_path: Path, server: dict[str, Any], server_id: str = "search") -> McpServerSettings:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"mcp_servers": {server_id: server}}))
    return load_settings(path, {}).mcp_servers[server_id]


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({}, "search.transport: the transport 'streamable_http' needs url"),
        ({"transport": "sse"}, "search.transport: the transport 'sse' needs url"),
        ({"transport": "stdio"}, "search.transport: the transport 'stdio' needs command"),
        ({"transport": "http", "url": "http://x/"}, "search.transport: expected 'stdio' or 'streamable_http' or 'sse'"),
        ({"transport": "stdio", "command": "x", "url": "http://x/"}, "search.url: the transport 'stdio' has no url"),
        ({"url": "http://x/", "command": "x"}, "search.command: the transport 'streamable_http' has no command"),
        ({"url": "http://x/", "env": {"A": "b"}}, "search.env: the transport 'streamable_http' has no env"),
        ({"url": "ftp://x/"}, "search.url: expected a URL such as"),
        ({"url": "http://ann:pw@x/"}, "search.url: expected a URL such as"),
        ({"url": "http://x/", "tool_timeout_s": 0}, "search.tool_timeout_s: expected a number above 0"),
        ({"url": "http://x/", "auth": {"mode": "token"}}, "search.auth.mode: expected 'none' or 'user_token' or"),
        ({"url": "http://x/", "auth": {"mode": "token_exchange"}}, "the mode 'token_exchange' needs audience"),
        ({"url": "http://x/", "auth": {"mode": "header", "header": "A"}}, "the mode 'header' needs environment"),
        ({"url": "http://x/", "auth": {"audience": "a"}}, "search.auth.audience: the mode 'none' has no audience"),
        (
            {"transport": "stdio", "command": "x", "auth": {"mode": "user_token"}},
            "search.auth: the transport 'stdio' has no requests to carry a token",
        ),
        ({"url": "http://x/", "idle_s": 60}, "search.idle_s: the transport 'streamable_http' has no idle_s"),
        ({"transport": "stdio", "command": "x", "idle_s": 0}, "search.idle_s: expected a number above 0"),
        (
            {"url": "http://x/", "auth": {"mode": "user_token"}, "shared": True},
            "search.shared: a session with the auth 'user_token' belongs to one user",
        ),
        (
            {"url": "http://x/", "auth": {"mode": "token_exchange", "audience": "a"}, "shared": True},
            "search.shared: a session with the auth 'token_exchange' belongs to one user",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path, server: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, server)
    assert problem in str(caught.value)


def test_a_key_in_the_environment_of_a_program_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {"transport": "stdio", "command": "x", "env": {"API_KEY": 5077}})
    assert "5077" not in str(caught.value)
    server = McpServerSettings(transport="stdio", command="x", env={"API_KEY": "quokka"})
    assert "quokka" not in repr(server)


@pytest.mark.parametrize("server_id", ["Search", "a b", "", "-x", "x" * 65])
def test_ids_are_names(tmp_path: Path, server_id: str) -> None:
    with pytest.raises(ConfigError, match="expected a name"):
        loaded(tmp_path, {"url": "http://x/"}, server_id)


def test_the_environment_may_set_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_MCP_SERVERS__FILES__TRANSPORT", "stdio")
    monkeypatch.setenv("AGENTIC_MCP_SERVERS__FILES__COMMAND", "files-server")
    monkeypatch.setenv("AGENTIC_MCP_SERVERS__FILES__ARGS", '["--root", "/srv"]')
    monkeypatch.setenv("AGENTIC_MCP_SERVERS__FILES__TOOL_TIMEOUT_S", "5")
    [server] = load_settings(None, {}).mcp_servers.values()
    assert (server.command, server.args, server.tool_timeout_s) == ("files-server", ("--root", "/srv"), 5)


def test_the_example_in_the_shipped_file_shows_every_setting() -> None:
    lines = SHIPPED.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("mcp_servers:"))
    example = [re.sub("^  # ", "", line) for line in lines[start + 1 :] if line.startswith("  # ")]
    shown = yaml.safe_load("\n".join(example[: example.index("  tool_timeout_s: 60") + 1]))
    server = McpServerSettings.model_validate(shown["search"], strict=False)
    assert server == McpServerSettings(url="https://search.example.org/mcp")
    names = {key.split(".")[2] for key, _ in documented_settings() if key.startswith("mcp_servers.")}
    assert set(shown["search"]) == names
    assert set(shown["search"]["auth"]) == {"mode", "audience", "header", "environment"}
    assert Settings().mcp_servers == {}


def test_the_example_of_an_api_in_the_shipped_file_shows_every_setting() -> None:
    lines = SHIPPED.read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("apis:")))
    example = [re.sub("^  # ", "", line) for line in lines[start + 1 : lines.index("agents:")] if line]
    [[name, shown]] = yaml.safe_load("\n".join(example)).items()
    api = ApiSettings.model_validate(shown, strict=False)
    assert api == ApiSettings(document="crm.json", base_url="https://crm.example.org/v1")
    assert (name, set(shown)) == ("crm", {key.split(".")[2] for key, _ in documented_settings() if "apis." in key})
    assert Settings().apis == {}


def test_the_example_of_an_embedding_model_in_the_shipped_file_shows_every_setting() -> None:
    lines = SHIPPED.read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("embeddings:")))
    example = [re.sub("^  # ", "", line) for line in lines[start + 1 : start + 7]]
    [[name, shown]] = yaml.safe_load("\n".join(example)).items()
    embedding = EmbeddingSettings.model_validate(shown)
    assert embedding == EmbeddingSettings(model="openai:text-embedding-3-small", options={"dimensions": 512})
    documented = {key.split(".")[2] for key, _ in documented_settings() if "embeddings." in key}
    assert (name, {*shown, "class_path"}) == ("default", documented)
    assert Settings().embeddings == {}


@pytest.mark.parametrize(
    ("embedding", "problem"),
    [
        ({}, "embeddings.mine.model: one of 'model' and 'class_path' is needed"),
        ({"model": "openai:x", "class_path": "a:B"}, "one of 'model' and 'class_path' is needed"),
        ({"model": "auto"}, "embeddings.mine.model: expected a model such as"),
        ({"class_path": "a"}, "embeddings.mine.class_path: expected a path such as"),
        ({"model": "openai:x", "batch_texts": 0}, "embeddings.mine.batch_texts"),
    ],
)
def test_a_mistake_in_an_embedding_model_is_told(tmp_path: Path, embedding: dict[str, object], problem: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"embeddings": {"mine": embedding}}))
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ({"base_url": "https://x.example"}, "apis.crm.document: the key 'document' is required"),
        ({"document": "crm.json"}, "apis.crm.base_url: the key 'base_url' is required"),
        ({"document": "crm.json", "base_url": "x.example"}, "apis.crm.base_url: expected a URL such as"),
        ({"document": "crm.json", "base_url": "https://x.example/?key=1"}, "so it has neither '?' nor '#'"),
        (
            {"document": "crm.json", "base_url": "https://x.example", "auth": {"mode": "header", "header": "X-Key"}},
            "apis.crm.auth.mode: the mode 'header' needs environment",
        ),
    ],
)
def test_a_mistake_in_an_api_is_told(tmp_path: Path, api: dict[str, object], problem: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump({"apis": {"crm": api}}))
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    assert problem in str(caught.value)
