"""The reference pages for authors of agents, made from the catalog's models and from docstrings.

A program: `python -m support.reference`, in tests/, writes them to docs/reference/.
"""

import ast
import inspect
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

from agentic_backend import testing
from agentic_backend.agents.catalog.catalog_schema import catalog_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

_CATALOG = """\
# Keys of the catalog

Every key of an entry of `agents_catalog.yaml`. This page is made from the models that read the catalog
(`make reference`), as is the [JSON Schema](../agents_catalog.schema.json) by which editors complete it. What the keys
do together: [agents.md](../agents.md).
"""

_PYTHON = """\
# Python names for authors

What an agent's or an application's code may import from the product, from its docstrings (`make reference`). Other
names may change without notice. How they are used: [agents.md](../agents.md), [applications.md](../applications.md),
and for tests [testing.md](../testing.md).
"""

_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "agentic_backend.agents.agent_flow": {
        "AgentFlow": (
            "tool_names",
            "Fields",
            "async_init",
            "get_compiled_graph",
            "system_prompt",
            "chat_model",
            "standard_tools",
            "approval_middleware",
            "prompt_middleware",
            "fields",
            "tuned",
            "refresh_user_access_token",
            "aclose",
        )
    },
    "agentic_backend.agents.leader_flow": {"LeaderFlow": ("async_init", "delegation_tools")},
    "agentic_backend.agents.delegation": {"Handoff": ("origin", "target")},
    "agentic_backend.agents.runtime_context": {
        "RuntimeContext": (
            "user_id",
            "session_id",
            "exchange_id",
            "agent_id",
            "client",
            "run_id",
            "scope",
            "thread_id",
            "access_token",
            "idempotency_key",
        ),
        "current_context": (),
    },
    "agentic_backend.agents.parts": {"emit_parts": ()},
    "agentic_backend.agents.background": {"background": ()},
    "agentic_backend.agents.permissions": {"needs": ()},
    "agentic_backend.application": {
        "Application": (
            "id",
            "title",
            "version",
            "Settings",
            "catalog",
            "calls",
            "hooks",
            "chores",
            "start",
            "check",
            "aclose",
        ),
        "Call": ("method", "path", "handler", "status", "errors", "roles", "timeout_s"),
        "Hook": ("point", "work", "agents", "timeout_s", "on_failure", "priority"),
        "Chore": ("work", "every_s", "timeout_s"),
    },
    "agentic_backend.mcp.mcp_runtime": {"MCPRuntime": ("init", "get_tools", "aclose")},
}
"""What the page tells, by module: functions, and classes with those of their members that are for authors."""


def pages() -> dict[str, str]:
    """The text of each page, by its file."""
    return {"catalog.md": catalog_page(), "python.md": python_page()}


def catalog_page() -> str:
    schema = catalog_schema()
    reading = _Reading(schema["$defs"])
    return "\n".join([_CATALOG, *reading.sections("An entry", "AgentSettings")])


