"""New agent: an application, which adds calls to a server (docs/applications.md)."""

from collections.abc import Sequence

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    Call,
    User,
    Value,
)


class Greeting(Value):
    """A greeting."""

    text: str


class NewAgent(Application):
    """Greets people."""

    id = "new-agent"
    title = "New agent"
    version = "0.1.0"

    class Settings(ApplicationSettings):
        greeting: str = "Hello"

    def calls(self) -> Sequence[Call]:
        return [Call("GET", "/greetings/{name}", self.greet)]

    async def greet(self, user: User, name: str) -> Greeting:
        """Greet somebody."""
        return Greeting(text=f"{self.settings.greeting}, {name}!")
