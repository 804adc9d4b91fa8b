"""Logs: lines with the related ids, as JSON or for people at a terminal; never tokens, never message texts.

Other packages are logged from level warning up, whatever level they set: below that they quote requests.
"""

from agentic_backend.telemetry.configuration import (
    LogForm,
    configure_logging,
    hold_records,
    is_holding_records,
    know_secrets,
    log_lines_lost,
    log_stalled_s,
    set_log_level,
)
from agentic_backend.telemetry.formatters import ConsoleFormatter, JsonFormatter
from agentic_backend.telemetry.log_tail import LogTail
from agentic_backend.telemetry.stderr_handler import StderrHandler
from agentic_backend.telemetry.story import Told, story_of

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "LogForm",
    "LogTail",
    "StderrHandler",
    "Told",
    "configure_logging",
    "hold_records",
    "is_holding_records",
    "know_secrets",
    "log_lines_lost",
    "log_stalled_s",
    "set_log_level",
    "story_of",
]
