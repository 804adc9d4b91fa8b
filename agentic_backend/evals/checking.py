"""The checks that need no model: each says of an observation whether it has passed. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import re2  # type: ignore[import-untyped]

from agentic_backend.evals.eval_file import Checks, ToolCalled
from agentic_backend.evals.observation import Observation
from agentic_backend.evals.results import CheckResult
from agentic_backend.sessions.waiting.input_check import TooManySteps, mismatch

_EXCERPT = 200
_FENCED = re.compile(r"\s*```\w*\n(?P<inside>.*?)\n?```\s*", re.DOTALL)

_Failures = Iterator[str]
"""Why a check has failed; nothing if it has passed."""


def check_all(checks: Checks, seen: Observation) -> list[CheckResult]:
    """A result for each check that is given, and for the status."""
    results = []
    for name, failures in _CHECKS.items():
        if name == "status" or getattr(checks, name) not in ((), None):
            said = "; ".join(failures(checks, seen))
            results.append(CheckResult(check=name, passed=not said, said=said))
    return results


def _status(checks: Checks, seen: Observation) -> _Failures:
    if seen.status != checks.status:
        why = "" if seen.error is None else f", {seen.error}"
        yield f"expected {checks.status}, ended with {seen.status or 'nothing'}{why}"


def _contains(checks: Checks, seen: Observation) -> _Failures:
    missing = [text for text in checks.contains if text not in seen.answer]
    yield from (f"{text!r} is not in {_excerpt(seen.answer)}" for text in missing)


def _not_contains(checks: Checks, seen: Observation) -> _Failures:
    yield from (f"{text!r} is in the answer" for text in checks.not_contains if text in seen.answer)


def _regex(checks: Checks, seen: Observation) -> _Failures:
    missing = [pattern for pattern in checks.regex if re2.search(pattern, seen.answer) is None]
    yield from (f"{pattern!r} is not found in {_excerpt(seen.answer)}" for pattern in missing)


def _json_schema(checks: Checks, seen: Observation) -> _Failures:
    fenced = _FENCED.fullmatch(seen.answer)
    try:
        value = json.loads(fenced["inside"] if fenced else seen.answer, parse_constant=_refuse)
    except (ValueError, RecursionError):
        yield f"the answer is not JSON: {_excerpt(seen.answer)}"
        return
    try:
        error = mismatch(value, checks.json_schema or {})
    except TooManySteps:
        yield "the answer takes too long to check"
        return
    # The library raises whatever a schema that fits no value leads to.
    except Exception as unusable:
        yield f"the schema can't be followed: {unusable}"
        return
    if error is not None:
        yield f"{error.json_path}: {error.message[:_EXCERPT]}"


def _refuse(constant: str) -> NoReturn:
    """For `NaN` and the like, which Python takes for JSON."""
    raise ValueError(constant)


def _tool_called(checks: Checks, seen: Observation) -> _Failures:
    for wanted in checks.tool_called:
        if not any(_is_call(wanted, call.name, call.args) for call in seen.calls.values()):
            with_args = f" with {json.dumps(wanted.args, default=str)}" if wanted.args else ""
            yield f"no call of {wanted.name!r}{with_args}; {_calls(seen)}"


def _tool_not_called(checks: Checks, seen: Observation) -> _Failures:
    called = {call.name for call in seen.calls.values()}
    yield from (f"{name!r} was called" for name in checks.tool_not_called if name in called)


def _max_latency_s(checks: Checks, seen: Observation) -> _Failures:
    longest = max(seen.latencies_s, default=0.0)
    if checks.max_latency_s is not None and longest > checks.max_latency_s:
        yield f"an answer took {longest:.2f} s, more than {checks.max_latency_s:g} s"


def _max_tokens(checks: Checks, seen: Observation) -> _Failures:
    if seen.tokens is None:
        yield "no model has told how many tokens it took"
    elif checks.max_tokens is not None and seen.tokens > checks.max_tokens:
        yield f"{seen.tokens} tokens, more than {checks.max_tokens}"


# In the order of the reports.
_CHECKS: Mapping[str, Callable[[Checks, Observation], _Failures]] = {
    "status": _status,
    "contains": _contains,
    "not_contains": _not_contains,
    "regex": _regex,
    "json_schema": _json_schema,
    "tool_called": _tool_called,
    "tool_not_called": _tool_not_called,
    "max_latency_s": _max_latency_s,
    "max_tokens": _max_tokens,
}


def _is_call(wanted: ToolCalled, name: str, args: Mapping[str, Any]) -> bool:
    return wanted.name == name and _has(args, wanted.args)


def _has(value: Any, wanted: Any) -> bool:
    """Whether `value` is `wanted`, where mappings may have more keys."""
    if isinstance(wanted, Mapping) and isinstance(value, Mapping):
        return all(key in value and _has(value[key], part) for key, part in wanted.items())
    return bool(value == wanted)


def _calls(seen: Observation) -> str:
    calls = [f"{call.name}({json.dumps(call.args)[:_EXCERPT]})" for call in seen.calls.values()]
    return f"called: {', '.join(calls)}" if calls else "no tool was called"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= _EXCERPT else text[:_EXCERPT] + "…")
