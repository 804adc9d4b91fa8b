"""Class paths: `module:name` or `module.name`, resolved to the object that stands there.

Resolving imports the module and so runs its author's code. The texts of the errors may quote that code's exceptions:
they are for the console and the log, never for a client.
"""

import importlib
import pkgutil
import traceback
from types import ModuleType

from agentic_backend.validation_problems import near_miss

_LONGEST_REASON = 500


class ClassPathError(Exception):
    """A class path that leads to nothing that can be served; the text says why."""


def resolve(class_path: str) -> object:
    """What stands at `class_path`. Raises ClassPathError, with a near miss where there is one."""
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
    # An author's module may raise anything, and must not keep other agents from serving; scripts even exit.
    except (Exception, SystemExit) as error:
        raise ClassPathError(_import_failed(module_name, error)) from error


def _near_module(missing: str) -> str:
    """A near miss among the modules that stand beside the missing one; its parent is imported already."""
    parent_name, _, _ = missing.rpartition(".")
    if not parent_name:
        return near_miss(missing, (module.name for module in pkgutil.iter_modules()))
    parent = importlib.import_module(parent_name)
    siblings = pkgutil.iter_modules(getattr(parent, "__path__", []), prefix=f"{parent_name}.")
    return near_miss(missing, (module.name for module in siblings))


def _import_failed(module_name: str, error: BaseException) -> str:
    # The frames of the import machinery and of this file say nothing about the author's.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    frames = [frame for frame in frames if frame.filename not in (__file__, importlib.__file__)]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
    return f"importing {module_name!r} failed{place}: {reason}"
