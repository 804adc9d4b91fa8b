"""The secrets that this process knows by value: those of its environment, of its settings, and of URLs in either.

Whoever logs, stores or shows a text of somebody else's removes these values from it (see redaction). So it does not
matter where a library or a neighbour repeats them.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from agentic_backend.config.yaml.validation_problems import looks_secret

SHORTEST_SECRET = 6
"""A shorter one may occur in any text, and is not redacted."""

# The working directories of a shell, whose names look like those of passwords.
_DIRECTORIES = ("PWD", "OLDPWD")
_LONG_SEGMENT = 16
_SCHEME = re.compile(r"(?i)^(?:bearer|basic|token|apikey)\s+")
# Mappings whose values all count: what a model, an MCP server or a receiver of traces is sent or started with.
_ALL_OF = re.compile(r"(?i)(?:^|_)(?:headers|env|default_query|extra_query)$")
# The base URLs of providers: gateways have keys in their paths.
_BASE_URL = re.compile(r"(?i)base_?url|api_?base|endpoint")


def secrets_of(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The secrets in an environment, longest first: the values of variables with a secret's name, and from URLs the
    user and password, the query's values, path segments that look like a key, and the path of a provider's base URL.
    """
    return _sorted(_of_pairs((name, value) for name, value in environment.items() if name not in _DIRECTORIES))


def secrets_in(settings: Mapping[str, Any]) -> list[str]:
    """The secrets in settings, longest first: as in an environment, also nested, all values of headers, queries and
    of the environments of MCP servers except paths, arguments of programs that a secret's name goes before, and the
    variables that `environment` names.
    """
    return _sorted(_of_mapping(settings))


def _sorted(found: Iterable[str]) -> list[str]:
    values = {value for value in found if len(value) >= SHORTEST_SECRET}
    # Beside escapes, which are read where a text is redacted, a URL's query has its blanks as plus signs.
    values |= {value.replace(" ", "+") for value in values if " " in value}
    return sorted(values, key=len, reverse=True)


def _of_mapping(settings: Mapping[str, Any]) -> Iterator[str]:
    for key, value in settings.items():
        name = str(key)
        match value:
            case str():
                yield from _of_pairs([(name, value)])
                if name == "environment":
                    # `auth.environment` of an MCP server names the variable whose value a header has.
                    yield from _of_header(os.environ.get(value, ""))
            case Mapping() if _ALL_OF.search(name):
                yield from (form for each in value.values() if _may_be_secret(each) for form in _of_header(each))
                yield from _of_mapping(value)
            case Mapping():
                yield from _of_mapping(value)
            case list() | tuple():
                yield from _of_list(value)


def _of_list(values: list[Any] | tuple[Any, ...]) -> Iterator[str]:
    before = ""
    for value in values:
        if isinstance(value, str):
            # `--api-key=…` and `--api-key …` of a program.
            name, equals, given = value.partition("=")
            yield from _of_pairs([(name, given)] if equals else [(before if before[:1] == "-" else "", value)])
            yield from _of_pairs([("", value)])
            before = value
        elif isinstance(value, Mapping):
            yield from _of_mapping(value)


def _may_be_secret(value: object) -> bool:
    return isinstance(value, str) and not value.startswith(("/", "./", "~")) and not value.isdigit()


def _of_header(value: str) -> Iterator[str]:
    """The whole value, and the part after its scheme."""
    yield from (value, _SCHEME.sub("", value))


def _of_pairs(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, value in named:
        if looks_secret(name):
            yield value
        if "://" in value:
            yield from _of_url(value, is_base=bool(_BASE_URL.search(name)))


def _of_url(url: str, *, is_base: bool) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    userinfo = parts.netloc.rpartition("@")[0]
    found = {userinfo, userinfo.partition(":")[2], *(value for _, value in parse_qsl(parts.query))}
    found |= {segment for segment in parts.path.split("/") if _is_like_a_key(segment)}
    if is_base:
        found.add(parts.path.rstrip("/"))
    for value in found:
        yield from (value, unquote(value), quote(value, safe=""))


def _is_like_a_key(segment: str) -> bool:
    return len(segment) >= _LONG_SEGMENT and any(map(str.isdigit, segment)) and any(map(str.isalpha, segment))
