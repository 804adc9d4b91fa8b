from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import ToolException, tool

RATES = {"EUR": 1.05, "USD": 1.25}


@tool
async def convert(amount: float, to: str) -> str:
    """Convert an amount of Swiss francs into another currency, such as EUR."""
    if to not in RATES:
        raise ToolException(f"There is no rate for {to}; there are {', '.join(RATES)}.")
    return f"{amount * RATES[to]:.2f} {to}"


# The model reads the failure, and can go on.
convert.handle_tool_error = True


def build(model: BaseChatModel):
    return create_agent(model, tools=[convert], system_prompt="You convert currencies with your tool.")
