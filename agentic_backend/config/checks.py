"""CheckFailed: what `agentic-backend validate --deep` raises for a neighbour that does not do what the settings say."""


class CheckFailed(Exception):
    """The text is the cause in plain words, without secrets; `change` says what to change, if that is known."""

    def __init__(self, cause: str, change: str = "") -> None:
        super().__init__(cause)
        self.change = change
