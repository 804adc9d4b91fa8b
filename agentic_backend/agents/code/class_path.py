"""Class paths: resolves `module:name` or `module.name` to an object.

Resolving imports the module and so runs its author's code. Error texts may quote the exceptions of that code: they go
to the console and the log, never to a client.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from agentic_backend.config.yaml.validation_problems import near_miss
from agentic_backend.disclosure.exception_detail import PlacedError, place_of, text_of
from agentic_backend.disclosure.known_secrets import secrets_of
from agentic_backend.disclosure.readable_errors import readable_errors

_LONGEST_REASON = 500


def import_also_from(directory: Path) -> None:
    """Find modules in `directory` too, after all others: they replace no installed package."""
    folder = str(directory.resolve())
    if folder not in sys.path:
        sys.path.append(folder)


class ClassPathError(PlacedError):
    """The target of a class path is missing or can't be served; the text says why."""


@contextmanager
def authors_code(what: str) -> Iterator[None]:
    """Raise as ClassPathError whatever an author's code raises within; the text says that `what` failed, and where."""
    try:
        with readable_errors():
            yield
    except (ClassPathError, KeyboardInterrupt):
        # The latter is a person's Ctrl-C, for all that is known here.
        raise
    # An author's code may raise anything, or exit; other agents must still be served.
    except BaseException as error:
        try:
            told = _failed(what, error)
        except BaseException:
            # What describes it is an author's too.
            told = f"{what} failed"
        raise ClassPathError(told) from error


def resolve(class_path: str) -> object:
    """The object at `class_path`. Raises ClassPathError, which suggests a similar name if there is one."""
    separator = ":" if ":" in class_path else "."
    module_name, _, name = class_path.rpartition(separator)
    module = _import(module_name)
    with authors_code(f"reading {name!r} of {module_name!r}"):
        try:
            found: object = getattr(module, name)
        except AttributeError:
            public = [known for known in dir(module) if not known.startswith("_")]
            raise ClassPathError(f"module {module_name!r} has no {name!r}{near_miss(name, public)}") from None
        return found


def _import(module_name: str) -> ModuleType:
    with authors_code(f"importing {module_name!r}"):
        try:
            return importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if module_name == missing or module_name.startswith(f"{missing}."):
                raise ClassPathError(f"no module named {missing!r}{_near_module(missing)}") from None
            raise


def _near_module(missing: str) -> str:
    """A hint at a similarly named sibling of the missing module; its parent is already imported."""
    parent_name, _, _ = missing.rpartition(".")
    if not parent_name:
        return near_miss(missing, (module.name for module in pkgutil.iter_modules()))
    parent = importlib.import_module(parent_name)
    siblings = pkgutil.iter_modules(getattr(parent, "__path__", []), prefix=f"{parent_name}.")
    return near_miss(missing, (module.name for module in siblings))


def _failed(what: str, error: BaseException) -> str:
    """The reason with the author's own line, which may be in another module than the one that is named."""
    place = place_of(error, full_path=True)
    reason = f"{type(error).__name__}: {text_of(error, secrets_of())}"[:_LONGEST_REASON]
    return f"{what} failed{f' at {place}' if place else ''}: {reason}"
