"""The commands in a block of shell, as lists of words, and what the product's commands, settings and `make` take."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache

from agentic_backend.cli import _options, _parser
from agentic_backend.command_line.application_command import parser_of
from agentic_backend.config.loading import documented_settings, environment_variable
from agentic_backend.config.topics.applications import ApplicationEntry
from agentic_backend.hosting.loading import load_applications
from support.collections_of_documents import PATH
from support.documents import CHECKOUT

_BETWEEN = {"|", "||", "&&", ";", "&", "(", ")"}
_REDIRECTION = re.compile(r"[<>]+")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*", re.DOTALL)


def commands(script: str) -> Iterator[list[str]]:
    """Each simple command: its program with its arguments, without redirections and what it sets for itself alone."""
    # A line that ends with a backslash goes on.
    for line in re.sub(r"\\\n\s*", " ", script).splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        words.commenters = "#"
        command: list[str] = []
        for word in [*words, ";"]:
            if word not in _BETWEEN:
                command.append(word)
                continue
            if simple := list(_without_redirections(command)):
                while simple and _ASSIGNMENT.fullmatch(simple[0]):
                    del simple[0]
                if simple:
                    yield simple
            command = []


def _without_redirections(words: Sequence[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if _REDIRECTION.fullmatch(word):
            next(rest)
        else:
            yield word


@cache
def subcommands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of `agentic-backend`, by name of the command, also of those of the shipped application."""
    [choices] = _choices(_parser()[0])
    [loaded] = load_applications([ApplicationEntry(class_path=PATH)]).loaded
    return {**choices, **{each.name: parser_of(each, "developer") for each in loaded.commands}}


def _choices(parser: argparse.ArgumentParser) -> list[dict[str, argparse.ArgumentParser]]:
    return [action.choices for action in parser._actions if isinstance(action.choices, dict)]


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    """The flags of a command, and of all commands within it."""
    own = {flag for action in parser._actions for flag in action.option_strings}
    return own.union(*(_flags(inner) for choices in _choices(parser) for inner in choices.values()))


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of `agentic-backend` as it reads them. Ends the process (SystemExit) where it would refuse them."""
    options = _options(arguments)
    return options if options.command is not None else subcommands()[options.word].parse_args(options.arguments)


def unknown_flags(command: str) -> list[str]:
    """The flags in a mention such as `agentic-backend chat [AGENT] --url URL` that the named command does not have."""
    _, name, *rest = command.split()
    flags = _flags(_parser()[0] if name.startswith("-") else subcommands()[name])
    return [flag for flag in re.findall(r"(?<!\S)--?[a-z][a-z-]*", " ".join([name, *rest])) if flag not in flags]


def is_setting(variable: str) -> bool:
    """Whether a variable of the environment sets something, or names the file of a secret."""
    keys = (environment_variable(key) for key, _ in documented_settings())
    patterns = (re.escape(name).replace("<NAME>", r"[A-Z0-9_-]+") for name in keys)
    return any(re.fullmatch(f"{pattern}(?:_FILE)?", variable) for pattern in patterns)


@cache
def make_targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
