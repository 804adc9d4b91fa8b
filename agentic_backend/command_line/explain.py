"""`agentic-backend explain EXCHANGE`: one exchange's story from the store, its KPI record and the log, for operators.

It reads only, beside a running server too. What people, models and tools have said is shown with `--content` only.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agentic_backend.config.settings import Settings
from agentic_backend.errors import StoreUnavailable
from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.base import Store
from agentic_backend.stores.checking import require_up_to_date
from agentic_backend.stores.opening import CannotOpenStore, open_store, sqlite_file
from agentic_backend.stores.protocol.trail import (
    AuditRecord,
    ModuleErrorRecord,
    ToolCallRecord,
    TrailQuery,
    UsageRecord,
)
from agentic_backend.stores.records import ExchangeRecord, KpiRecord, MessageRecord
from agentic_backend.system_errors import reason_of, summary_of
from agentic_backend.telemetry.formatters import printable

log = logging.getLogger(__name__)

R = TypeVar("R", AuditRecord, ModuleErrorRecord, ToolCallRecord, UsageRecord)

_PAGE, _MOST_ROWS, _MOST_LINES = 500, 10_000, 10_000
_LONGEST_LINE, _LONGEST_TEXT = 1024 * 1024, 2_000
# Of a log line, what the head of the story or the line itself has already.
_KNOWN = frozenset({"time", "message", "exchange_id", "request_id", "trace_id", "session_id", "agent_id", "user_id"})


class UnknownExchange(Exception):
    """Neither the exchange nor a KPI record of it is stored."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """One line of the story. `facts` are shown as `name=value`, those that are None are not."""

    at: datetime
    what: str = field(compare=False)
    facts: Mapping[str, object] = field(default_factory=dict, compare=False)
    text: str = field(default="", compare=False)


def explain(exchange_id: str, settings: Settings, log_file: Path | None, *, content: bool) -> int:
    """Print the story; return the exit status: 0, or 1 if it can't be told."""
    try:
        file = sqlite_file(settings.store.url, settings.data.directory)
        if file is not None and not file.is_file():
            raise CannotOpenStore(f"{file}: there is no such file")
        if file is not None:
            require_up_to_date(file, settings.store.timeout_s)
        lines = asyncio.run(_story(exchange_id, settings, log_file, content=content))
    except OSError as error:
        return _failed(reason_of(error))
    except StoreUnavailable as error:
        return _failed(f"the database does not answer ({summary_of(error.__cause__ or error)})")
    except (CannotOpenStore, UnknownExchange) as error:
        return _failed(error)
    for line in lines:
        print(line)
    return 0


async def _story(exchange_id: str, settings: Settings, log_file: Path | None, *, content: bool) -> list[str]:
    """Raises UnknownExchange, CannotOpenStore, StoreUnavailable, and OSError for the log."""
    async with aclosing(await open_store(settings, lambda *_: None)) as store:
        record, kpi = await store.get_exchange(exchange_id), await store.kpi_record(exchange_id)
        if record is None and kpi is None:
            raise UnknownExchange(f"there is no exchange {exchange_id!r} in this database")
        moments = [moment async for moment in _stored(store, exchange_id, content=content)]
    if record is not None:
        moments += _of_record(record, content=content)
    if kpi is not None:
        moments += _of_kpi(kpi, is_query=record is None)
    request_id = record.request_id if record is not None else None
    if log_file is not None:
        moments += _logged(log_file, exchange_id, request_id)
    return [*_head(exchange_id, record, kpi), "", *_timeline(sorted(moments))]


def _head(exchange_id: str, record: ExchangeRecord | None, kpi: KpiRecord | None) -> Iterator[str]:
    """What holds for the exchange as a whole."""
    told = record or kpi
    assert told is not None
    trace = record.traceparent.split("-")[1] if record is not None and record.traceparent else None
    facts: dict[str, object] = {
        "exchange": exchange_id,
        "status": told.status,
        "agent": told.agent_id,
        "user": told.user_id,
        "session": told.session_id or "none, it was a query",
        "request": record.request_id if record is not None else None,
        "trace": trace,
        "resumes": record.resumes if record is not None else None,
        "owner": record.owner if record is not None else None,
    }
    if kpi is not None:
        facts |= {
            "took": f"{kpi.latency_ms} ms, first token after {_or_never(kpi.first_token_ms)}",
            "tokens": f"{kpi.usage.input_tokens} in, {kpi.usage.output_tokens} out" if kpi.usage else None,
            "tools": ", ".join(kpi.tools) + (f" ({kpi.failed_tools} failed)" if kpi.failed_tools else "") or None,
        }
    for name, value in facts.items():
        if value is not None:
            yield f"{name + ':':<10} {printable(str(value))}"


def _or_never(milliseconds: int | None) -> str:
    return "no time: there was none" if milliseconds is None else f"{milliseconds} ms"


