"""Every operation is told apart as a read or a write, the same in all stores."""

import ast
from collections.abc import Iterator
from pathlib import Path

from agentic_backend import stores
from agentic_backend.stores.observing import kind_of

STORES = Path(stores.__file__).parent
CHANGES = {"insert_one", "insert_many", "update_one", "update_many", "delete_one", "delete_many", "replace_one"}


def operations(store: str, *decorators: str) -> Iterator[tuple[str, ast.AST]]:
    """The operations of a store with one of these decorators, by name."""
    for file in (STORES / store).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if any(isinstance(one, ast.Name) and one.id in decorators for one in node.decorator_list):
                    yield node.name.removeprefix("_"), node


def test_what_sqlite_runs_as_a_transaction_is_a_write_and_the_rest_reads() -> None:
    writes = {name for name, _ in operations("sqlite", "writes")}
    reads = {name for name, _ in operations("sqlite", "reads", "lists", "reports")}
    assert len(writes) > 20 and len(reads) > 30
    assert {name for name in writes if kind_of(name) != "write"} == set()
    assert {name for name in reads if kind_of(name) != "read"} == set()


def test_what_changes_a_document_in_mongodb_is_a_write() -> None:
    changing = {
        name
        for name, node in operations("mongo", "operation")
        if any(isinstance(part, ast.Attribute) and part.attr in CHANGES for part in ast.walk(node))
    }
    assert len(changing) > 15
    assert {name for name in changing if kind_of(name) != "write"} == set()
