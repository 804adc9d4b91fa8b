from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field


class Invoice(BaseModel):
    """An invoice."""

    sender: str
    francs: float = Field(ge=0)


def build(model: BaseChatModel):
    return create_agent(model, tools=[], response_format=ToolStrategy(Invoice), system_prompt="You read invoices.")