@dataclass
class _Reading:
    """Reads the definitions of a schema; each is told once, at the first key that has it."""

    definitions: dict[str, Any]
    headings: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, str]] = field(default_factory=list)

    def sections(self, heading: str, name: str) -> Iterator[str]:
        self.headings[name] = heading
        self.waiting.append((heading, name))
        while self.waiting:
            heading, name = self.waiting.pop(0)
            definition = self.definitions[name]
            parent = "" if name == "AgentSettings" else heading.strip("`") + "."
            yield f"## {heading}\n"
            if "description" in definition:
                yield f"{definition['description']}\n"
            yield "| key | value | default | what |\n|---|---|---|---|"
            required = definition.get("required", ())
            for key, told in definition["properties"].items():
                shown = "required" if key in required else _default(told)
                yield f"| `{key}` | {self.kind(told, parent + key)} | {shown} | {_cell(told.get('description', ''))} |"
            yield ""

    def kind(self, schema: dict[str, Any], path: str) -> str:
        """What values a schema takes, in words; what has keys of its own is a link to its section."""
        if "$ref" in schema:
            return self._link(schema["$ref"].rpartition("/")[2], path)
        if "anyOf" in schema or "oneOf" in schema:
            kinds = [self.kind(option, path) for option in schema.get("anyOf") or schema["oneOf"]]
            return ", or ".join(dict.fromkeys(kinds))
        if "const" in schema or "enum" in schema:
            return ", ".join(
                f"`{json.dumps(value).strip(chr(34))}`" for value in schema.get("enum", [schema.get("const")])
            )
        match schema.get("type"):
            case "array":
                return f"list of: {self.kind(schema['items'], f'{path}[]')}" if "items" in schema else "list"
            case "object":
                values = schema.get("additionalProperties")
                return f"mapping to: {self.kind(values, f'{path}.<name>')}" if isinstance(values, dict) else "mapping"
            case "integer" | "number" as number:
                return number + _bounds(schema)
            case "boolean":
                return "`true`, `false`"
            case "null":
                return "`null`"
            case "string":
                return _cell(schema.get("patternErrorMessage", "text").removeprefix("expected "))
        return "any value"

    def _link(self, name: str, path: str) -> str:
        if "properties" not in self.definitions[name]:
            return self.kind(self.definitions[name], path)
        if name not in self.headings:
            self.headings[name] = f"`{path}`"
            self.waiting.append((f"`{path}`", name))
        heading = self.headings[name]
        anchor = "".join(sign for sign in heading.lower().replace(" ", "-") if sign.isalnum() or sign in "-_")
        return f"[{heading}](#{anchor})"


def _bounds(schema: dict[str, Any]) -> str:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum")
    lower = f" from {least}" if least is not None else f" above {above}" if above is not None else ""
    return lower + ("" if most is None else f" to {most:,}")


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    return (
        "" if "default" not in schema or value in ("", [], {}) or isinstance(value, dict) else f"`{json.dumps(value)}`"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def python_page() -> str:
    lines = [_PYTHON]
    for module, names in _NAMES.items():
        lines += [f"## {module}\n", f"{inspect.getdoc(import_module(module))}\n"]
        for name, members in names.items():
            lines += _told(getattr(import_module(module), name), members)
    lines.append("## agentic_backend.testing\n")
    for name in testing.__all__:
        value = getattr(testing, name)
        if callable(value) and inspect.getdoc(value):
            lines += _told(value, None)
    return "\n".join(lines)


def _told(value: Any, members: Collection[str] | None) -> Iterator[str]:
    """A function, or a class with these members, or all public ones: how it is written, and what is said of it."""
    source = inspect.getsource(inspect.unwrap(value))
    [node] = ast.parse(source).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    yield f"### {node.name}\n"
    if not isinstance(node, ast.ClassDef):
        yield from _function(node)
        return
    text = ast.get_docstring(node)
    if text:
        yield f"{text}\n"
    for part, after in zip_longest(node.body, node.body[1:]):
        name = getattr(part, "name", getattr(getattr(part, "target", None), "id", "_"))
        if not (name in members if members is not None else not name.startswith("_")):
            continue
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(part)
        elif isinstance(part, ast.AnnAssign):
            yield from _attribute(part, after)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    decorators = {getattr(each, "id", "") for each in node.decorator_list}
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    returns = "" if node.returns is None else ast.unparse(node.returns)
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    if decorators & {"contextmanager", "asynccontextmanager"}:
        before = "async with " if isinstance(node, ast.AsyncFunctionDef) else "with "
        returns = returns.partition("[")[2].removesuffix("]")
    is_property = decorators & {"property", "cached_property"}
    yield f"**`{node.name}: {returns}`**\n" if is_property else f"**`{before}{node.name}({arguments}) -> {returns}`**\n"
    if text := ast.get_docstring(node):
        yield f"{text}\n"


def _attribute(node: ast.AnnAssign, after: ast.stmt | None) -> Iterator[str]:
    """A field of a class, with the docstring `after` it, if there is one."""
    yield f"**`{ast.unparse(node.target)}: {ast.unparse(node.annotation)}`**\n"
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        yield " ".join(str(after.value.value).split()) + "\n"


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for file, text in pages().items():
        (REFERENCE / file).write_text(text)
