"""New agent: a person approves of each mail before it is sent."""

from agentic_backend.agents.agent_flow import AgentFlow
from langchain.agents import create_agent
from langchain_core.tools import tool

PROMPT = "You write mails for the user, and send them with your tool."


@tool
async def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    # Put your way to send it here.
    return f"Sent {len(text)} characters to {to}."


class NewAgent(AgentFlow):
    tool_names = (send_mail.name,)

    async def async_init(self) -> None:
        self._graph = create_agent(
            self.chat_model(),
            tools=[send_mail],
            # The first of them asks before a tool runs that the catalog entry names.
            middleware=[*self.approval_middleware(), self.prompt_middleware()],
        )

    def system_prompt(self) -> str:
        return self.tuned("system_prompt", PROMPT)

    def get_compiled_graph(self):
        return self._graph
