"""The settings `modules`: where modules are listed, and how long they may take together."""

from pydantic import Field

from agentic_backend.config.setting_types import AnyPath, Seconds, Section


class ModulesSettings(Section):
    file: AnyPath | None = Field(
        None,
        description="The file that lists the modules; `null` is `./config/modules.yaml` if it is there, else the "
        "shipped file, in which all are switched off.",
    )
    point_timeout_s: Seconds = Field(
        10,
        description="How long all modules of one point may take together for one text, in seconds; those that are left "
        "then count as failed.",
    )
