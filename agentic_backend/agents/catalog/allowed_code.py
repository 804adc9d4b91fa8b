"""AllowedCode: which classes, graphs and functions the agents of the database may name.

A name is compared before anything is imported. What it names must be defined where the name says, or in another place
that is allowed: a module that is allowed lets in nothing that it has only imported.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from types import ModuleType

from agentic_backend.agents.code.class_path import ClassPathError
from agentic_backend.syntax_tree import parsed


class AllowedCode:
    def __init__(self, patterns: Sequence[str]) -> None:
        """`patterns` are those of the setting `agents.database.classes`."""
        self._patterns = patterns

    def allows(self, name: str) -> bool:
        """Whether `module:name`, or `module.name`, may be imported."""
        module, attribute = parts_of(name)
        return any(_matches(pattern, module, attribute) for pattern in self._patterns)

    def require_own(self, name: str, target: object) -> None:
        """Raise ClassPathError if the module has only imported what it gives under `name`. It is imported already."""
        module_name, attribute = parts_of(name)
        module = sys.modules.get(module_name)
        if isinstance(target, type) or inspect.isroutine(target):
            place = getattr(target, "__module__", None)
            is_own = place == module_name or self.allows(f"{place}:{target.__name__}")
        else:
            is_own = module is not None and attribute in _assigned_in(module)
        if module is None or attribute not in vars(module) or not is_own:
            raise ClassPathError(
                f"{attribute!r} comes from another module, which the setting agents.database.classes does not allow"
            )


def parts_of(name: str) -> tuple[str, str]:
    """The module and the name in it, of `module:name` or `module.name`."""
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    return module, attribute


def _matches(pattern: str, module: str, attribute: str) -> bool:
    if ":" not in pattern:
        return fnmatchcase(f"{module}.{attribute}", pattern)
    of_module, _, of_attribute = pattern.partition(":")
    return fnmatchcase(module, of_module) and fnmatchcase(attribute, of_attribute)


def _assigned_in(module: ModuleType) -> set[str]:
    """The names that the module's source assigns at its top level, and does not import."""
    try:
        tree = parsed(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError, ValueError):
        return set()
    nodes = list(_top_level(tree))
    assigned = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return assigned - {alias.asname or alias.name for node in imports for alias in node.names}


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from _top_level(child)
