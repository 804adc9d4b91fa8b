"""The REST call that shows which settings apply to a session, and which level each value comes from."""

from typing import Any

from agentic_backend.auth.user import User
from agentic_backend.errors import SessionNotFound
from agentic_backend.policy.scopes.agents_in_scope import AgentInScope
from agentic_backend.policy.scopes.effective import LevelValue
from agentic_backend.protocol.messages import Session
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.rest.operation import FINDING, PREFIX, Operation

_PROMPTS = "prompts."


class LevelView(Value):
    """What one level sets; `file` and `line` are where."""

    level: str
    id: str | None = absent()
    value: Any = None
    file: str | None = absent()
    line: int | None = absent()


class SettingView(Value):
    """The value that applies, the level that it comes from, and what each level sets, the least specific first."""

    value: Any = None
    source: LevelView
    levels: list[LevelView]


class SessionConfigView(Value):
    """The settings that apply to a session, by name."""

    session_id: str
    agent_id: str
    scope: dict[str, str]
    settings: dict[str, SettingView]


class SessionConfigApi:
    def __init__(self, services: DoorServices) -> None:
        self._door = services
        self._sessions = services.sessions.service

    def operations(self) -> list[Operation]:
        path, errors = f"{PREFIX}/sessions/{{id}}/config", (SessionNotFound, *FINDING)
        return [Operation("GET", path, self.get_session_config, errors=errors)]

    async def get_session_config(self, user: User, id: str) -> SessionConfigView:
        """The settings that apply to a session, and which level each value comes from."""
        session, found = await self._sessions.settings_of(user, id)
        return _view(session, found, with_prompts=user.sees_details)


def _view(session: Session, found: AgentInScope, *, with_prompts: bool) -> SessionConfigView:
    def shown(name: str, told: LevelValue) -> LevelView:
        # What the system prompt says may be meant for the model alone.
        value = told.value if with_prompts or not name.startswith(_PROMPTS) else told.value is not None
        return LevelView(level=told.level, id=told.id, value=value, file=told.file, line=told.line)

    settings = {}
    for name, told in sorted(found.effective.levels.items()):
        levels = [shown(name, one) for one in told]
        if name == "chat_profile" and session.chat_profile != levels[-1].value:
            # A session keeps the profile that it began with.
            levels.append(LevelView(level="session", id=session.id, value=session.chat_profile))
        settings[name] = SettingView(value=levels[-1].value, source=levels[-1], levels=levels)
    return SessionConfigView(
        session_id=session.id, agent_id=found.agent.settings.id, scope=dict(found.scope), settings=settings
    )
