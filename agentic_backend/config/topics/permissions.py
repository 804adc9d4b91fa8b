"""The settings `permissions`: what the users with each role may do by way of tools."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from agentic_backend.config.setting_types import NonEmpty, Section

EVERYBODY = "*"

PERMISSIONS = "permissions"
"""The key of a tool's metadata that has the permissions that it needs."""

Permission = Annotated[
    str,
    Field(
        pattern=r"^[\w.*-]+(:[\w.*-]+){0,7}$",
        json_schema_extra={"expected": "a permission such as 'todos:write:self', or a pattern such as 'todos:*:self'"},
    ),
]
ToolNeeds = dict[NonEmpty, Annotated[tuple[Permission, ...], Field(strict=False)]]
"""The permissions that tools need, by the tool's name or by a pattern of names."""


def needed_by(needs: Mapping[str, Sequence[str]], names: Collection[str]) -> list[str]:
    """The permissions that a tool needs which is meant by any of these names."""
    meant = (permissions for pattern, permissions in needs.items() if means(pattern, names))
    return list(dict.fromkeys(one for permissions in meant for one in permissions))


def means(pattern: str, names: Collection[str]) -> bool:
    """Whether `pattern`, or the name that it is, means a tool with any of these names."""
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def lacked(granted: Collection[str] | None, needed: Collection[str]) -> list[str]:
    """Those of the permissions that nothing of what is granted, as patterns, means; None grants everything."""
    if granted is None:
        return []
    return [need for need in needed if not any(fnmatchcase(need, pattern) for pattern in granted)]


class PermissionsSettings(Section):
    roles: dict[NonEmpty, Annotated[tuple[Permission, ...], Field(strict=False)]] = Field(
        {},
        description="The permissions of the users with each role, as patterns such as `todos:*:self`; those under `*` "
        "are everybody's. Without any role, everybody may use every tool.",
    )

    def granted_to(self, roles: Collection[str]) -> frozenset[str] | None:
        """The patterns of what a user with these roles may do; None is everything."""
        if not self.roles:
            return None
        return frozenset(one for role in (*roles, EVERYBODY) for one in self.roles.get(role, ()))
