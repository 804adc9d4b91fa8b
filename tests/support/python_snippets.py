"""Python in the documentation that is no whole file: what it takes from its surroundings, and how it is run."""

import ast
import builtins
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_IMPORTS = {
    "Any": "typing",
    "AgentFlow": "agentic_backend.agents.agent_flow",
    "AwaitingHuman": "agentic_backend.client",
    "BaseModel": "pydantic",
    "Delta": "agentic_backend.client",
    "Reset": "agentic_backend.client",
    "RunnableConfig": "langchain_core.runnables",
    "Started": "agentic_backend.client",
    "ToolRuntime": "langchain.tools",
    "asynccontextmanager": "contextlib",
    "background": "agentic_backend.agents.background",
    "create_agent": "langchain.agents",
    "edit": "agentic_backend.client",
    "reject": "agentic_backend.client",
    "tool": "langchain_core.tools",
}
"""What a fragment may use without importing it: names that the text around it, or everybody's habit, tells apart."""


def compiled(code: str) -> Any:
    """Compiled as the body of an asynchronous function may be."""
    return compile(code, "<documentation>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def missing_names(code: str, given: Mapping[str, Any] | frozenset[str] = frozenset()) -> set[str]:
    """The names that a fragment uses and that nobody has: neither itself, nor Python, nor its surroundings."""
    nodes = list(ast.walk(ast.parse(code)))
    known = {*dir(builtins), *_IMPORTS, *given}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                known.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                known.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                known |= {alias.asname or alias.name for alias in names}
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                known.add(name)
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used - known


def is_only_definitions(code: str) -> bool:
    """Whether running it defines names, and does nothing else."""
    defining = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return all(isinstance(node, defining) for node in ast.parse(code).body)


async def run(code: str, **given: Any) -> dict[str, Any]:
    """Run a fragment with what it uses of its surroundings; return its names."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    names = {name: getattr(import_module(module), name) for name, module in _IMPORTS.items() if name in used}
    names |= {"__name__": "documentation", **given}
    result = eval(compiled(code), names)
    if result is not None:
        await result
    return names