def _of_record(record: ExchangeRecord, *, content: bool) -> Iterator[Moment]:
    yield Moment(record.started_at, "exchange begins")
    for made in record.decisions:
        said = made.model_dump_json(include={"args", "edited_args", "message", "answer"}) if content else ""
        yield Moment(made.at, f"decision: {made.action}", {"tool": made.name, "by": made.by}, said)
    if record.checkpoint is not None:
        yield Moment(
            record.checkpoint.at, "checkpoint", {"kind": record.checkpoint.kind, "tool": record.checkpoint.tool}
        )
    if record.pending is not None:
        waits = {"for": len(record.pending.requests), "expires": record.pending.expires_at}
        yield Moment(record.checkpoint.at if record.checkpoint else record.started_at, "waits for a person", waits)
    if record.ended_at is not None:
        error = record.error
        why = {"code": error.code, "whose": error.whose, "retryable": error.retryable} if error is not None else {}
        yield Moment(record.ended_at, "exchange ends", {"status": record.status, **why})


def _of_kpi(kpi: KpiRecord, *, is_query: bool) -> Iterator[Moment]:
    if is_query:
        yield Moment(kpi.started_at, "query begins")
    if kpi.first_token_ms is not None:
        yield Moment(kpi.started_at + timedelta(milliseconds=kpi.first_token_ms), "first token", {"model": kpi.model})
    if is_query:
        ended_at = kpi.started_at + timedelta(milliseconds=kpi.latency_ms)
        yield Moment(ended_at, "query ends", {"status": kpi.status})


async def _stored(store: Store, exchange_id: str, *, content: bool) -> AsyncIterator[Moment]:
    for message in await store.exchange_messages(exchange_id):
        yield _of_message(message, content=content)
    for activity in await store.activities_of([exchange_id]):
        yield Moment(activity.at, f"activity: {activity.kind}", {"after_rank": activity.after_rank})
    for call in await _rows(store, ToolCallRecord, exchange_id):
        facts = {"state": call.state, "ms": call.duration_ms, "approved_by": call.approved_by, "runs_on": call.runs_on}
        yield Moment(call.at, f"tool: {call.name}", facts)
    for used in await _rows(store, UsageRecord, exchange_id):
        cost = f"{used.cost} {used.currency}" if used.cost is not None else None
        tokens = {"in": used.input_tokens, "out": used.output_tokens, "estimated": used.estimated}
        yield Moment(used.at, f"model: {used.model}", {**tokens, "cost": cost, "for": used.purpose})
    for failed in await _rows(store, ModuleErrorRecord, exchange_id):
        how = {"at": failed.point, "error": failed.error, "ms": failed.duration_ms, "outcome": failed.outcome}
        yield Moment(failed.at, f"module failed: {failed.module}", how)
    for audit in await _rows(store, AuditRecord, exchange_id):
        yield Moment(audit.at, f"module {audit.action} a text: {audit.module}", {"at": audit.point, "rank": audit.rank})


async def _rows(store: Store, record: type[R], exchange_id: str) -> list[R]:
    rows: list[R] = []
    cursor: str | None = None
    while len(rows) < _MOST_ROWS:
        query = TrailQuery(record, {"exchange_id": exchange_id}, limit=_PAGE, cursor=cursor)
        page = await store.trail(query)
        rows += page.records
        cursor = page.next_cursor
        if cursor is None:
            break
    return rows


def _of_message(message: MessageRecord, *, content: bool) -> Moment:
    kinds = ",".join(dict.fromkeys(part.type for part in message.parts))
    size = sum(len(part.model_dump_json()) for part in message.parts)
    facts = {"rank": message.rank, "parts": kinds, "bytes": size, "ms": message.metadata.latency_ms}
    text = text_of(message.parts)[:_LONGEST_TEXT] if content else ""
    return Moment(message.timestamp, f"message: {message.role}/{message.channel}", facts, text)


def _logged(file: Path, exchange_id: str, request_id: str | None) -> Iterator[Moment]:
    """The exchange's lines of a log in JSON, and those of its request; what is no such line is skipped."""
    found = 0
    with file.open(encoding="utf-8", errors="replace") as lines:
        while found < _MOST_LINES and (line := lines.readline(_LONGEST_LINE)):
            if exchange_id not in line and (request_id is None or request_id not in line):
                continue
            try:
                told = json.loads(line)
                at = datetime.fromisoformat(told["time"])
            except (ValueError, KeyError, TypeError):
                continue
            if told.get("exchange_id", exchange_id if told.get("request_id") == request_id else None) != exchange_id:
                continue
            found += 1
            facts = {name: _short(value) for name, value in told.items() if name not in _KNOWN}
            yield Moment(at, f"log: {told.get('message')}", facts)


def _short(value: object) -> str | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value))[:300]


def _timeline(moments: Sequence[Moment]) -> Iterable[str]:
    began = moments[0].at if moments else None
    for moment in moments:
        assert began is not None
        after_s = (moment.at - began).total_seconds()
        facts = "  ".join(f"{name}={value}" for name, value in moment.facts.items() if value is not None)
        time = moment.at.isoformat(timespec="milliseconds")[11:23]
        yield printable(f"{time}  +{after_s:9.3f}s  {moment.what}{'  ' + facts if facts else ''}")
        for line in moment.text.splitlines():
            yield printable(f"{'':26}| {line}")


def _failed(reason: Any) -> int:
    log.error("exchange can't be explained", extra={"reason": str(reason)})
    return 1
