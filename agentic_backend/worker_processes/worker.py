"""Worker: what an application declares of a process of its own. Pure."""

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from math import isfinite
from typing import Any

from agentic_backend.worker_processes.frames import NotData, packed

LONGEST_CALL_S = 600
"""The most seconds that a call may take."""

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LEAST_MB, _MOST_MB = 128, 1024 * 1024
_LONGEST_START_S, _LONGEST_IDLE_S, _MOST_VARIABLES = 600, 86_400, 20


@dataclass(frozen=True)
class Worker:
    """A process of its own for code that needs a processor for long, started when it is first called.

    There it makes a value of a class, and each call is a method of that value, one after the other: so a model is
    loaded once. Each process of a server has its own worker. The class is not imported by the server.
    """

    name: str
    """Lower-case letters, digits and `-`."""
    class_path: str
    """`module:name` of the class."""
    _: KW_ONLY
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What the class is made with, by name: data, as the arguments of calls."""
    memory_mb: int = 1024
    """The most memory, as address space in MiB; what needs more fails there."""
    start_s: float = 60
    """How long the import and the making of the value may take, in seconds, at most 600."""
    idle_s: float = 300
    """After how many seconds without a call it ends."""
    environment: tuple[str, ...] = ()
    """The variables of the server's environment that it gets; it has no others."""


def rules_of(worker: Worker) -> Mapping[str, bool]:
    """Each rule in words, and whether the worker keeps it; but for its name, of which others know more."""
    return {
        "class_path has to be like 'module:Name'": type(worker.class_path) is str
        and _CLASS_PATH.fullmatch(worker.class_path) is not None,
        "the arguments have to be a dict of data by name": _are_arguments(worker.arguments),
        f"memory_mb has to be from {_LEAST_MB} to {_MOST_MB}": type(worker.memory_mb) is int
        and _LEAST_MB <= worker.memory_mb <= _MOST_MB,
        f"start_s has to be more than 0 and at most {_LONGEST_START_S}": is_time(worker.start_s, _LONGEST_START_S),
        f"idle_s has to be more than 0 and at most {_LONGEST_IDLE_S}": is_time(worker.idle_s, _LONGEST_IDLE_S),
        f"the environment has to be a tuple of at most {_MOST_VARIABLES} names of variables": type(worker.environment)
        is tuple
        and len(worker.environment) <= _MOST_VARIABLES
        and all(type(each) is str and _VARIABLE.fullmatch(each) is not None for each in worker.environment),
    }


def is_time(value: object, longest_s: float) -> bool:
    """Whether it is a number of seconds, up to so many."""
    return (type(value) is int or type(value) is float) and isfinite(value) and 0 < value <= longest_s


def _are_arguments(arguments: object) -> bool:
    if type(arguments) is not dict or not all(type(name) is str and name.isidentifier() for name in arguments):
        return False
    try:
        packed(arguments)
    except NotData:
        return False
    return True
