"""Sums over usage records as one SQL statement."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from agentic_backend.stores.protocol.usage_sums import UsageAdding, UsageQuery, UsageSum
from agentic_backend.stores.rows import rfc3339
from agentic_backend.stores.sqlite.operation_base import Part, lists, reports
from agentic_backend.stores.tables import USAGE

_COLUMNS = {column.field: column.name for column in USAGE.columns}
_FIGURES = """count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    sum(cost) AS cost"""


class Usage(Part):
    async def usage_sums(self, query: UsageQuery) -> list[UsageSum]:
        # What one user or group has spent is read before their asks, which must not wait for reports.
        is_one_sum = not query.by and (query.user_id or query.group)
        is_short = is_one_sum or query.session_id or query.exchange_id
        return await (self.short_usage_sums(query) if is_short else self.long_usage_sums(query))

    @lists
    def short_usage_sums(self, db: sqlite3.Connection, query: UsageQuery) -> list[UsageSum]:
        return _sums(db, query)

    @reports
    def long_usage_sums(self, db: sqlite3.Connection, query: UsageQuery) -> list[UsageSum]:
        return _sums(db, query)


def _sums(db: sqlite3.Connection, query: UsageQuery) -> list[UsageSum]:
    adding = UsageAdding(query)
    adding.add(map(dict, db.execute(*_statement(query))))
    return adding.sums()


def _statement(query: UsageQuery) -> tuple[str, Mapping[str, Any]]:
    """The SQL for `query` and its parameters. Names come from the table only."""
    conditions = [f"{_COLUMNS[name]} = :{name}" for name in query.where]
    parameters: dict[str, Any] = {**query.where, "limit": query.limit}
    for sign, name, time in ((">=", "since", query.since), ("<", "until", query.until)):
        if time is not None:
            conditions.append(f"at {sign} :{name}")
            parameters[name] = rfc3339(time)
    keys = [_COLUMNS[name] for name in query.by]
    figures = f"{_FIGURES}, sum(estimated) AS estimated" if query.counts_estimated else _FIGURES
    named = [f'{_COLUMNS[name]} AS "{name}"' for name in query.by]
    # A sum has a row for each of its currencies, so take all rows of the first sums.
    place = f", dense_rank() OVER (ORDER BY {', '.join(keys)}) AS place" if keys else ", 1 AS place"
    picked = f"""
        SELECT {", ".join([*named, "currency", figures])}{place} FROM usage
        WHERE {" AND ".join(conditions) or "true"} GROUP BY {", ".join([*keys, "currency"])}
    """
    return f"SELECT * FROM ({picked}) WHERE place <= :limit", parameters
