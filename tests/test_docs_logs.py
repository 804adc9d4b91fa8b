"""The log under test: each event has a constant name and its row in docs/logs.md, with its levels and its fields."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agentic_backend.telemetry.stderr_handler import DROPPED
from agentic_backend.telemetry.throttle import SUPPRESSED

CHECKOUT = Path(__file__).parents[1]
# Of the log itself, with no call that a logger sees.
OF_THE_LOG = {SUPPRESSED, DROPPED}
PACKAGE = CHECKOUT / "agentic_backend"
LEVELS = {"debug", "info", "warning", "error", "critical"}
LOGS = {*LEVELS, "exception", "log"}
LOGGERS = {"log", "_LOG"}


@cache
def sources() -> list[tuple[str, ast.AST]]:
    """The server's modules; the client's log is its user's."""
    paths = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "client" not in path.parents]
    return [(str(path.relative_to(PACKAGE)), ast.parse(path.read_text())) for path in paths]


def is_of_a_logger(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in LOGGERS


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.Attribute]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if is_of_a_logger(node.func) and node.func.attr in LOGS:
                yield node, node.func


def levels_of(call: ast.Call, method: str) -> set[str]:
    """The levels that a call may log at."""
    if method == "log":
        return {node.attr.lower() for node in ast.walk(call.args[0]) if isinstance(node, ast.Attribute)} & LEVELS
    return {"error" if method == "exception" else method}


def fields_of(call: ast.Call, method: str) -> set[str]:
    """The fields that a call names itself."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    extra = given.get("extra")
    keys = extra.keys if isinstance(extra, ast.Dict) else []
    named = {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    return named | ({"exception"} if method == "exception" or "exc_info" in given else set())


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """The levels and the fields of each event in the tables."""
    lines = (CHECKOUT / "docs" / "logs.md").read_text().splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("| `")]
    events = [row[0].strip(" `") for row in rows]
    assert len(set(events)) == len(events), "each event has one row"
    return {
        event: (set(row[1].replace(",", " ").split()), set(re.findall(r"`(\w+)`", row[2])))
        for event, row in zip(events, rows, strict=True)
    }


def test_each_event_has_a_constant_name_and_its_row() -> None:
    levels, fields = defaultdict(set), defaultdict(set)
    for where, tree in sources():
        for call, function in calls(tree):
            name = call.args[1 if function.attr == "log" else 0]
            assert isinstance(name, ast.Constant), f"{where}:{call.lineno}: the message is not constant"
            assert len(call.args) == (2 if function.attr == "log" else 1), f"{where}:{call.lineno}: has arguments"
            assert isinstance(name.value, str) and "%" not in name.value, f"{where}:{call.lineno}"
            levels[name.value] |= levels_of(call, function.attr)
            fields[name.value] |= fields_of(call, function.attr)
    told = documented()
    assert told.keys() >= OF_THE_LOG
    told = {event: row for event, row in told.items() if event not in OF_THE_LOG}
    assert {event: levels for event, (levels, _) in told.items()} == levels
    ids = {"request_id", "exchange_id", "session_id", "agent_id", "user_id"}
    missing = {event: fields[event] - fields_told - ids for event, (_, fields_told) in told.items()}
    assert {event: names for event, names in missing.items() if names} == {}


def test_no_logger_is_used_in_a_way_that_the_test_above_does_not_see() -> None:
    for where, tree in sources():
        seen = {id(function) for _, function in calls(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_of_a_logger(node) and node.attr in LOGS:
                assert id(node) in seen, f"{where}:{node.lineno}: a method of a logger that is not called at once"
            if isinstance(node, ast.Assign) and "getLogger" in ast.dump(node.value) and where != "telemetry":
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
                assert names <= {*LOGGERS, "root", "logger"}, f"{where}:{node.lineno}: a logger of another name"
