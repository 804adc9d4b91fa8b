"""The settings `policies` and `modules`: where the files are that say what applies where, and what looks at texts."""

from pathlib import Path

from pydantic import Field

from agentic_backend.config.setting_types import AnyPath, Section

DEFAULT_FILE = Path("config", "policies.yaml")


class ModulesSettings(Section):
    """The settings `modules`: where modules are listed."""

    file: AnyPath | None = Field(
        None,
        description="The file that lists the modules; `null` is `./config/modules.yaml` if it is there, else the "
        "shipped file, in which all are switched off.",
    )


class PoliciesSettings(Section):
    file: AnyPath | None = Field(
        None, description="The file with these settings; `null` is `config/policies.yaml` if it is there, else none."
    )

    @property
    def path(self) -> Path | None:
        """The file to read; None if there is none to read."""
        if self.file is not None:
            return self.file
        return DEFAULT_FILE if DEFAULT_FILE.is_file() else None
