"""The setting `applications`: which applications a server loads, each with its own settings."""

from typing import Any

from pydantic import Field

from agentic_backend.config.setting_types import ClassPath, Section


class ApplicationEntry(Section):
    """One application. One that an installed package names among its entry points needs an entry only to change it."""

    class_path: ClassPath = Field(description="`module:name` of a subclass of Application.")
    enabled: bool = Field(True, description="Whether it is loaded.")
    settings: dict[str, Any] = Field(default_factory=dict, repr=False, description="The application's own settings.")
