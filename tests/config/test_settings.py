import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from agentic_backend.config.loading import (
    FLAGS,
    default_catalog,
    default_settings_file,
    documented_settings,
    load_settings,
    modules_file,
)
from agentic_backend.config.settings import Settings, is_loopback
from agentic_backend.config.topics.limits import WITH_USERS, LimitsSettings
from agentic_backend.config.yaml.located_yaml import ConfigError

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AGENTIC_"):
            monkeypatch.delenv(name)


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(content)
    return path


def refusal(path: Path | None, overrides: Mapping[str, object] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, overrides or {})
    return str(caught.value)


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings(None, {})
    assert settings == Settings()
    assert settings.server.port == 8000
    assert settings.models["default"].model == "auto"
    assert settings.openai_model == "gpt-5.4-mini"


def test_flags_win_over_the_environment_over_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "server: {port: 1001, grace_s: 1, host: localhost}\n")
    monkeypatch.setenv("AGENTIC_SERVER__PORT", "1002")
    monkeypatch.setenv("AGENTIC_SERVER__GRACE_S", "2")
    server = load_settings(path, {"server.port": 1003}).server
    assert (server.port, server.grace_s, server.host, server.internal_host) == (1003, 2, "localhost", "127.0.0.1")


def test_the_environment_and_texts_of_flags_are_read_as_the_setting_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_SERVER__ALLOWED_ORIGINS", '["https://a.example", "https://b.example"]')
    monkeypatch.setenv("AGENTIC_SERVER__INTERNAL_PORT", "0")
    monkeypatch.setenv("AGENTIC_AUTH__DEVELOPER__USER", "1234")
    monkeypatch.setenv("AGENTIC_DATA__DIRECTORY", "some/where")
    monkeypatch.setenv("AGENTIC_CATALOG", "null")
    monkeypatch.setenv("AGENTIC_OPENAI_MODEL", "gpt-5")
    monkeypatch.setenv("AGENTIC_MODELS__DEFAULT__OPTIONS__TEMPERATURE", "0.2")
    monkeypatch.setenv("AGENTIC_MODELS__FAST", '{"model": "openai:gpt-5-nano"}')
    settings = load_settings(None, {"server.port": "9000", "data.directory": Path("over"), "catalog": "own.yaml"})
    assert settings.server.allowed_origins == ("https://a.example", "https://b.example")
    assert settings.server.internal_port == 0
    assert settings.auth.developer.user == "1234"
    assert settings.data.directory == Path("over")
    assert settings.catalog == Path("own.yaml")
    assert settings.openai_model == "gpt-5"
    assert settings.models["default"].options == {"temperature": 0.2}
    assert settings.models["fast"].model == "openai:gpt-5-nano"
    assert settings.server.port == 9000


def test_a_null_in_the_environment_takes_a_value_of_the_file_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTIC_CATALOG", "null")
    monkeypatch.setenv("AGENTIC_SERVER__INTERNAL_PORT", "null")
    settings = load_settings(written(tmp_path, "catalog: x.yaml\nserver: {internal_port: 5}\n"), {})
    assert settings.catalog is None
    assert settings.server.internal_port is None


def test_the_default_model_stays_beside_named_ones(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, "models:\n  fast: {model: 'openai:gpt-5-nano'}\n"), {})
    assert {name: model.model for name, model in settings.models.items()} == {
        "default": "auto",
        "fast": "openai:gpt-5-nano",
    }


def test_options_of_models_do_not_show_in_a_repr() -> None:
    settings = Settings.model_validate({"models": {"default": {"options": {"api_key": "s3cret"}}}})
    assert settings.models["default"].options["api_key"] == "s3cret"
    assert "s3cret" not in repr(settings)


KEYCLOAK = "auth: {mode: keycloak, keycloak: {realm_url: https://login.example.org/realms/agentic}}\n"


def limits_of_users(settings: Settings) -> dict[str, int | None]:
    return {name: getattr(settings.limits, name) for name in WITH_USERS}


