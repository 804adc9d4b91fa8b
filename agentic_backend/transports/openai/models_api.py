"""The REST calls that list the agents of the caller, as models."""

from typing import Literal, Self

from pydantic import ConfigDict

from agentic_backend.agents.agent_manager import CatalogAgent
from agentic_backend.auth.user import User
from agentic_backend.errors import AgentNotFound
from agentic_backend.protocol.parts import Value, absent
from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.openai.errors import OpenAIError
from agentic_backend.transports.rest.operation import FINDING, Operation


class OpenAIModel(Value):
    """An agent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "assistant",
                    "object": "model",
                    "created": 0,
                    "owned_by": "agentic-backend",
                    "name": "Assistant",
                }
            ]
        }
    )

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    """Agents have no date."""
    owned_by: str = "agentic-backend"
    name: str
    """What people call it."""
    description: str | None = absent()

    @classmethod
    def of(cls, agent: CatalogAgent) -> Self:
        settings = agent.settings
        return cls(id=settings.id, name=settings.name, description=settings.description or None)


class OpenAIModels(Value):
    """The agents that the caller may ask."""

    object: Literal["list"] = "list"
    data: list[OpenAIModel]


class ModelsApi:
    def __init__(self, services: DoorServices) -> None:
        self._agents = services.agents

    def operations(self) -> list[Operation]:
        return [
            Operation("GET", "/v1/models", self.list_models, error_form=OpenAIError),
            Operation("GET", "/v1/models/{id}", self.get_model, errors=FINDING, error_form=OpenAIError),
        ]

    async def list_models(self, user: User) -> OpenAIModels:
        """The agents that the caller may ask, each as a model."""
        return OpenAIModels(data=list(map(OpenAIModel.of, self._agents.served_for(user))))

    async def get_model(self, user: User, id: str) -> OpenAIModel:
        """One agent, as a model."""
        found = next((agent for agent in self._agents.served_for(user) if agent.settings.id == id), None)
        if found is None:
            raise AgentNotFound
        return OpenAIModel.of(found)
