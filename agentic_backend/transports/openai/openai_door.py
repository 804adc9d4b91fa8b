"""The REST calls of this door."""

from agentic_backend.transports.door_services import DoorServices
from agentic_backend.transports.openai.chat_api import ChatCompletionsApi
from agentic_backend.transports.openai.models_api import ModelsApi
from agentic_backend.transports.openai.responses_api import ResponsesApi
from agentic_backend.transports.rest.operation import Operation


def openai_operations(services: DoorServices) -> list[Operation]:
    apis = (ModelsApi(services), ChatCompletionsApi(services), ResponsesApi(services))
    return [operation for api in apis for operation in api.operations()]
