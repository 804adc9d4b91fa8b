"""Class paths: resolves `module:name` or `module.name` to an object.

Resolving imports the module and so runs its author's code. Error texts may quote the exceptions of that code: they go
to the console and the log, never to a client.
"""

import importlib
import pkgutil
import traceback
from types import ModuleType

from agentic_backend.config.validation_problems import near_miss

_LONGEST_REASON = 500


class ClassPathError(Exception):
    """The target of a class path is missing or can't be served; the text says why."""


def resolve(class_path: str) -> object:
    """The object at `class_path`. Raises ClassPathError, which suggests a similar name if there is one."""
    separator = ":" if ":" in class_path else "."
    module_name, _, name = class_path.rpartition(separator)
    module = _import(module_name)
    try:
        found: object = getattr(module, name)
    except AttributeError:
        public = [known for known in dir(module) if not known.startswith("_")]
        raise ClassPathError(f"module {module_name!r} has no {name!r}{near_miss(name, public)}") from None
    return found


def _import(module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ClassPathError(f"no module named {missing!r}{_near_module(missing)}") from None
        raise ClassPathError(_import_failed(module_name, error)) from error
    # An author's module may raise anything, or exit; other agents must still be served.
    except (Exception, SystemExit) as error:
        raise ClassPathError(_import_failed(module_name, error)) from error


def _near_module(missing: str) -> str:
    """A hint at a similarly named sibling of the missing module; its parent is already imported."""
    parent_name, _, _ = missing.rpartition(".")
    if not parent_name:
        return near_miss(missing, (module.name for module in pkgutil.iter_modules()))
    parent = importlib.import_module(parent_name)
    siblings = pkgutil.iter_modules(getattr(parent, "__path__", []), prefix=f"{parent_name}.")
    return near_miss(missing, (module.name for module in siblings))


def _import_failed(module_name: str, error: BaseException) -> str:
    # Frames of the import machinery and of this file don't help the author.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    frames = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
    return f"importing {module_name!r} failed{place}: {reason}"
