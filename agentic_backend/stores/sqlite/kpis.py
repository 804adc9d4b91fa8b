"""Figures over KPI records as one SQL statement, which runs on the connection for reports."""

import sqlite3

from agentic_backend.stores.protocol.kpi_figures import FIELDS, GROUPS, PERCENTILES, Aggregation, KpiBucket, KpiQuery
from agentic_backend.stores.records import KpiRecord
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, first, insert, reads, reports, writes
from agentic_backend.stores.tables import KPI_RECORDS

_TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_FIELDS = {name: f"record ->> '$.{'usage.' if name in _TOKENS else ''}{name}'" for name in FIELDS}
_FIELDS["tool_calls"] = "json_array_length(record, '$.tools')"
_GROUPS = {name: f"record ->> '$.{name}'" for name in GROUPS}
# Without the fraction, which SQLite would round.
_SECOND = "unixepoch(substr(started_at, 1, 19))"


class Kpis(Part):
    @writes
    def record_kpi(self, db: sqlite3.Connection, record: KpiRecord) -> None:
        # A caller whose answer got lost records it again.
        insert(db, KPI_RECORDS, [record], replace=True)

    @reads
    def kpi_record(self, db: sqlite3.Connection, exchange_id: str) -> KpiRecord | None:
        return first(db, KPI_RECORDS, "exchange_id = ?", (exchange_id,))

    @reports
    def kpi_figures(self, db: sqlite3.Connection, query: KpiQuery) -> list[KpiBucket]:
        parameters = {
            "user_id": query.user_id,
            "start": rfc3339(query.start),
            "end": rfc3339(query.end),
            "seconds": query.seconds,
            "limit": query.limit,
        }
        groups = len(query.groupby)
        return [
            KpiBucket(row[0], tuple(row[1 : 1 + groups]), tuple(row[1 + groups :]))
            for row in db.execute(_statement(query), parameters)
        ]


def _statement(query: KpiQuery) -> str:
    """The SQL for `query`. Its names come from the tables above only; values of a client are parameters."""
    whose = "" if query.user_id is None else "user_id = :user_id AND"
    begin = "0" if query.seconds is None else f"{_SECOND} / :seconds * :seconds"
    keys = ["bucket", *(f"group_{name}" for name in query.groupby)]
    groups = [f"{_GROUPS[name]} AS group_{name}" for name in query.groupby]
    # As floating point numbers, whose sum can't overflow.
    fields = [f"CAST({_FIELDS[name]} AS REAL) AS {name}" for name in {a.field for a in query.aggregations}]
    bucket = ", ".join(keys)
    # The place of each value in its bucket, NULLs last, and the number of values.
    ranked = {a.field for a in query.aggregations if a.operation in PERCENTILES}
    places = [
        f"""row_number() OVER (PARTITION BY {bucket} ORDER BY {name} IS NULL, {name}) AS place_{name},
            count({name}) OVER (PARTITION BY {bucket}) AS count_{name}"""
        for name in ranked
    ]
    figures = [_figure(aggregation) for aggregation in query.aggregations]
    return f"""
        WITH picked AS (
            SELECT {", ".join([f"{begin} AS bucket", *groups, *fields])} FROM kpi_records
            WHERE {whose} started_at >= :start AND started_at < :end
        )
        SELECT {", ".join([*keys, *figures])} FROM (SELECT {", ".join(["*", *places])} FROM picked)
        GROUP BY {bucket} ORDER BY {bucket} LIMIT :limit
    """


def _figure(aggregation: Aggregation) -> str:
    name, operation = aggregation.field, aggregation.operation
    if operation in PERCENTILES:
        # The nearest rank: the least value that so many percent of the values don't exceed.
        rank = f"max(1, (count_{name} * {PERCENTILES[operation]} + 99) / 100)"
        return f"max(iif(place_{name} = {rank}, {name}, NULL))"
    return f"{'avg' if operation == 'mean' else operation}({name})"
