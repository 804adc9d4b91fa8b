"""Secrets that lie in files: each becomes the variable that it stands for, or the server says why it can't."""

from pathlib import Path

import pytest

from agentic_backend.config.secret_files import read_secret_files
from agentic_backend.config.yaml.located_yaml import ConfigError


def written(directory: Path, content: bytes) -> str:
    path = directory / "secret"
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("name", ["AGENTIC_STORE__URL", "AGENTIC_AUTH__KEYCLOAK__CLIENT_SECRET", "OPENAI_API_KEY"])
@pytest.mark.parametrize(
    ("content", "value"), [(b"s3cret", "s3cret"), (b"s3cret\n", "s3cret"), (b"two\nlines\r\n", "two\nlines"), (b"", "")]
)
def test_a_file_s_text_becomes_the_variable(tmp_path: Path, name: str, content: bytes, value: str) -> None:
    environment = {f"{name}_FILE": written(tmp_path, content)}
    read_secret_files(environment)
    assert environment[name] == value
    assert (f"{name}_FILE" in environment) == (not name.startswith("AGENTIC_"))


def test_what_only_looks_like_one_is_left_alone(tmp_path: Path) -> None:
    environment = {"AGENTIC_MODULES__FILE": "modules.yaml", "SSL_CERT_FILE": "ca.pem", "_FILE": "", "HOME": "/"}
    before = dict(environment)
    read_secret_files(environment)
    assert environment == before


def test_all_that_is_wrong_is_said_at_once_and_no_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 65_537)
    (tmp_path / "image").write_bytes(b"\xff\xfes3cret")
    environment = {
        "A_TOKEN": "shown-nowhere",
        "A_TOKEN_FILE": written(tmp_path, b"s3cret"),
        "B_TOKEN_FILE": str(tmp_path / "none"),
        "C_TOKEN_FILE": str(tmp_path / "large"),
        "D_TOKEN_FILE": str(tmp_path / "image"),
        "E_TOKEN_FILE": str(tmp_path),
    }
    with pytest.raises(ConfigError) as caught:
        read_secret_files(environment)
    assert str(caught.value).splitlines() == [
        "environment: A_TOKEN_FILE: is set together with A_TOKEN; set one of them",
        f"environment: B_TOKEN_FILE: the file {tmp_path}/none can't be read: No such file or directory",
        f"environment: C_TOKEN_FILE: the file {tmp_path}/large has more than 64 kB",
        f"environment: D_TOKEN_FILE: the file {tmp_path}/image is no UTF-8 text",
        f"environment: E_TOKEN_FILE: the file {tmp_path} can't be read: Is a directory",
    ]
