"""Reports how long each operation of a store takes, whether it reads or writes, and whether the store answered."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from agentic_backend.errors import StoreUnavailable
from agentic_backend.system_errors import Away
from agentic_backend.tracing.spans import CLIENT, spanned

log = logging.getLogger(__name__)

SLOW_S = 0.25
"""As the alert StoreSlow has it."""

Kind = Literal["read", "write"]

Observer = Callable[[str, Kind, float, Away | None], None]
"""Called after each operation of a store with its name, what it does, its duration in seconds, and why the store did
not answer; None if it did."""

# The operations of all stores that may change something; the others only read.
_WRITES = frozenset(
    {
        "add_agent_versions",
        "add_chunk",
        "add_file",
        "add_partials",
        "add_trail",
        "append",
        "attach",
        "attach_one",
        "beat",
        "begin_attachment",
        "begin_exchange",
        "change_session",
        "claim_chore",
        "clear_sessions",
        "complete_rows",
        "complete_session",
        "copy",
        "copy_checkpoint",
        "copy_session",
        "create_session",
        "decide",
        "delete_attachments",
        "delete_application_records",
        "delete_hidden_usage",
        "delete_old",
        "delete_session",
        "delete_user_rows",
        "detach",
        "drop_contents",
        "end_deletion",
        "erase",
        "finish_ends",
        "forget_agent",
        "forget_instance",
        "forget_pieces",
        "fork_session",
        "hide_usage",
        "index_texts",
        "keep_attachment",
        "keep_deletion",
        "keep_journal_mark",
        "keep_partials",
        "keep_summary",
        "mark_removed",
        "migrate",
        "name_session",
        "open",
        "open_application_records",
        "prove_write",
        "write_application_records",
        "put_items",
        "record_kpi",
        "remove_trail",
        "reset_state",
        "set_waiting",
    }
)


def ignore() -> None:
    """What is done about a suspected damage of a database that watches itself."""


@contextmanager
def observed(
    observe: Observer | None, operation: str, system: str, why_away: Callable[[BaseException], Away]
) -> Iterator[None]:
    """Report the operation in this context to `observe`, and to the trace; `system` is the kind of the database.

    `why_away` reads the error of the driver's that a StoreUnavailable comes from.
    """
    began, why = time.perf_counter(), None
    try:
        with spanned(operation, CLIENT, {"db.system.name": system, "db.operation.name": operation}):
            yield
    except StoreUnavailable as error:
        why = why_away(error.__cause__ or error)
        raise
    finally:
        took_s = time.perf_counter() - began
        if took_s > SLOW_S and why is None:
            # What fails is told with its reason.
            log.warning("store answers late", extra={"operation": operation, "took_ms": round(took_s * 1000)})
        if observe is not None:
            observe(operation, kind_of(operation), took_s, why)


def kind_of(operation: str) -> Kind:
    return "write" if operation in _WRITES else "read"
