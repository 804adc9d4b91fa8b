"""Secrets in files, as Docker and Kubernetes mount them: `NAME_FILE` in the environment names the file of `NAME`.

It holds for every setting (`AGENTIC_STORE__URL_FILE`) and for what libraries read under a secret's name
(`OPENAI_API_KEY_FILE`). What a file holds becomes the variable itself, so whatever redacts the environment's secrets
redacts it too.
"""

from collections.abc import MutableMapping
from pathlib import Path

from agentic_backend.config.yaml.located_yaml import ConfigError, ConfigProblem
from agentic_backend.config.yaml.validation_problems import looks_secret

_SUFFIX, _SETTING = "_FILE", "AGENTIC_"
# More would be no secret, but a mistake such as a device.
_MOST_BYTES = 64 * 1024


def read_secret_files(environment: MutableMapping[str, str]) -> None:
    """Set each `NAME` in `environment` whose `NAME_FILE` is there, without the newline at the end of the file.

    `AGENTIC_…_FILE` is removed, because it is no setting. Raises ConfigError with all problems: a file that can't be
    read, and a `NAME` that is set as well.
    """
    problems = []
    for variable in sorted(environment):
        name = variable.removesuffix(_SUFFIX)
        if name == variable or not _is_meant(name):
            continue
        try:
            if name in environment:
                raise ValueError(f"is set together with {name}; set one of them")
            environment[name] = _content(Path(environment[variable]))
        except ValueError as error:
            problems.append(ConfigProblem("environment", None, None, variable, str(error)))
        if name.startswith(_SETTING):
            del environment[variable]
    if problems:
        raise ConfigError(problems)


def _is_meant(name: str) -> bool:
    # A setting may be named `file` itself, as in AGENTIC_MODULES__FILE.
    return not name.endswith("_") if name.startswith(_SETTING) else looks_secret(name)


def _content(path: Path) -> str:
    """The file's text. Raises ValueError with the reason, which quotes nothing of it."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"the file {path} has more than {_MOST_BYTES // 1024} kB")
        return content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise ValueError(f"the file {path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"the file {path} is no UTF-8 text") from error