def test_limits_per_user_are_on_where_there_are_users(tmp_path: Path) -> None:
    assert limits_of_users(load_settings(None, {})) == dict.fromkeys(WITH_USERS)
    assert limits_of_users(load_settings(written(tmp_path, KEYCLOAK), {})) == WITH_USERS
    per_user = {name for name in LimitsSettings.model_fields if name.endswith("_per_user")}
    # That of background work is on without users too.
    assert per_user - {"background_per_user"} < set(WITH_USERS)


@pytest.mark.parametrize("mode", ["", KEYCLOAK])
def test_a_limit_per_user_that_is_set_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    path = written(tmp_path, f"{mode}limits: {{running_per_user: 3, asks_per_minute: null, waiting_per_user: auto}}\n")
    monkeypatch.setenv("AGENTIC_LIMITS__SOCKETS_PER_USER", "7")
    monkeypatch.setenv("AGENTIC_LIMITS__REQUESTS_PER_USER", "auto")
    limits = load_settings(path, {}).limits
    assert (limits.running_per_user, limits.asks_per_minute, limits.sockets_per_user) == (3, None, 7)
    by_itself = [WITH_USERS[name] if mode else None for name in ("waiting_per_user", "requests_per_user")]
    assert [limits.waiting_per_user, limits.requests_per_user] == by_itself


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().server.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("server:\n  port: abc\n", "2:9", "server.port: expected an integer from 0 to 65535, found 'abc'"),
        ("server:\n  prot: 1\n", "2:3", "server.prot: unknown key 'prot'; did you mean 'port'?"),
        ("sevrer: {}\n", "1:1", "sevrer: unknown key 'sevrer'; did you mean 'server'?"),
        ("server: {port: 1}\nserver: {}\n", "2:1", "server: duplicate key 'server', first on line 1"),
        ("server:\n  allowed_origins: [https://a, a/b]\n", "2:32", "server.allowed_origins[1]: expected an origin"),
        ("server:\n  allowed_hosts: ['a:80']\n", "2:19", "server.allowed_hosts[0]: expected a name without port"),
        ("models:\n  fast: {model: gpt}\n", "2:17", "models.fast.model: expected 'auto', 'offline' or a model"),
        ("models:\n  Fast: {}\n", "2:3", "models.Fast: expected a name that matches"),
        ("auth: {mode: none}\n", "1:14", "auth.mode: expected 'developer' or 'keycloak', found 'none'"),
        ("server: {port: 65000}\n", "1:16", "server.port: port + 1000 is no port"),
        ("server: {internal_port: 8000}\n", "1:25", "server.internal_port: the internal listener needs another port"),
        ("limits: {sockets_per_user: many}\n", "1:28", "limits.sockets_per_user: expected an integer"),
        ("limits: {frame_bytes: 2000}\n", "1:23", "limits.frame_bytes: must be at least"),
        ("5: x\n", "1:1", "[5]: this key is not text; put it in quotes"),
        ("models: {on: {}}\n", "1:10", "models[1]: this key is not text; put it in quotes"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_its_line(tmp_path: Path, content: str, line: str, words: str) -> None:
    path = written(tmp_path, content)
    assert refusal(path).startswith(f"{path}:{line}: {words}")


def test_every_problem_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_LOG__LEVLE", "info")
    path = written(tmp_path, "server: {port: abc}\nstore: {timeout_s: 0}\n")
    lines = refusal(path, {"server.hots": "x"}).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "AGENTIC_LOG__LEVLE",
        "server.hots",
        "server.port",
        "store.timeout_s",
    ]


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("AGENTIC_SERVER__PORT", "abc", ": expected an integer from 0 to 65535, found 'abc'"),
        ("AGENTIC_SERVER__PORT", "", ": expected an integer from 0 to 65535, found ''"),
        ("AGENTIC_SERVER__ALLOWED_ORIGINS", "https://a", ": expected a list, found text"),
        ("AGENTIC_SERVER__PROT", "1", ": there is no such setting; did you mean 'AGENTIC_SERVER__PORT'?"),
        ("AGENTIC_SERVER_PORT", "1", ": there is no such setting; did you mean 'AGENTIC_SERVER__PORT'?"),
        ("AGENTIC_server__port", "1", ": there is no such setting; did you mean 'AGENTIC_SERVER__PORT'?"),
        ("AGENTIC_SERVER__PORT__X", "1", ": there is no such setting; did you mean 'AGENTIC_SERVER__PORT'?"),
        (
            "AGENTIC_MODELS__DEFAULT__MODLE",
            "x",
            ": there is no such setting; did you mean 'AGENTIC_MODELS__DEFAULT__MODEL",
        ),
        ("AGENTIC_", "1", ": there is no such setting"),
        ("AGENTIC_SERVER", '{"prot": 1}', " (server.prot): unknown key 'prot'; did you mean 'port'?"),
        ("AGENTIC_SERVER", '{"port": "x"}', " (server.port): expected an integer from 0 to 65535, found 'x'"),
        ("AGENTIC_MODELS__FAST__MODEL", "gpt", ": expected 'auto', 'offline' or a model such as"),
        ("AGENTIC_LIMITS__MESSAGE_BYTES", "4000000", " (limits.frame_bytes): must be at least"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, message: str
) -> None:
    monkeypatch.setenv(variable, text)
    assert refusal(None).startswith(f"environment: {variable}{message}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("server.port", "abc", "--port: expected an integer from 0 to 65535, found 'abc'"),
        ("server.port", 65000, "--port: port + 1000 is no port"),
        ("log.level", "loud", "--log-level: expected 'debug' or"),
        ("relay.keep_ended_bytes", -1, "relay.keep_ended_bytes: expected an integer from 0 to 4294967296, found -1"),
        ("agents.store_items", 100_001, "agents.store_items: expected an integer from 1 to 100000, found 100001"),
        ("server.prot", 1, "server.prot: there is no such setting; did you mean 'server.port'?"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named_with_its_flag(key: str, value: object, message: str) -> None:
    assert refusal(None, {key: value}).startswith(f"command line: {message}")


def test_broken_json_in_the_environment_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_MODELS__DEFAULT__OPTIONS", '{"api_key": "s3cret"')
    text = refusal(None)
    assert text == "environment: AGENTIC_MODELS__DEFAULT__OPTIONS: expected a mapping, found text"


def test_an_error_is_placed_where_the_value_that_counts_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "server:\n  port: 1\n  grace_s: x\n")
    monkeypatch.setenv("AGENTIC_SERVER__PORT", "99999")
    port, grace = refusal(path).splitlines()
    assert port.startswith("environment: AGENTIC_SERVER__PORT: ")
    assert grace.startswith(f"{path}:3:12: server.grace_s: ")


def test_every_flag_sets_a_setting() -> None:
    assert FLAGS.keys() <= {key for key, _ in documented_settings()}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "128.0.0.1"])
def test_developer_authentication_refuses_other_addresses_than_loopback(tmp_path: Path, host: str) -> None:
    text = refusal(None, {"server.host": host})
    assert text.startswith("command line: --host: developer authentication trusts everybody who can reach it")
    assert "auth.developer.allow_remote" in text
    assert "--allow-remote-developer" in text

    path = written(tmp_path, f"server:\n  host: '{host}'\n")
    assert refusal(path).startswith(f"{path}:2:9: server.host: developer authentication")
    assert load_settings(path, {"auth.developer.allow_remote": True}).server.host == host


def test_keycloak_needs_a_realm_and_may_listen_anywhere(tmp_path: Path) -> None:
    path = written(tmp_path, "auth:\n  mode: keycloak\nserver: {host: 0.0.0.0}\n")
    text = refusal(path)
    assert "auth.keycloak.realm_url: auth.mode 'keycloak' needs the URL of a realm" in text
    assert text.startswith(f"{path}:")
    realm = {"auth.keycloak.realm_url": "https://login.example.org/auth/realms/agentic"}
    assert load_settings(path, realm).server.host == "0.0.0.0"


@pytest.mark.parametrize(
    "url", ["login.example.org/realms/a", "https://login.example.org", "https://h/realms/", "https://h/realms/a/", "x"]
)
def test_a_realms_url_ends_with_its_name(url: str) -> None:
    text = refusal(None, {"auth.keycloak.realm_url": url})
    assert text.startswith("command line: auth.keycloak.realm_url: expected a URL such as 'https://login.example.org/")
    assert text.endswith(f"found '{url}'")


@pytest.mark.parametrize("algorithm", ["HS256", "none"])
def test_tokens_are_signed_with_private_keys_only(algorithm: str) -> None:
    assert "auth.keycloak.algorithms" in refusal(None, {"auth.keycloak.algorithms": f'["{algorithm}"]'})


def test_the_secrets_of_clients_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTIC_AUTH__KEYCLOAK__CLIENT_SECRET", "s3cret")
    monkeypatch.setenv("AGENTIC_AUTH__KEYCLOAK__EXCHANGE_CLIENT_SECRET", "s3cret")
    settings = load_settings(None, {})
    assert settings.auth.keycloak.client_secret == "s3cret"
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST"])
def test_developer_authentication_listens_on_loopback(host: str) -> None:
    assert is_loopback(host)
    assert load_settings(None, {"server.host": host}).server.host == host


@pytest.mark.parametrize(
    ("port", "internal_port", "listener"),
    [(8000, None, 9000), (0, None, 0), (8000, 0, None), (0, 0, None), (8000, 7000, 7000)],
)
def test_the_port_of_the_internal_listener(port: int, internal_port: int | None, listener: int | None) -> None:
    server = load_settings(None, {"server.port": port, "server.internal_port": internal_port}).server
    assert server.internal_listener_port == listener


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent.yaml") == f"{tmp_path / 'absent.yaml'}: there is no such file"


def test_the_shipped_file_shows_every_setting_with_its_default() -> None:
    path = REPOSITORY / "config" / "settings.yaml"
    assert load_settings(path, {}) == Settings()

    def has(values: object, keys: list[str]) -> bool:
        return not keys or (isinstance(values, dict) and keys[0] in values and has(values[keys[0]], keys[1:]))

    shown = yaml.safe_load(path.read_text())
    settings = [key.replace("<name>", "default") for key, _ in documented_settings()]
    # There is no MCP server, no API, no embedding model and no budget by default: comments show their settings (see
    # test_settings_mcp).
    settings = [key for key in settings if not key.startswith(("mcp_servers.", "apis.", "embeddings.", "budgets."))]
    assert [key for key in settings if not has(shown, key.split("."))] == []


def test_default_files_are_those_of_the_working_directory_or_the_shipped_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_settings_file() == REPOSITORY / "config" / "settings.yaml"
    assert default_catalog() == REPOSITORY / "agents_catalog.yaml"
    assert modules_file(Settings()) == REPOSITORY / "config" / "modules.yaml"

    Path("config").mkdir()
    Path("config/modules.yaml").touch()
    Path("config/settings.yaml").touch()
    Path("agents_catalog.yaml").touch()
    assert default_settings_file() == Path("config/settings.yaml")
    assert default_catalog() == Path("agents_catalog.yaml")
    assert modules_file(Settings()) == Path("config/modules.yaml")


def test_the_wheel_holds_the_shipped_files() -> None:
    build = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    held = build["targets"]["wheel"]["force-include"]
    for file in (default_settings_file(), default_catalog(), modules_file(Settings())):
        assert file is not None
        assert held[str(file.resolve().relative_to(REPOSITORY))] == f"agentic_backend/defaults/{file.name}"
